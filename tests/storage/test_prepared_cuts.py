"""A cut that has to read the log for its producers is prepared in small steps, and ends as one that reads at once."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import producer_replay
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.producer_replay import BATCHES_PER_STEP
from tests.storage.driving import append, batch, durable, marker, open_logs, run, topic_id

TOPIC = topic_id(1)


@pytest.fixture(autouse=True)
def _every_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_replay, "AT_ONCE_RECORDS_MAX", 0)


async def opened(seed: int = 0) -> tuple[Logs, Log]:
    logs = await open_logs(SimDisk(seed))
    return logs, logs.create("t", TOPIC, 0, LogConfig(segment_bytes=4000, index_interval_bytes=300))


def history(random: Random, count: int) -> Iterator[tuple[str, int]]:
    for _ in range(count):
        yield random.choice(["transactional", "transactional", "plain", "commit", "abort"]), random.randrange(4)


def play(log: Log, kind: str, producer_id: int) -> None:
    known = log.producers.producers.get(producer_id)
    if kind in ("commit", "abort"):
        append(log, marker(producer_id, 0, committed=kind == "commit"))
    elif kind == "plain":
        append(log, batch([b"plain"] * (1 + producer_id)))
    else:
        sequence = 0 if known is None else known.last_sequence + 1
        append(log, batch([b"v" * 20], producer=(producer_id, 0, sequence), transactional=True))


def refuse_to_read(log: Log, offset: int) -> None:
    raise AssertionError("the log was read at once")


@pytest.mark.parametrize("seed", range(20))
def test_a_prepared_cut_ends_as_one_that_reads_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences, open transactions and the last stable offset decide what a leader accepts and what consumers see."""

    async def scenario() -> None:
        random = Random(seed)
        (logs, log), (other_logs, other) = await opened(), await opened(1)
        checkpoint_at = random.randrange(300)
        for number, step in enumerate(history(random, 200)):
            play(log, *step)
            play(other, *step)
            if number == checkpoint_at:
                await logs.checkpoint()
                await other_logs.checkpoint()
        cut = random.randrange(log.start_offset + 1, log.end_offset)
        other.truncate_to(cut)
        work = log.preparing_cut(cut)
        for _ in work or ():
            if random.random() < 0.2:
                play(log, "transactional", 3)  # the log may grow
            if random.random() < 0.1:
                await logs.checkpoint()
        assert log.preparing_cut(cut) is None
        with monkeypatch.context() as patch:
            patch.setattr(producer_replay, "replay", refuse_to_read)
            log.truncate_to(cut)
        assert log.end_offset == other.end_offset
        assert log.producers.encode() == other.producers.encode()
        assert log.last_stable_offset(log.end_offset) == other.last_stable_offset(other.end_offset)
        for each in (log, other):
            assert each.prepared_cut is None
        assert log.aborted_transactions(0, log.end_offset) == other.aborted_transactions(0, other.end_offset)
        play(log, "transactional", 1)
        play(other, "transactional", 1)
        log.truncate_to(log.end_offset - 1)  # from the snapshot that the first one has left
        other.truncate_to(other.end_offset - 1)
        assert log.producers.encode() == other.producers.encode()

    run(scenario)


def test_the_work_is_done_in_pieces_of_a_few_batches() -> None:
    """Between two of them others get the loop: a log of a million batches takes many seconds to read."""

    async def scenario() -> None:
        _, log = await opened()
        for number in range(1000):
            play(log, "transactional", number % 3)
        work = log.preparing_cut(990)
        assert work is not None
        pieces = list(work)
        assert len(pieces) > 990 // BATCHES_PER_STEP
        assert max(pieces) <= BATCHES_PER_STEP

    run(scenario)


def test_a_short_log_and_producers_without_transactions_need_no_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most cuts take back a few batches of the last seconds."""

    async def scenario() -> None:
        _, log = await opened()
        for number in range(10):
            append(log, batch([b"v"], producer=(1, 0, number)))
        assert log.preparing_cut(9) is None
        play(log, "transactional", 2)
        assert log.preparing_cut(9) is not None
        monkeypatch.setattr(producer_replay, "AT_ONCE_RECORDS_MAX", 1000)
        assert log.preparing_cut(9) is None

    run(scenario)


def test_another_cut_makes_a_preparation_void(monkeypatch: pytest.MonkeyPatch) -> None:
    """The records that were read may be gone by then, and others may have their offsets."""

    async def scenario() -> None:
        _, log = await opened()
        for number in range(100):
            play(log, "transactional", number % 3)
        finished, unfinished = log.preparing_cut(90), log.preparing_cut(90)
        assert finished is not None
        assert unfinished is not None
        next(unfinished)
        assert list(finished)
        log.truncate_to(50)
        for number in range(50):
            play(log, "transactional", 10 + number % 3)
        assert len(list(unfinished)) <= 1
        assert log.preparing_cut(90) is not None
        log.truncate_to(90)
        assert {*log.producers.producers} == {0, 1, 2, 10, 11, 12}
        assert log.producers.producers[0].last_sequence < 90 // 3

    run(scenario)


def test_damage_is_met_by_the_cut_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut reports it as any other read does. A preparation that tried again and again would never end."""

    async def scenario() -> None:
        _, log = await opened()
        for number in range(100):
            play(log, "transactional", number % 3)
            play(log, "abort", number % 3)
        await durable(log)

        def damaged(*_: object) -> None:
            raise CorruptSegment(log.segments[0].path, 0, 0, "the test says so")

        monkeypatch.setattr("chronik.storage.segment.Segment.batch_at", damaged)
        work = log.preparing_cut(150)
        assert work is not None
        list(work)
        assert log.preparing_cut(150) is None
        with pytest.raises(CorruptSegment):
            log.truncate_to(150)

    run(scenario)
