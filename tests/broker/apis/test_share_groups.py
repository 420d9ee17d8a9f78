"""Share groups on a node: members get partitions once these have state, and operators see and move where they are."""

from __future__ import annotations

import asyncio
from typing import Any

from chronik.coordinator.share.persister import ShareState, SharePartitionKey, StateBatch
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from chronik.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from chronik.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.broker.hostile import TOPIC, World, run

ATTEMPTS = 100
GROUP_KEY = 0
STARTING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


async def beat(world: World, member: str, epoch: int, *topics: str, group: str = "g") -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=list(topics) or None
    )
    return await world.client.ask(request, ShareGroupHeartbeatResponse, 1)


async def has_coordinator(world: World) -> None:
    for _ in range(ATTEMPTS):
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=["g"])
        answer = await world.client.ask(request, FindCoordinatorResponse, 6)
        left = await beat(world, "nobody", -1)
        if not answer.coordinators[0].error_code and left.error_code not in STARTING:
            return
        await asyncio.sleep(0.1)


async def joined(world: World, member: str, group: str = "g") -> ShareGroupHeartbeatResponse:
    """The member once it has partitions: it beats as often as it is told to."""
    answer = await beat(world, member, 0, TOPIC, group=group)
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    for _ in range(ATTEMPTS):
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer
        await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
        answer = await beat(world, member, answer.member_epoch, group=group)
    raise AssertionError("no partitions")


async def offsets(world: World, group: str = "g") -> list[tuple[int, int, int]]:
    """Partition, start offset and lag."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await world.client.ask(request, DescribeShareGroupOffsetsResponse, 1)
    found = answer.groups[0]
    assert found.error_code == ErrorCode.NONE, found.error_message
    return [
        (each.partition_index, each.start_offset, each.lag) for topic in found.topics for each in topic.partitions
    ]


async def make_world(partitions: int = 2, **settings: object) -> World:
    world = await World.make(**settings)
    await world.create(partitions=partitions)
    await has_coordinator(world)
    return world


def test_a_member_gets_its_partitions_before_its_second_regular_heartbeat() -> None:
    """Nothing can be read before the partitions have state; the member must not wait for that any longer than needed."""

    async def test() -> None:
        world = await make_world()
        begun_ns = world.node.runtime.clock.monotonic_ns()
        answer = await joined(world, "a")
        assert answer.assignment is not None
        assert [each.partitions for each in answer.assignment.topic_partitions] == [[0, 1]]
        assert world.node.runtime.clock.monotonic_ns() - begun_ns < 5_000_000_000
        assert sorted(await offsets(world)) == [(0, -1, -1), (1, -1, -1)]
        await world.node.stop()

    run(test())
