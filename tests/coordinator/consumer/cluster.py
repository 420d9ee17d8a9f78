"""A shard of consumer groups with topics, for tests: members that speak to a coordinator in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, Broker, Image, Partition, ResourceType, Topic
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.coordinator.virtual import FakeCaller, FakeClock, FakePartition, make_coordinator, run_virtually

GROUP = "g"
REBALANCE_MS = 20_000
AT_ONCE = GroupsConfig(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0)
Owned = dict[str, list[int]]


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\0")


def image_of(
    topics: Mapping[str, int],
    racks: Mapping[int, str | None] | None = None,
    configs: Mapping[tuple[int, str], Mapping[str, str]] | None = None,
    version: int = 1,
) -> Image:
    """Topics by name and number of partitions. Partition n has one replica, on broker n modulo the number of racks."""
    image = Image()
    for slot in (*Image.__slots__, *Image.__mro__[1].__slots__):
        setattr(image, slot, getattr(EMPTY, slot))
    image.version = version
    brokers = racks or {1: None}
    ids = sorted(brokers)
    image.brokers = {each: Broker(each, 1, b"", False, False, brokers[each], (), {}, ()) for each in ids}
    made = [
        Topic(
            topic_id(name),
            name,
            tuple(Partition(ids[n % len(ids)], 0, 0, (ids[n % len(ids)],), ()) for n in range(count)),
        )
        for name, count in topics.items()
    ]
    for each in made:
        image.topics = image.topics.set(each.topic_id, each)
        image.topics_by_name = image.topics_by_name.set(each.name, each)
    for (kind, name), values in (configs or {}).items():
        image.configs = image.configs.set((kind, name), type(image.configs)(values))  # type: ignore[arg-type]
    return image


class Shard:
    """One coordinator with one partition of its topic."""

    def __init__(self, config: GroupsConfig = AT_ONCE, topics: Mapping[str, int] | None = None) -> None:
        self.clock = FakeClock()
        self.config = config
        self.partition = FakePartition()
        self.image = image_of({"t": 4} if topics is None else topics)
        self.coordinator = self.new_coordinator()
        self.is_visible: Callable[[str], bool] = lambda name: True

    def new_coordinator(self) -> GroupCoordinator:
        coordinator = make_coordinator(self.clock, self.config)
        coordinator.image_changed(self.image, Changes())
        return coordinator

    def play(self, story: Callable[[Shard], Coroutine[Any, Any, None]]) -> None:
        async def told() -> None:
            await self.coordinator.load(self.partition)
            await story(self)

        run_virtually(told(), self.clock)

    def now_has(self, topics: Mapping[str, int], configs: Mapping[str, str] | None = None) -> None:
        """The cluster's topics are these now. `configs` are the group's own."""
        before = self.image
        kinds = None if configs is None else {(ResourceType.GROUP, GROUP): configs}
        self.image = image_of(topics, configs=kinds, version=before.version + 1)
        changes = Changes(
            topics_added=tuple(
                topic for name, topic in self.image.topics_by_name.items() if name not in before.topics_by_name
            ),
            topics_removed=tuple(
                topic for name, topic in before.topics_by_name.items() if name not in self.image.topics_by_name
            ),
            topics_changed=tuple(
                (before.topics_by_name[name], topic)
                for name, topic in self.image.topics_by_name.items()
                if name in before.topics_by_name
            ),
        )
        self.coordinator.image_changed(self.image, changes)

    async def fail_over(self) -> None:
        """The next coordinator only has what was committed."""
        self.coordinator.unload(0)
        self.partition = self.partition.after_failover()
        self.coordinator = self.new_coordinator()
        await self.coordinator.load(self.partition)

    @property
    def group(self) -> ConsumerGroup:
        found = self.coordinator._runtime.shard(0).groups[GROUP]
        assert isinstance(found, ConsumerGroup), found.type
        return found

    @property
    def kind(self) -> str | None:
        found = self.coordinator._runtime.shard(0).groups.get(GROUP)
        return None if found is None else found.type

    def ask(
        self, member: str, epoch: int, owned: Owned | None = None, version: int = 1, **more: Any
    ) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
        parts = None
        if owned is not None:
            parts = [TopicPartitions(topic_id=topic_id(name), partitions=parts) for name, parts in owned.items()]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member, member_epoch=epoch, topic_partitions=parts, **more
        )
        caller = FakeCaller(version)
        return self.coordinator.consumer_group_heartbeat(
            request, caller, lambda names: [name for name in names if self.is_visible(name)]
        )

    def beat(self, member: str, epoch: int, owned: Owned | None = None, **more: Any) -> ConsumerGroupHeartbeatResponse:
        answer = self.ask(member, epoch, owned, **more)
        assert not isinstance(answer, asyncio.Future)
        return answer

    def join(self, member: str, topics: Sequence[str] = ("t",), **more: Any) -> ConsumerGroupHeartbeatResponse:
        return self.beat(member, 0, {}, **self.joining(topics, **more))

    def joining(self, topics: Sequence[str] | None = ("t",), **more: Any) -> dict[str, Any]:
        names = None if topics is None else list(topics)
        return {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": names, **more}


def parts(answer: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    if answer.assignment is None:
        return None
    return {each.topic_id.lstrip(b"\0").decode(): each.partitions for each in answer.assignment.topic_partitions}
