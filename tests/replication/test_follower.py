"""A followed partition: which answers it takes, and where it cuts."""

from __future__ import annotations

import pytest

from chronik.replication.follower import Follower, Outcome, last_common_offset
from chronik.storage import producer_replay
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.wire.batches import build
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import CorruptBatch
from chronik.wire.messages.fetch import EpochEndOffset, PartitionData
from chronik.wire.records import Record
from tests.raft.virtual_time import run
from tests.replication.small import KEY, One, fetched


def answer(records: memoryview | bytes = b"", *, error: int = 0, start: int = 0, committed: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=committed,
        log_start_offset=start,
        aborted_transactions=None,
        records=records,
    )


def following(one: One, epoch: int = 1) -> Follower:
    follower = Follower(KEY, epoch, opened=lambda key: one.replica, open_=lambda key: one.replica)
    follower.named_in = 1
    return follower


def test_batches_are_kept_as_they_came_and_watermarks_are_learnt() -> None:
    """Offsets and epochs are the leader's; the next request says the new end and the epoch of its last record."""

    async def story() -> None:
        one = await One.make(leader=2, epoch=3)
        follower = following(one, epoch=3)
        data = fetched([b"a", b"b"], offset=0, epoch=2)
        assert follower.apply(answer(data, committed=5), 1) is Outcome.MOVED
        found = one.replica.log.read(0, bytes_max=1000, offset_limit=9)
        assert bytes(found.buffers[0]) == bytes(data)
        assert one.replica.high_watermark == 2
        asked = follower.position(99)
        assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (2, 2, 3)

    run(story)


def test_a_log_that_has_to_be_read_before_it_is_cut_is_left_whole_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that say the same meanwhile do not begin it again."""
    monkeypatch.setattr(producer_replay, "AT_ONCE_RECORDS_MAX", 0)

    async def story() -> None:
        one = await One.make(leader=2)
        follower, log = following(one), one.replica.log
        for offset in range(3):
            data = build(
                [Record(offset, 1, None, b"v", ())],
                base_offset=offset,
                leader_epoch=0,
                producer_id=7,
                producer_epoch=0,
                base_sequence=offset,
                is_transactional=True,
            )
            one.replica.append_fetched(memoryview(bytearray(data)))
        cut = answer()
        cut.diverging_epoch = EpochEndOffset(epoch=0, end_offset=2)
        assert follower.apply(cut, 1) is Outcome.PREPARES
        assert follower.apply(cut, 2) is Outcome.NOTHING
        assert log.end_offset == 3
        assert follower.preparing is not None
        list(follower.preparing)
        follower.preparing = None
        assert follower.apply(cut, 3) is Outcome.MOVED
        assert (log.end_offset, log.producers.producers[7].last_sequence) == (2, 1)

    run(story)


@pytest.mark.parametrize(("number", "epoch"), [(1, 4), (2, 3)], ids=["before it was named", "of an epoch that is over"])
def test_an_answer_of_an_earlier_epoch_changes_nothing(number: int, epoch: int) -> None:
    """The response was read from a log that may no longer be the leader's."""

    async def story() -> None:
        one = await One.make(leader=2, epoch=4)
        follower = following(one, epoch=epoch)
        follower.named_in = 2
        assert follower.apply(answer(fetched([b"a"], offset=0, epoch=3)), number) is Outcome.NOTHING
        cut = answer()
        cut.diverging_epoch = EpochEndOffset(epoch=0, end_offset=0)
        assert follower.apply(cut, number) is Outcome.NOTHING
        assert one.replica.log.end_offset == 0

    run(story)


def test_a_leader_takes_over_nothing() -> None:
    """It was elected while the answer was on its way."""

    async def story() -> None:
        one = await One.make(leader=1, epoch=4)
        follower = following(one, epoch=4)
        assert follower.apply(answer(fetched([b"a"], offset=0, epoch=3)), 1) is Outcome.NOTHING
        assert one.replica.log.end_offset == 0

    run(story)


def test_damaged_bytes_are_refused() -> None:
    """The checksum is looked at before anything is kept."""

    async def story() -> None:
        one = await One.make(leader=2)
        data = fetched([b"a"], offset=0, epoch=1)
        data[-1] ^= 1
        with pytest.raises(CorruptBatch):
            following(one).apply(answer(data), 1)
        assert one.replica.log.end_offset == 0

    run(story)


def test_a_follower_behind_the_leaders_start_begins_there() -> None:
    """The missing records are gone for good, and the offsets below the start no longer exist."""

    async def story() -> None:
        one = await One.make(leader=2)
        follower = following(one)
        follower.apply(answer(fetched([b"a"], offset=0, epoch=1)), 1)
        refused = answer(error=ErrorCode.OFFSET_OUT_OF_RANGE, start=40)
        assert follower.apply(refused, 1) is Outcome.MOVED
        assert (one.replica.log.start_offset, one.replica.log.end_offset) == (40, 40)
        assert follower.apply(answer(fetched([b"z"], offset=40, epoch=1), start=40, committed=41), 1) is Outcome.MOVED
        assert one.replica.high_watermark == 41

    run(story)


def test_the_leaders_start_moves_ours() -> None:
    """DeleteRecords on the leader holds on its followers too, and they say so: the leader's client waits for that."""

    async def story() -> None:
        one = await One.make(leader=2)
        follower = following(one)
        follower.apply(answer(fetched([b"a", b"b", b"c"], offset=0, epoch=1), committed=3), 1)
        assert follower.apply(answer(start=2, committed=3), 1) is Outcome.MOVED
        assert one.replica.log.start_offset == 2
        assert follower.position(1).log_start_offset == 2
        assert follower.apply(answer(start=2, committed=3), 1) is Outcome.NOTHING

    run(story)


# Our epochs as (epoch, first offset), our end; the leader's answer for our last epoch; the offset to truncate to.
CUTS = [
    ([(1, 0)], 10, (1, 7), 7),  # both know epoch 1, the leader has less of it
    ([(1, 0), (2, 6)], 10, (1, 8), 6),  # the leader has more of epoch 1 than we: what we have of 2 goes
    ([(1, 0), (3, 6)], 10, (2, 9), 6),  # the leader knows 2, which we never saw: back to the end of our 1
    ([(1, 0), (3, 6), (5, 8)], 10, (4, 20), 8),  # KIP-279: its 4 ends after our end; our 5 is removed anyway
    ([(2, 0), (3, 6)], 10, (1, 4), 0),  # it has nothing in common with us
    ([(1, 0), (2, 6)], 10, (1, 3), 3),
]


@pytest.mark.parametrize(("ours", "end_offset", "leader", "cut"), CUTS)
def test_histories_are_cut_where_they_part(
    ours: list[tuple[int, int]], end_offset: int, leader: tuple[int, int], cut: int
) -> None:
    """KIP-101 and KIP-279: never to the high watermark, and never to the leader's end alone."""

    class Log:
        start_offset = 0
        epochs = LeaderEpochs(ours)

    Log.end_offset = end_offset  # type: ignore[attr-defined]
    told = EpochEndOffset(epoch=leader[0], end_offset=leader[1])
    assert last_common_offset(Log, told) == cut  # type: ignore[arg-type]
