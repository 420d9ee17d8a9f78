"""ListOffsets only returns committed offsets, even while a new leader does not know the high watermark yet."""

from __future__ import annotations

import pytest

from chronik.broker.apis.list_offsets import MAX_TIMESTAMP, NO_OFFSET, find_offset
from chronik.replication.errors import NotYetAvailable
from chronik.wire.offset_specs import LATEST
from tests.raft.virtual_time import run
from tests.replication.small import NOW_MS, One

LATER_MS = NOW_MS + 1


async def newly_elected() -> One:
    """Two records with different timestamps; the first one is known to be committed, the second one may be: see
    KIP-207."""
    one = await One.make()
    one.write(b"first")
    end = await one.write_durably(b"second", timestamp_ms=LATER_MS)
    one.change(leader=2, leader_epoch=2)
    one.replica.learn(1, 0)
    one.change(leader=1, leader_epoch=3)
    assert (one.replica.high_watermark, end, one.replica.is_end_known) == (1, 2, False)
    return one


async def offset_at(one: One, time_ms: int, *, committed_only: bool) -> tuple[int, int, int]:
    return await find_offset(one.replica, time_ms, one.disk.lane("records"), committed_only=committed_only)


@pytest.mark.parametrize("committed_only", [False, True])
def test_a_new_leader_denies_no_record_that_may_be_committed(committed_only: bool) -> None:
    """Clients of the leader before may have read it: "no such record" would send one that seeks to the end."""

    async def story() -> None:
        one = await newly_elected()
        for time_ms in (LATEST, LATER_MS, LATER_MS + 1, MAX_TIMESTAMP):
            with pytest.raises(NotYetAvailable):
                await offset_at(one, time_ms, committed_only=committed_only)
        assert await offset_at(one, NOW_MS, committed_only=committed_only) == (0, NOW_MS, 1)

    run(story)


@pytest.mark.parametrize("committed_only", [False, True])
def test_a_record_that_is_not_committed_is_named_by_no_time(committed_only: bool) -> None:
    """It may be lost yet, and another have its offset. A leader that knows the end says that there is none."""

    async def story() -> None:
        one = await newly_elected()
        one.reports(2, 2)
        one.reports(3, 2)
        one.write(b"third", timestamp_ms=LATER_MS + 1)
        assert one.replica.is_end_known
        for time_ms in (LATER_MS + 1, MAX_TIMESTAMP):
            assert await offset_at(one, time_ms, committed_only=committed_only) == NO_OFFSET
        assert await offset_at(one, LATER_MS, committed_only=committed_only) == (1, LATER_MS, 1)
        await one.write_durably(b"fourth")
        one.reports(2, 4)
        one.reports(3, 4)
        assert await offset_at(one, MAX_TIMESTAMP, committed_only=committed_only) == (2, LATER_MS + 1, 3)

    run(story)
