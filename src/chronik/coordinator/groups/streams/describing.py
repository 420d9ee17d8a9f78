"""StreamsGroupDescribe, and which partitions each instance of the application answers queries about. Never decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.streams.group import StreamsGroup
from chronik.coordinator.groups.streams.member import Member
from chronik.coordinator.groups.streams.tasks import NOTHING, TaskSet
from chronik.coordinator.groups.streams.topology import Configured, Part, Topology
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages import streams_group_heartbeat as answering
from chronik.wire.messages import streams_group_records as stored
from chronik.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
)
from chronik.wire.messages.streams_group_describe import Member as DescribedMember
from chronik.wire.messages.streams_group_describe import Topology as DescribedTopology


def describe_group(group_id: str, group: Group | None) -> DescribedGroup:
    if type(group) is not StreamsGroup:
        what = "does not exist" if group is None else "is not a streams group"
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if group.topology is None else _topology(group.topology, group.configured),
        members=[_member(each, group) for each in group.members.values()],
    )


def not_described(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message or error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )


def _topology(topology: Topology, configured: Configured | None) -> DescribedTopology:
    """Internal topics with the partitions that they have, once these are known."""
    parts = configured.parts if configured is not None and configured.is_ready else {}
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_topics(each.state_changelog_topics, parts.get(name)),
                repartition_source_topics=_topics(each.repartition_source_topics, parts.get(name)),
            )
            for name, each in sorted(topology.subtopologies.items())
        ],
    )


def _topics(topics: Iterable[stored.TopicInfo], part: Part | None) -> list[TopicInfo]:
    counts: Mapping[str, int] = {} if part is None else part.internal_topics
    return [
        TopicInfo(
            name=each.name,
            partitions=counts.get(each.name, each.partitions),
            replication_factor=each.replication_factor,
            topic_configs=[KeyValue(key=config.key, value=config.value) for config in each.topic_configs],
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member: Member, group: StreamsGroup) -> DescribedMember:
    target = group.targets.get(member.member_id, NOTHING)
    held = member.assigned
    return DescribedMember(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if member.endpoint is None else Endpoint(host=member.endpoint[0], port=member.endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.tags],
        task_offsets=[],
        task_end_offsets=[],
        assignment=Assignment(
            active_tasks=_task_ids({name: frozenset(parts) for name, parts in held.active.items()}),
            standby_tasks=_task_ids(held.standby),
            warmup_tasks=_task_ids(held.warmup),
        ),
        target_assignment=Assignment(
            active_tasks=_task_ids(target.active),
            standby_tasks=_task_ids(target.standby),
            warmup_tasks=_task_ids(target.warmup),
        ),
        is_classic=False,
    )


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(parts)) for name, parts in sorted(tasks.items())]


# --- endpoints


def endpoints(
    members: Iterable[Member], configured: Configured, partitions_of: Callable[[str], int | None]
) -> list[answering.EndpointToPartitions]:
    """Of members that answer queries."""
    return [
        answering.EndpointToPartitions(
            user_endpoint=answering.Endpoint(host=each.endpoint[0], port=each.endpoint[1]),
            active_partitions=_partitions(
                {name: frozenset(parts) for name, parts in each.assigned.active.items()}, configured, partitions_of
            ),
            standby_partitions=_partitions(each.assigned.standby, configured, partitions_of),
        )
        for each in members
        if each.endpoint is not None
    ]


def _partitions(
    tasks: TaskSet, configured: Configured, partitions_of: Callable[[str], int | None]
) -> list[answering.TopicPartition]:
    """A topic with fewer partitions than its subtopology has tasks only takes part in the first ones."""
    found = []
    for name, partitions in sorted(tasks.items()):
        part = configured.parts.get(name)
        for topic in () if part is None else sorted(set(part.source_topics)):
            count = partitions_of(topic) or 0
            found.append(answering.TopicPartition(topic=topic, partitions=sorted(p for p in partitions if p < count)))
    return found
