"""Members of streams groups against one node, as an application has them: what each was told last, and asks next."""

from __future__ import annotations

import asyncio
from typing import Any

from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from chronik.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from tests.broker.hostile import TOPIC, World

GROUP_KEY = 0
PARTITIONS = 4
STARTING = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
NO_DELAY: dict[str, object] = {
    "group_streams_initial_rebalance_delay_ms": 0,
    "group_streams_assignment_interval_ms": 0,
}
Parts = dict[str, list[int]]


def info(name: str, partitions: int = 0) -> TopicInfo:
    configs = [KeyValue(key="cleanup.policy", value="compact")]
    return TopicInfo(name=name, partitions=partitions, replication_factor=1, topic_configs=configs)


def part(name: str, **fields: Any) -> Subtopology:
    empty: dict[str, Any] = {
        "source_topics": [],
        "source_topic_regex": [],
        "state_changelog_topics": [],
        "repartition_sink_topics": [],
        "repartition_source_topics": [],
        "copartition_groups": [],
    }
    return Subtopology(subtopology_id=name, **(empty | fields))


def word_count(epoch: int = 0, source: str = TOPIC) -> Topology:
    """Reads words, groups them by a repartition topic, and counts them in a store."""
    return Topology(
        epoch=epoch,
        subtopologies=[
            part("0", source_topics=[source], repartition_sink_topics=["words"]),
            part("1", repartition_source_topics=[info("words")], state_changelog_topics=[info("counts")]),
        ],
    )


class App:
    """One member: what it was told last is what it has, unless it holds on to more."""

    def __init__(self, world: World, member: str, process: str = "", group: str = "g") -> None:
        self.world, self.member, self.group = world, member, group
        self.process = process or member
        self.epoch = 0
        self.active: Parts = {}
        self.standby: Parts = {}
        self.last: StreamsGroupHeartbeatResponse | None = None

    async def join(self, topology: Topology | None = None, **more: Any) -> StreamsGroupHeartbeatResponse:
        fields = {
            "rebalance_timeout_ms": 60_000,
            "topology": topology or word_count(),
            "process_id": self.process,
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
        }
        return await self.ask(0, **(fields | more))

    async def beat(self, *, silent: bool = False, **more: Any) -> StreamsGroupHeartbeatResponse:
        if not silent:
            named = {"active_tasks": ids_of(self.active), "standby_tasks": ids_of(self.standby), "warmup_tasks": []}
            more = {**named, **more}
        return await self.ask(self.epoch, **more)

    async def ask(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        fields.setdefault("endpoint_information_epoch", 0)
        request = StreamsGroupHeartbeatRequest(group_id=self.group, member_id=self.member, member_epoch=epoch, **fields)
        answer = await self.world.client.ask(request, StreamsGroupHeartbeatResponse, 0)
        self.last = answer
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.active_tasks is not None:
                self.active, self.standby = parts_of(answer.active_tasks), parts_of(answer.standby_tasks or [])
        return answer

    async def settle(self, beats: int = 3) -> None:
        for _ in range(beats):
            await self.beat()


def ids_of(parts: Parts) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=partitions) for name, partitions in parts.items()]


def parts_of(ids: list[TaskIds]) -> Parts:
    return {each.subtopology_id: each.partitions for each in ids}


def statuses(answer: StreamsGroupHeartbeatResponse) -> list[int]:
    return [each.status_code for each in answer.status or ()]


async def make_world(**settings: object) -> World:
    world = await World.make(**{**NO_DELAY, **settings})
    await world.create(partitions=PARTITIONS)
    await has_coordinator(world)
    return world


async def has_coordinator(world: World) -> None:
    for _ in range(100):
        request = FindCoordinatorRequest(key_type=GROUP_KEY, coordinator_keys=["g"])
        answer = await world.client.ask(request, FindCoordinatorResponse, 6)
        left = await App(world, "nobody").ask(-1)
        if not answer.coordinators[0].error_code and left.error_code not in STARTING:
            return
        await asyncio.sleep(0.1)


async def described(world: World, group: str = "g") -> DescribedGroup:
    request = StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    return (await world.client.ask(request, StreamsGroupDescribeResponse, 0)).groups[0]
