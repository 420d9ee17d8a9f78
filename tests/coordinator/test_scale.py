"""Large groups and large commits: work grows with their size, not with its square.

Counted in function calls, so that the result is the same on a slow machine and on a fast one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import pytest

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.script import subscription
from tests.coordinator.virtual import (
    FakeCaller,
    FakeClock,
    FakePartition,
    let_everything_happen,
    make_coordinator,
    run_virtually,
)

SMALL, LARGE = 50, 500
GROWTH_MAX = 1.3 * LARGE / SMALL


def calls_of(work: Callable[[GroupCoordinator, int], Coroutine[Any, Any, None]], size: int) -> int:
    """How many Python functions are entered while `work` runs."""
    clock = FakeClock()
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    async def main() -> None:
        coordinator = make_coordinator(clock, GroupsConfig(initial_rebalance_delay_ms=0))
        await coordinator.load(FakePartition())
        sys.setprofile(note)
        try:
            await work(coordinator, size)
        finally:
            sys.setprofile(None)

    run_virtually(main(), clock)
    return count


async def a_life_of_a_group(coordinator: GroupCoordinator, member_count: int) -> None:
    """All join, sync, send heartbeats and fall silent."""
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["t"]))],
    )
    joins = [coordinator.join_group(request, FakeCaller(3)) for _ in range(member_count)]
    answers: list[JoinGroupResponse] = [await join for join in joins if isinstance(join, asyncio.Future)]
    assert len(answers) == member_count
    for answer in answers:
        coordinator.sync_group(
            SyncGroupRequest(
                group_id="g",
                generation_id=1,
                member_id=answer.member_id,
                assignments=[],
            ),
            FakeCaller(4),
        )
    for answer in answers:
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=answer.member_id)
        assert coordinator.heartbeat(beat, FakeCaller(4)).error_code == 0
    await asyncio.sleep(10)
    for _ in range(member_count // 20):
        await let_everything_happen()
    (group,) = (group for _, shard in coordinator._runtime.active() for group in shard.groups.values())
    assert not group.members


async def a_large_commit(coordinator: GroupCoordinator, partition_count: int) -> None:
    parts = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=None)
        for index in range(partition_count)
    ]
    topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
    coordinator.offset_commit(OffsetCommitRequest(group_id="g", topics=topics), FakeCaller(9))


async def many_groups_expire(coordinator: GroupCoordinator, group_count: int) -> None:
    parts = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=None)]
    for number in range(group_count):
        topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
        coordinator.offset_commit(OffsetCommitRequest(group_id=f"g{number}", topics=topics), FakeCaller(9))
    assert await coordinator.expire(2**60) == 2 * group_count


@pytest.mark.parametrize("work", [a_life_of_a_group, a_large_commit, many_groups_expire])
def test_ten_times_the_size_is_ten_times_the_work(
    work: Callable[[GroupCoordinator, int], Coroutine[Any, Any, None]],
) -> None:
    """A group of a thousand members or a commit of ten thousand offsets must not hold up the loop."""
    assert calls_of(work, LARGE) <= GROWTH_MAX * calls_of(work, SMALL)
