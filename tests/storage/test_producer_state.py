"""Producer state: snapshots contain everything, and duplicates are distinguished from gaps."""

from __future__ import annotations

from random import Random

import pytest

from chronik.runtime.pieces import at_once
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CoordinatorFenced, InvalidProducerEpoch, OutOfOrderSequence
from chronik.storage.producer_state import ProducerState
from tests.storage.driving import append, batch, marker, open_logs, run, topic_id


def written(state: ProducerState, sequence: int, offset: int, *, epoch: int = 0, count: int = 1) -> None:
    last = sequence + count - 1
    state.append(7, epoch, sequence, last, offset, offset + count - 1, 1000, transactional=False)


def test_the_last_five_batches_are_recognised() -> None:
    state = ProducerState()
    for index in range(8):
        written(state, index * 2, index * 2, count=2)
    for index in range(3, 8):
        found = state.check(7, 0, index * 2, index * 2 + 1)
        assert found is not None
        assert (found.first_offset, found.last_offset) == (index * 2, index * 2 + 1)
    for first, last in [(4, 5), (15, 16), (14, 14), (17, 17)]:
        with pytest.raises(OutOfOrderSequence):
            state.check(7, 0, first, last)
    assert state.check(7, 0, 16, 16) is None


def test_a_new_epoch_starts_at_zero_and_fences_the_old() -> None:
    """A restarted producer must not be mixed up with its former self."""
    state = ProducerState()
    written(state, 0, 0, epoch=3)
    with pytest.raises(OutOfOrderSequence):
        state.check(7, 4, 1, 1)
    assert state.check(7, 4, 0, 0) is None
    written(state, 0, 1, epoch=4)
    with pytest.raises(InvalidProducerEpoch):
        state.check(7, 3, 1, 1)
    state.end_transaction(7, 6, 2, 5, 1000, committed=True)
    with pytest.raises(InvalidProducerEpoch):
        state.check(7, 5, 0, 0)
    with pytest.raises(CoordinatorFenced):
        state.check_marker(7, 6, 1)


def test_a_marker_that_raises_the_epoch_starts_the_sequence_at_zero() -> None:
    """The first batch of the next transaction may be lost on the way. If the second one were accepted as the first, the
    retry of the first could no longer be written."""
    state = ProducerState()
    written(state, 0, 0, epoch=3)
    state.end_transaction(7, 4, 0, 1, 1000, committed=True)
    state.end_transaction(8, 4, 0, 2, 1000, committed=True)  # of which no batch was ever here
    for producer_id in (7, 8):
        with pytest.raises(OutOfOrderSequence):
            state.check(producer_id, 4, 1, 1)
        assert state.check(producer_id, 4, 0, 0) is None


def test_an_expired_producer_starts_anew_but_not_in_a_transaction() -> None:
    state = ProducerState()
    written(state, 0, 0)
    state.append(8, 0, 0, 0, 1, 1, 1000, transactional=True)
    at_once(state.expiring(now_ms=1000, expiration_ms=1000))
    at_once(state.expiring(now_ms=2000, expiration_ms=1000))
    assert list(state.producers) == [7, 8]
    at_once(state.expiring(now_ms=2001, expiration_ms=1000))
    assert list(state.producers) == [8]
    assert state.check(7, 0, 5, 5) is None


def test_a_producer_of_old_records_is_not_forgotten_while_it_writes() -> None:
    """Records of a backfill are years old when they arrive; a retry of theirs is a duplicate all the same."""
    state = ProducerState()
    for sequence in range(3):
        now_ms = 1_800_000_000_000 + sequence * 15_000
        state.append(7, 0, sequence, sequence, sequence, sequence, 1_600_000_000_000, transactional=False)
        at_once(state.expiring(now_ms, expiration_ms=86_400_000))
        at_once(state.expiring(now_ms + 1, expiration_ms=86_400_000))
    assert state.check(7, 0, 2, 2) is not None


@pytest.mark.parametrize("seed", range(40))
def test_a_snapshot_holds_everything(seed: int) -> None:
    """A restart in the middle of a history changes no later answer."""
    random = Random(seed)
    state = ProducerState()
    sequences: dict[int, int] = {}
    for offset in range(60):
        producer = random.randrange(4)
        if random.random() < 0.6:
            sequence = sequences.get(producer, 0)
            state.append(producer, 0, sequence, sequence, offset, offset, 1000, transactional=random.random() < 0.5)
            sequences[producer] = sequence + 1
        else:
            state.end_transaction(producer, 0, 0, offset, 1000, committed=random.random() < 0.5)
        if random.random() < 0.1:
            again = ProducerState.decode(state.encode())
            assert again.encode() == state.encode()
            for high_watermark in range(offset - 5, offset + 2):
                assert again.last_stable_offset(high_watermark) == state.last_stable_offset(high_watermark)
            state = again


def test_the_stable_offset_agrees_with_a_list_of_transactions() -> None:
    """The dumb twin keeps every transaction with its first and last offset."""
    random = Random(1)
    state = ProducerState()
    open_ones: dict[int, int] = {}
    ended: list[tuple[int, int]] = []
    high_watermark = 0
    for offset in range(500):
        producer = random.randrange(6)
        if random.random() < 0.7:
            state.append(producer, 0, 0, 0, offset, offset, 1, transactional=True)
            open_ones.setdefault(producer, offset)
        else:
            state.end_transaction(producer, 0, 0, offset, 1, committed=True)
            if producer in open_ones:
                ended.append((open_ones.pop(producer), offset))
        high_watermark = random.randint(high_watermark, offset + 1)
        undecided = [first for first, last in ended if last >= high_watermark] + list(open_ones.values())
        assert state.last_stable_offset(high_watermark) == min([high_watermark, *undecided])


@pytest.mark.parametrize("with_transactions", [False, True])
def test_what_is_taken_back_is_as_if_it_had_never_been_written(with_transactions: bool) -> None:
    """Fewer of the last batches, which a producer may still resend, may be left; everything else is the same."""
    undone_count = 0
    for seed in range(300):
        random = Random(seed)
        state, before = ProducerState(), ProducerState()
        sequences: dict[int, int] = {}
        epochs: dict[int, int] = {}
        end = random.randint(1, 60)
        cut = end - random.randint(0, min(end, 12))
        for offset in range(end):
            producer_id = random.randrange(6)
            epoch = epochs.setdefault(producer_id, random.choice([0, 0, 3]))
            if random.random() < 0.03:
                epoch = epochs[producer_id] = epoch + 1
                sequences[producer_id] = 0
            is_marker = with_transactions and random.random() < 0.1
            transactional = with_transactions and random.random() < 0.2
            sequence = sequences.get(producer_id, 0)
            for each in (state, before) if offset < cut else (state,):
                if is_marker:
                    each.end_transaction(producer_id, epoch, 0, offset, offset, committed=seed % 2 == 0)
                else:
                    each.append(
                        producer_id, epoch, sequence, sequence, offset, offset, offset, transactional=transactional
                    )
            sequences[producer_id] = sequence if is_marker else sequence + 1
        held = state.encode()
        if not state.take_back_from(cut):
            assert state.encode() == held
            continue
        undone_count += 1
        assert set(state.producers) == set(before.producers)
        for producer_id, producer in state.producers.items():
            expected = before.producers[producer_id]
            assert producer.batches
            assert producer.batches == expected.batches[-len(producer.batches) :]
            assert (producer.epoch, producer.last_timestamp_ms) == (expected.epoch, expected.last_timestamp_ms)
            assert producer.transaction_first_offset == expected.transaction_first_offset
        assert state.last_stable_offset(cut) == before.last_stable_offset(cut)
    assert undone_count > (0 if with_transactions else 150)


def test_transactions_that_are_settled_leave_the_checkpoint_also_if_nobody_reads() -> None:
    """A partition without readers would otherwise keep every transaction that ever ended, in memory and on disk."""

    async def scenario() -> None:
        disk = SimDisk(0)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        for number in range(500):
            append(log, batch([b"v"], producer=(7, 0, number), transactional=True))
            append(log, marker(7, 0, committed=True))
        log.high_watermark = log.end_offset - 1
        await logs.close()
        assert len(disk.read_file("/data/checkpoint")) < 1000
        again = (await open_logs(disk)).get(topic_id(1), 0)
        assert again is not None
        assert again.last_stable_offset(log.end_offset - 1) == log.end_offset - 2, "the last marker is not committed"

    run(scenario)
