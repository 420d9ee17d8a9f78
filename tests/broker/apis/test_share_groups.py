"""Share groups on a node: members get partitions once these have state, and operators see and move where they are."""

from __future__ import annotations

import asyncio
from typing import Any

from chronik.coordinator.share.persister import SharePartitionKey, ShareState, StateBatch
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from chronik.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
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
    return [(each.partition_index, each.start_offset, each.lag) for topic in found.topics for each in topic.partitions]


async def make_world(partitions: int = 2, **settings: object) -> World:
    world = await World.make(**settings)
    await world.create(partitions=partitions)
    await has_coordinator(world)
    return world


def test_a_member_gets_its_partitions_before_its_second_regular_heartbeat() -> None:
    """Nothing can be read before the partitions have state; the member waits for that and no longer."""

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


def topic_id(world: World) -> bytes:
    topic = world.node.store.image.topic_named(TOPIC)
    assert topic is not None
    return topic.topic_id


async def alter(world: World, *offsets: int, group: str = "g", topic: str = TOPIC) -> AlterShareGroupOffsetsResponse:
    """Sets the start offsets of partitions 0, 1, ..."""
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=i, start_offset=o) for i, o in enumerate(offsets)
    ]
    asked = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
    request = AlterShareGroupOffsetsRequest(group_id=group, topics=[asked])
    return await world.client.ask(request, AlterShareGroupOffsetsResponse, 0)


def errors(response: Any) -> list[int]:
    return [response.error_code, *(each.error_code for topic in response.responses for each in topic.partitions)]


def test_lag_counts_what_the_group_is_not_done_with() -> None:
    """Records that are acknowledged out of order are not behind any more, although the start offset stands still."""

    async def test() -> None:
        world = await make_world(partitions=1)
        await joined(world, "a")
        for _ in range(10):
            await world.produce()
        persister, key = world.node.services.persister, SharePartitionKey("g", topic_id(world), 0)
        state = await persister.read(key, 0)
        assert isinstance(state, ShareState)
        assert state.start_offset == -1
        done = [StateBatch(4, 5, 2, 1)]
        assert await persister.write(key, 0, state.state_epoch, 3, 2, done) is ErrorCode.NONE
        assert await offsets(world) == [(0, 3, 10 - 3 - 2)]
        assert await persister.read(key, 0) == ShareState(state.state_epoch, 3, done)
        await world.node.stop()

    run(test())


def test_offsets_are_altered_while_the_group_has_no_members() -> None:
    """Leaders that still hold records for members of before must not store anything over it (planted bug S11)."""

    async def test() -> None:
        world = await make_world(partitions=2)
        persister, key = world.node.services.persister, SharePartitionKey("g", topic_id(world), 0)
        member = await joined(world, "a")
        before = await persister.read(key, 0)
        assert isinstance(before, ShareState)
        refused = await alter(world, 5)
        assert (refused.error_code, refused.responses) == (ErrorCode.NON_EMPTY_GROUP, [])
        assert (await beat(world, "a", -1)).error_code == member.error_code == ErrorCode.NONE

        assert errors(await alter(world, 5, 6, 7)) == [0, 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await offsets(world) == [(0, 5, -5), (1, 6, -6)]
        late = await persister.write(key, 0, before.state_epoch, 9, 0, [])
        assert late is ErrorCode.FENCED_STATE_EPOCH
        after = await persister.read(key, 0)
        assert isinstance(after, ShareState)
        assert after.state_epoch > before.state_epoch
        assert errors(await alter(world, 1, topic="none")) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert errors(await alter(world, 1, group="")) == [ErrorCode.INVALID_GROUP_ID]
        await world.node.stop()

    run(test())


def test_altering_makes_a_group() -> None:
    """An operator says where a group begins before its first member comes."""

    async def test() -> None:
        world = await make_world(partitions=1)
        assert errors(await alter(world, 4, group="new")) == [0, 0]
        listed = await world.client.ask(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse, 5)
        assert [(each.group_id, each.group_type, each.group_state) for each in listed.groups] == [
            ("new", "share", "Empty")
        ]
        member = await joined(world, "a", group="new")
        assert await offsets(world, "new") == [(0, 4, -4)]
        described = await world.client.ask(
            ShareGroupDescribeRequest(group_ids=["new", "none"], include_authorized_operations=False),
            ShareGroupDescribeResponse,
            1,
        )
        new, none = described.groups
        assert (new.group_state, new.assignor_name, new.group_epoch) == ("Stable", "simple", member.member_epoch)
        assert [each.assignment.topic_partitions[0].topic_name for each in new.members] == [TOPIC]
        assert none.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await world.node.stop()

    run(test())


async def delete_offsets(world: World, *topics: str, group: str = "g") -> list[int]:
    request = DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    )
    answer = await world.client.ask(request, DeleteShareGroupOffsetsResponse, 0)
    return [answer.error_code, *(each.error_code for each in answer.responses)]


def test_offsets_and_groups_are_deleted_with_their_state() -> None:
    """State of a group that nobody knows of would stay at the share coordinator for as long as the topic exists."""

    async def test() -> None:
        world = await make_world(partitions=1)
        states = world.node.coordinators.share
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await delete_offsets(world, TOPIC) == [ErrorCode.GROUP_ID_NOT_FOUND]
        await joined(world, "a")
        assert await delete_offsets(world, TOPIC) == [ErrorCode.NON_EMPTY_GROUP]
        await beat(world, "a", -1)
        assert await delete_offsets(world, TOPIC, "none") == [0, 0, unknown]
        assert await delete_offsets(world, TOPIC) == [0, unknown]
        key = SharePartitionKey("g", topic_id(world), 0)
        assert await states.read(key, 0) is ErrorCode.INVALID_REQUEST  # there is no state

        await joined(world, "a")
        assert isinstance(await states.read(key, 0), ShareState)
        request = DeleteGroupsRequest(groups_names=["g", "none"])
        answer = await world.client.ask(request, DeleteGroupsResponse, 2)
        assert {each.group_id: each.error_code for each in answer.results} == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        await beat(world, "a", -1)
        answer = await world.client.ask(request, DeleteGroupsResponse, 2)
        assert {each.group_id: each.error_code for each in answer.results}["g"] == 0
        assert await states.read(key, 0) is ErrorCode.INVALID_REQUEST
        assert (await beat(world, "a", 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await world.node.stop()

    run(test())


def test_groups_of_other_kinds_keep_apart() -> None:
    """A consumer that is given the name of a queue, or the other way, is refused and harms nothing."""

    async def test() -> None:
        world = await make_world(partitions=1)
        await joined(world, "a")
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        )
        answer = await world.client.ask(request, ConsumerGroupHeartbeatResponse, 1)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        request.group_id = "c"
        assert not (await world.client.ask(request, ConsumerGroupHeartbeatResponse, 1)).error_code
        assert (await beat(world, "a", 0, TOPIC, group="c")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert errors(await alter(world, 1, group="c")) == [ErrorCode.GROUP_ID_NOT_FOUND]
        await world.node.stop()

    run(test())


def test_state_of_a_deleted_topic_goes_with_it() -> None:
    """A topic of the same name is another one: a group begins in it as in any new topic."""

    async def test() -> None:
        world = await make_world(partitions=1)
        first = await joined(world, "a")
        key = SharePartitionKey("g", topic_id(world), 0)
        await world.client.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), DeleteTopicsResponse, 4)
        for _ in range(ATTEMPTS):
            if key not in world.node.coordinators.share._runtime.shard(0).states:
                break
            await asyncio.sleep(0.01)
        await world.create(partitions=3)
        answer = first
        for _ in range(ATTEMPTS):
            await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
            answer = await beat(world, "a", answer.member_epoch)
            if answer.assignment is not None and answer.assignment.topic_partitions:
                break
        assert answer.assignment is not None
        assert [(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions] == [
            (topic_id(world), [0, 1, 2])
        ]
        assert key not in world.node.coordinators.share._runtime.shard(0).states
        await world.node.stop()

    run(test())


def test_a_group_is_where_it_was_after_a_restart() -> None:
    """The state that is loaded is the replay of both logs (invariant 30)."""

    async def test() -> None:
        world = await make_world(partitions=1)
        member = await joined(world, "a")
        key = SharePartitionKey("g", topic_id(world), 0)
        persister = world.node.services.persister
        state = await persister.read(key, 2)
        assert isinstance(state, ShareState)
        batches = [StateBatch(7, 7, 0, 3), StateBatch(9, 9, 4, 5)]  # the count is what the delivery limit goes by (S4)
        assert await persister.write(key, 2, state.state_epoch, 7, 1, batches) is ErrorCode.NONE
        await world.node.stop()

        again = await World.make(world.disk)
        await has_coordinator(again)
        answer = await beat(again, "a", member.member_epoch)
        assert (answer.error_code, answer.member_epoch) == (ErrorCode.NONE, member.member_epoch)
        persister = again.node.services.persister
        assert await persister.read(key, 1) is ErrorCode.FENCED_LEADER_EPOCH  # an older leader stays out (S2)
        assert await persister.write(key, 1, state.state_epoch, 9, 0, []) is ErrorCode.FENCED_LEADER_EPOCH
        assert await persister.read(key, 2) == ShareState(state.state_epoch, 7, batches)
        await again.node.stop()

    run(test())
