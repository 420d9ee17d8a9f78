"""A topology as an application sends it, and what the topics of the cluster make of it. Pure.

`configure` decides, as Kafka does: how many tasks each subtopology has (the most partitions of its source topics), how
many partitions internal topics must have, and which of them do not exist yet. Repartition topics without a number of
partitions get that of the sources of the subtopology that writes them; copartitioned topics must agree. What stands in
the way is a status that members are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from chronik.wire.messages import streams_group_heartbeat as request
from chronik.wire.messages.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicConfig,
    TopicInfo,
)

PartitionsOf = Callable[[str], int | None]
NAMES_MAX: Final = 3  # of topics, in a status
TASKS_MAX: Final = 10_000  # of a group: they are assigned at once, and a large application has hundreds


class StatusCode(IntEnum):
    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    name: str
    partition_count: int
    replication_factor: int  # 0: the cluster's default
    configs: tuple[tuple[str, str], ...]


class Part(NamedTuple):
    """A subtopology whose numbers are known."""

    task_count: int
    is_stateful: bool
    source_topics: tuple[str, ...]  # repartition topics that it reads among them
    internal_topics: Mapping[str, int]  # that it reads or keeps its state in, with their partitions


class Configured(NamedTuple):
    """`parts` is empty if the numbers cannot be decided."""

    parts: Mapping[str, Part]
    missing: tuple[InternalTopic, ...] = ()
    status: Status | None = None

    @property
    def is_ready(self) -> bool:
        return self.status is None


class Unresolvable(Exception):
    """The topology contradicts itself, whatever topics there are."""


class _NotNow(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


class Topology:
    """One per group, and immutable. `value` is the record."""

    def __init__(self, value: StreamsGroupTopologyValue) -> None:
        self.value = value
        self.epoch = value.epoch
        self.subtopologies: dict[str, Subtopology] = {each.subtopology_id: each for each in value.subtopologies}
        self.reader_of: dict[str, str] = {}  # source topic to the subtopology that reads it
        for name, each in self.subtopologies.items():
            self.reader_of.update(dict.fromkeys(sources_of(each), name))
        self.topics = frozenset(self.reader_of) | {
            topic.name for each in self.subtopologies.values() for topic in each.state_changelog_topics
        }

    def is_same(self, other: Topology) -> bool:
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    @property
    def size_bytes(self) -> int:
        return 500 * len(self.subtopologies) + sum(200 + len(name) for name in self.topics)


def sources_of(subtopology: Subtopology) -> list[str]:
    return [*subtopology.source_topics, *(topic.name for topic in subtopology.repartition_source_topics)]


def topology_of(asked: request.Topology) -> Topology:
    return Topology(
        StreamsGroupTopologyValue(
            epoch=asked.epoch,
            subtopologies=[
                Subtopology(
                    subtopology_id=each.subtopology_id,
                    source_topics=each.source_topics,
                    source_topic_regex=each.source_topic_regex,
                    state_changelog_topics=[_topic(topic) for topic in each.state_changelog_topics],
                    repartition_sink_topics=each.repartition_sink_topics,
                    repartition_source_topics=[_topic(topic) for topic in each.repartition_source_topics],
                    copartition_groups=[
                        CopartitionGroup(
                            source_topics=group.source_topics,
                            source_topic_regex=group.source_topic_regex,
                            repartition_source_topics=group.repartition_source_topics,
                        )
                        for group in each.copartition_groups
                    ],
                )
                for each in asked.subtopologies
            ],
        )
    )


def _topic(asked: request.TopicInfo) -> TopicInfo:
    return TopicInfo(
        name=asked.name,
        partitions=asked.partitions,
        replication_factor=asked.replication_factor,
        topic_configs=[TopicConfig(key=each.key, value=each.value) for each in asked.topic_configs],
    )


def configure(topology: Topology, existing: PartitionsOf) -> Configured:
    """`existing` tells the partitions of a topic, or None. Raises Unresolvable."""
    subtopologies = topology.subtopologies
    together = [_copartitioned(each, group) for each in subtopologies.values() for group in each.copartition_groups]
    try:
        _require_sources(subtopologies.values(), existing)
        decided: dict[str, int] = {}

        def partitions_of(topic: str) -> int | None:
            found = existing(topic)
            return decided.get(topic) if found is None else found

        decided.update(_repartition_counts(subtopologies.values(), partitions_of))
        _enforce_copartitioning(subtopologies.values(), together, decided, partitions_of)
        parts = {name: _part(subtopologies[name], decided, partitions_of) for name in sorted(subtopologies)}
        _require_few_tasks(parts.values())
        missing = _missing(topology, parts, existing)
    except _NotNow as reason:
        return Configured({}, status=reason.status)
    if missing:
        detail = f"Internal topics are missing: {_listed(each.name for each in missing)}"
        return Configured(parts, missing, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail))
    return Configured(parts)


def _require_sources(subtopologies: Iterable[Subtopology], existing: PartitionsOf) -> None:
    missing = {topic for each in subtopologies for topic in each.source_topics if existing(topic) is None}
    if missing:
        raise _NotNow(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_listed(missing)} are missing.")


def _repartition_counts(subtopologies: Iterable[Subtopology], partitions_of: PartitionsOf) -> dict[str, int]:
    """A topic that a subtopology writes gets the most partitions of what that subtopology reads, as far as that is
    known. It may read another such topic: then it waits for the subtopology that writes it."""
    every = list(subtopologies)
    counts = {
        topic.name: topic.partitions for each in every for topic in each.repartition_source_topics if topic.partitions
    }
    readers: dict[str, list[Subtopology]] = {}
    for each in every:
        for topic in each.repartition_source_topics:
            readers.setdefault(topic.name, []).append(each)
    waiting = deque(every)
    while waiting:
        each = waiting.popleft()
        unknown = [sink for sink in each.repartition_sink_topics if sink not in counts]
        candidates = [counts.get(topic.name) for topic in each.repartition_source_topics] if unknown else []
        candidates += [partitions_of(topic) for topic in each.source_topics] if unknown else []
        known = [count for count in candidates if count is not None]
        if known:
            for sink in unknown:
                counts[sink] = max(known)
                waiting.extend(readers.get(sink, ()))
    if any(sink not in counts for each in every for sink in each.repartition_sink_topics):
        raise Unresolvable(
            "the partitions of repartition topics cannot be computed: the topology has a loop, or a subtopology "
            "without source topics"
        )
    return counts


def _enforce_copartitioning(
    subtopologies: Iterable[Subtopology],
    together: Iterable[set[str]],
    decided: dict[str, int],
    partitions_of: PartitionsOf,
) -> None:
    every = list(subtopologies)
    fixed = {topic.name for each in every for topic in each.repartition_source_topics if topic.partitions}
    flexible = {topic.name for each in every for topic in each.repartition_source_topics if not topic.partitions}
    for names in together:
        if names:
            decided.update(_agreed(names, fixed, flexible, partitions_of))


def _copartitioned(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    sources, repartitions = subtopology.source_topics, subtopology.repartition_source_topics
    if not all(0 <= index < len(sources) for index in group.source_topics) or not all(
        0 <= index < len(repartitions) for index in group.repartition_source_topics
    ):
        raise Unresolvable(f"a copartition group of subtopology {subtopology.subtopology_id} names no topic of it")
    names = {sources[index] for index in group.source_topics}
    return names | {repartitions[index].name for index in group.repartition_source_topics}


def _agreed(names: set[str], fixed: set[str], flexible: set[str], partitions_of: PartitionsOf) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in names:
        found = partitions_of(name)
        if found is None:
            raise Unresolvable(f"topic {name} is copartitioned, and nothing writes it")
        counts[name] = found
    repartition = {name for name in names if name in fixed or name in flexible}
    others = {name: count for name, count in counts.items() if name not in repartition}
    if others:
        _require_same(others)
        wanted = next(iter(others.values()))
    elif own := {name: counts[name] for name in names & fixed}:
        _require_same(own)
        wanted = next(iter(own.values()))
    else:
        wanted = max(counts.values())
    for name in sorted(repartition & fixed):
        if counts[name] != wanted:
            detail = (
                f"Number of partitions [{counts[name]}] of repartition topic [{name}] doesn't match number of "
                f"partitions [{wanted}] of the source topic."
            )
            raise _NotNow(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return dict.fromkeys(repartition, wanted)


def _require_same(counts: Mapping[str, int]) -> None:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        detail = f"Following topics do not have the same number of partitions: [{{{shown}}}]"
        raise _NotNow(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)


def _part(subtopology: Subtopology, decided: dict[str, int], partitions_of: PartitionsOf) -> Part:
    sources = sources_of(subtopology)
    counts = [count for topic in sources if (count := partitions_of(topic)) is not None]
    if not sources or len(counts) < len(sources):
        raise Unresolvable(f"subtopology {subtopology.subtopology_id} reads no topic, or one that nothing writes")
    task_count = max(counts)
    internal = {
        topic.name: topic.partitions or decided.get(topic.name, task_count)
        for topic in subtopology.repartition_source_topics
    }
    internal |= {topic.name: task_count for topic in subtopology.state_changelog_topics}
    return Part(task_count, bool(subtopology.state_changelog_topics), tuple(sources), internal)


def _require_few_tasks(parts: Iterable[Part]) -> None:
    task_count = sum(each.task_count for each in parts)
    if task_count > TASKS_MAX:
        raise Unresolvable(f"the topology has {task_count} tasks, {TASKS_MAX} are allowed")


def _missing(topology: Topology, parts: Mapping[str, Part], existing: PartitionsOf) -> tuple[InternalTopic, ...]:
    missing: dict[str, InternalTopic] = {}
    for name, part in parts.items():
        subtopology = topology.subtopologies[name]
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            wanted = part.internal_topics[topic.name]
            found = existing(topic.name)
            if found is None:
                configs = tuple((each.key, each.value) for each in topic.topic_configs)
                missing[topic.name] = InternalTopic(topic.name, wanted, topic.replication_factor, configs)
            elif found != wanted:
                detail = (
                    f"Existing topic {topic.name} has different number of partitions: expected {wanted}, found {found}"
                )
                raise _NotNow(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return tuple(missing[name] for name in sorted(missing))


def _listed(names: Iterable[str]) -> str:
    every = sorted(names)
    shown = ", ".join(every[:NAMES_MAX])
    return shown if len(every) <= NAMES_MAX else f"{shown} and {len(every) - NAMES_MAX} additional topics"
