"""Share groups on a log in memory: when partitions get state, when members go, and what a new coordinator knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import pytest

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.protocol import ShareParts
from chronik.coordinator.groups.share.settings import (
    OffsetReset,
    ResetStrategy,
    ShareGroupsConfig,
    offset_reset,
    settings_of,
)
from chronik.coordinator.share.persister import Partition, SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.metadata.delta import Changes
from chronik.metadata.image import ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from tests.coordinator.consumer.cluster import image_of, topic_id
from tests.coordinator.virtual import FakeCaller, FakeClock, FakePartition, FakeRandomness, Refused, run_virtually

NONE = ErrorCode.NONE
SESSION_S = 45
INTERVAL_MS = 5_000  # between heartbeats of members that wait for nothing
ATTEMPTS = 100


class FakePersister:
    """Keeps what was initialized. `error` is told instead of doing anything; `gate` holds answers back."""

    def __init__(self) -> None:
        self.states: dict[tuple[str, bytes, int], tuple[int, int]] = {}  # state epoch and start offset
        self.error = NONE
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = 0

    async def initialize(
        self, group_id: str, partitions: Sequence[tuple[bytes, int, int, int]]
    ) -> dict[Partition, ErrorCode]:
        self.asked += 1
        await self.gate.wait()
        for topic, index, epoch, offset in partitions if self.error is NONE else ():
            self.states[group_id, topic, index] = epoch, offset
        return {(topic, index): self.error for topic, index, _, _ in partitions}

    async def delete(self, group_id: str, partitions: Sequence[Partition]) -> dict[Partition, ErrorCode]:
        await self.gate.wait()
        for topic, index in partitions if self.error is NONE else ():
            self.states.pop((group_id, topic, index), None)
        return dict.fromkeys(partitions, self.error)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        raise NotImplementedError

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        raise NotImplementedError

    async def summaries(
        self, group_id: str, partitions: Sequence[tuple[bytes, int, int]]
    ) -> dict[Partition, ShareSummary | ErrorCode]:
        raise NotImplementedError


class World:
    def __init__(self, topics: Mapping[str, int] | None = None, **share: Any) -> None:
        self.clock = FakeClock()
        self.config = GroupsConfig(share=ShareGroupsConfig(**share))
        self.partition = FakePartition()
        self.image = image_of(topics or {"t": 2})
        self.tasks: set[asyncio.Task[None]] = set()

    def play(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def told() -> None:
            self.persister = FakePersister()
            self.coordinator = self._new()
            await self.coordinator.load(self.partition)
            await story()
            self.coordinator.unload(0)
            await asyncio.gather(*self.tasks)

        run_virtually(told(), self.clock)

    def _new(self) -> GroupCoordinator:
        def start(name: str, work: Coroutine[Any, Any, None]) -> None:
            self.tasks.add(asyncio.ensure_future(work))

        made = GroupCoordinator(self.config, self.clock, FakeRandomness(0), 1, share=ShareParts(self.persister, start))
        made.image_changed(self.image, Changes())
        return made

    async def fail_over(self) -> None:
        self.coordinator.unload(0)
        self.partition = self.partition.after_failover()
        self.coordinator = self._new()
        await self.coordinator.load(self.partition)

    def group(self, group_id: str = "g") -> ShareGroup:
        found = self.coordinator._runtime.shard(0).groups[group_id]
        assert isinstance(found, ShareGroup)
        return found

    async def beat(self, who: str, epoch: int, *topics: str, group: str = "g") -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=who, member_epoch=epoch, subscribed_topic_names=list(topics) or None
        )
        answer = self.coordinator.share_group_heartbeat(request, FakeCaller(1))
        return await answer if isinstance(answer, asyncio.Future) else answer

    async def joined(self, who: str, *topics: str) -> ShareGroupHeartbeatResponse:
        """The member when it has what its target gives it."""
        answer = await self.beat(who, 0, *topics)
        for _ in range(ATTEMPTS):
            if answer.error_code != NONE or answer.heartbeat_interval_ms == INTERVAL_MS:
                return answer
            await asyncio.sleep(answer.heartbeat_interval_ms / 1000)
            answer = await self.beat(who, answer.member_epoch)
        raise AssertionError(f"{who} still waits for partitions: {answer}")

    def owned(self, who: str) -> dict[bytes, set[int]]:
        return {key: set(parts) for key, parts in self.group().members[who].assigned.items()}


def test_only_partitions_with_state_are_assigned() -> None:
    """A leader refuses to deliver records of a partition that the share coordinator does not know."""
    world = World({"t": 2, "u": 1})

    async def story() -> None:
        world.persister.gate.clear()
        answer = await world.beat("a", 0, "t")
        assert (answer.error_code, answer.member_epoch) == (NONE, 2)
        assert answer.assignment is not None
        assert not answer.assignment.topic_partitions
        for _ in range(3):
            await asyncio.sleep(1)
            answer = await world.beat("a", answer.member_epoch)
            assert not world.owned("a")
        assert world.persister.asked == 1  # while it is being asked, it is not asked again
        world.persister.gate.set()
        await asyncio.sleep(0.1)
        answer = await world.beat("a", answer.member_epoch)
        assert world.owned("a") == {topic_id("t"): {0, 1}}
        assert world.persister.states["g", topic_id("t"), 0] == (2, -1)

    world.play(story)


def test_partitions_whose_state_fails_are_tried_again() -> None:
    """A share coordinator that is down for a while must not leave a group without partitions."""
    world = World()

    async def story() -> None:
        world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer = await world.beat("a", 0, "t")
        for _ in range(10):
            await asyncio.sleep(1)
            answer = await world.beat("a", answer.member_epoch)
        assert 3 <= world.persister.asked <= 12
        assert not world.owned("a")
        world.persister.error = NONE
        assert (await world.joined("a", "t")).error_code == NONE
        assert world.owned("a") == {topic_id("t"): {0, 1}}

    world.play(story)


def test_partitions_that_are_added_get_state() -> None:
    """Records of a new partition must not wait until a member joins again."""
    world = World({"t": 1})

    async def story() -> None:
        answer = await world.joined("a", "t")
        before, world.image = world.image.topics[topic_id("t")], image_of({"t": 3}, version=2)
        changed = Changes()._replace(topics_changed=((before, world.image.topics[topic_id("t")]),))
        world.coordinator.image_changed(world.image, changed)
        for _ in range(5):
            await asyncio.sleep(1)
            answer = await world.beat("a", answer.member_epoch)
        assert world.owned("a") == {topic_id("t"): {0, 1, 2}}

    world.play(story)


def test_a_failover_in_the_middle_of_an_initialization() -> None:
    """What the old coordinator was asking about, the new one asks again; the old one writes nothing any more."""
    world = World()

    async def story() -> None:
        gate = world.persister.gate
        gate.clear()
        answer = await world.beat("a", 0, "t")
        await asyncio.sleep(0.1)
        await world.fail_over()
        gate.set()
        await asyncio.sleep(0.1)
        for _ in range(5):
            await asyncio.sleep(1)
            answer = await world.beat("a", answer.member_epoch)
            assert answer.error_code == NONE
        assert world.owned("a") == {topic_id("t"): {0, 1}}
        assert world.persister.asked == 2

    world.play(story)


def test_a_silent_member_goes_after_its_session() -> None:
    """Also if it was silent over a failover: its partitions go to the others."""
    world = World()

    async def story() -> None:
        answer = await world.joined("a", "t")
        await world.joined("b", "t")
        await world.fail_over()
        for _ in range(SESSION_S + 10):
            await asyncio.sleep(1)
            answer = await world.beat("a", answer.member_epoch)
            assert answer.error_code == NONE
        assert set(world.group().members) == {"a"}
        assert world.owned("a") == {topic_id("t"): {0, 1}}
        assert (await world.beat("b", 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    world.play(story)


def test_the_loaded_group_is_the_replayed_log() -> None:
    """Invariant 30, after each step of a group's life."""
    world = World({"t": 3, "u": 2})

    def state() -> tuple[Any, ...]:
        group = world.group()
        return (group.epoch, group.target_epoch, group.members, group.targets, group.state_partitions, group.state)

    async def story() -> None:
        steps: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: world.joined("a", "t"),
            lambda: world.joined("b", "t", "u"),
            lambda: world.beat("a", -1),
            lambda: world.joined("b", "u"),
        ]
        for step in steps:
            await step()
            before = state()
            await world.fail_over()
            assert state() == before

    world.play(story)


def test_a_full_group_takes_nobody_in() -> None:
    """Its members may come again."""
    world = World(size_max=1)

    async def story() -> None:
        await world.joined("a", "t")
        assert (await world.beat("b", 0, "t")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (await world.beat("a", 0, "t")).error_code == NONE

    world.play(story)


def test_a_group_whose_state_cannot_be_deleted_stays() -> None:
    """State of a group that is gone would never be deleted. The request is repeated, and finds what is left."""
    world = World()

    async def delete() -> int:
        answer = world.coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"]), FakeCaller(2))
        told = await answer if isinstance(answer, asyncio.Future) else answer
        return told.results[0].error_code

    async def story() -> None:
        await world.joined("a", "t")
        await world.beat("a", -1)
        world.persister.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await delete() == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await world.fail_over()
        assert world.group().state_partitions.deleting == {topic_id("t"): "t"}
        world.persister.error = NONE
        assert await delete() == NONE
        assert not world.persister.states
        await world.fail_over()
        assert (await world.beat("a", 3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    world.play(story)


def test_somebody_joins_a_group_while_it_is_deleted() -> None:
    """The group stays, and its partitions get state again."""
    world = World()

    async def story() -> None:
        await world.joined("a", "t")
        await world.beat("a", -1)
        world.persister.gate.clear()
        deleting = world.coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"]), FakeCaller(2))
        assert isinstance(deleting, asyncio.Future)
        await asyncio.sleep(0.1)
        answer = await world.beat("b", 0, "t")
        world.persister.gate.set()
        assert (await deleting).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        for _ in range(5):
            await asyncio.sleep(1)
            answer = await world.beat("b", answer.member_epoch)
        assert world.owned("b") == {topic_id("t"): {0, 1}}

    world.play(story)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", OffsetReset(ResetStrategy.LATEST)),
        ("earliest", OffsetReset(ResetStrategy.EARLIEST)),
        ("by_duration:PT1H30M", OffsetReset(ResetStrategy.BY_DURATION, 5_400_000)),
        ("by_duration:P2DT0.5S", OffsetReset(ResetStrategy.BY_DURATION, 172_800_500)),
    ],
)
def test_where_a_group_begins_is_read(text: str, expected: OffsetReset) -> None:
    """As the catalogue lets it through."""
    assert offset_reset(text) == expected


def test_settings_of_a_group_stay_within_the_brokers_limits() -> None:
    """An operator may have changed the limits since the group's configs were set."""
    own = {
        "share.record.lock.duration.ms": "1000",
        "share.delivery.count.limit": "99",
        "share.isolation.level": "read_committed",
    }
    image = image_of({}, configs={(ResourceType.GROUP, "g"): own})
    found = settings_of("g", image, ShareGroupsConfig())
    assert (found.record_lock_duration_ms, found.delivery_count_limit, found.isolation_level) == (15_000, 10, 1)
    assert (found.session_timeout_ms, found.record_locks_max, found.renews_locks) == (45_000, 2_000, True)
    assert settings_of("other", image, ShareGroupsConfig()).isolation_level == 0


def test_an_operator_moves_a_group_while_its_partitions_get_state() -> None:
    """The initialization that was under way must not win over the offset that the operator gave."""
    world = World({"t": 1})

    async def story() -> None:
        world.persister.gate.clear()
        await world.beat("a", 0, "t")
        await world.beat("a", -1)
        place = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=7)
        request = AlterShareGroupOffsetsRequest(
            group_id="g", topics=[AlterShareGroupOffsetsRequestTopic(topic_name="t", partitions=[place])]
        )
        moving = asyncio.ensure_future(world.coordinator.alter_share_group_offsets(request))
        await asyncio.sleep(0.1)
        await world.beat("b", 0, "t")
        world.persister.gate.set()
        assert (await moving).error_code == ErrorCode.NON_EMPTY_GROUP  # somebody joined while it waited
        await world.beat("b", -1)
        assert (await world.coordinator.alter_share_group_offsets(request)).error_code == NONE
        assert world.persister.states["g", topic_id("t"), 0][1] == 7
        await world.joined("a", "t")
        assert world.persister.states["g", topic_id("t"), 0][1] == 7

    world.play(story)


def test_a_topic_that_is_deleted_while_nothing_can_be_written_is_forgotten_later() -> None:
    """Its partitions would be taken for some that nobody reads, and the epoch would rise with every heartbeat."""
    world = World({"t": 1, "u": 1})

    async def story() -> None:
        answer = await world.joined("a", "t", "u")
        world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        gone, world.image = world.image.topics[topic_id("u")], image_of({"t": 1}, version=2)
        world.coordinator.image_changed(world.image, Changes()._replace(topics_removed=(gone,)))
        await asyncio.sleep(3)
        world.partition.refuses_with = None
        await asyncio.sleep(3)
        assert set(world.group().state_partitions.initialized) == {topic_id("t")}
        for _ in range(3):
            answer = await world.beat("a", answer.member_epoch)
            await asyncio.sleep(5)
        assert world.owned("a") == {topic_id("t"): {0}}
        epoch = world.group().epoch
        await world.beat("a", answer.member_epoch)
        assert world.group().epoch == epoch

    world.play(story)
