"""Groups of all kinds: lists and describes them, with members and their partitions, and deletes them.

Every broker knows the groups it coordinates, so a list combines all brokers' answers. The API to describe a group
depends on its type: classic groups carry their subscriptions as opaque bytes, groups of the new protocol in fields.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chronik.client.errors import Refused, refuse
from chronik.client.topology import TopicPartition
from chronik.wire.compiler import decoder_of
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from chronik.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from chronik.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from chronik.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from chronik.wire.messages.streams_group_describe import DescribedGroup as StreamsGroup
from chronik.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
STREAMS_ASSIGNOR = "sticky"  # the only one
CONSUMER_PROTOCOL = "consumer"  # the protocol type of classic groups whose members are consumers


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    group_type: str  # classic, consumer, share, streams; "" if the broker is too old to report it
    state: str
    protocol_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Awaited:
    """A partition of a consumer group that one member has to give up, so that another one can have it."""

    partition: TopicPartition
    holder: str  # the client id, or the member id if it has none
    taker: str


@dataclass(frozen=True, slots=True)
class Group:
    group_id: str
    group_type: str
    state: str
    assignor: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    awaited: tuple[Awaited, ...] = ()
    missing_topics: tuple[str, ...] = ()  # that the topology of a streams group needs


async def list_all(cluster: ClusterClient) -> list[ListedGroup]:
    """All groups of the cluster, sorted by name."""

    async def of(node_id: int) -> list[ListedGroup]:
        connection = await cluster.to_node(node_id)
        response = await connection.ask(ListGroupsRequest(), ListGroupsResponse)
        refuse(response.error_code, f"cannot list the groups of broker {node_id}")
        return [
            ListedGroup(each.group_id, each.group_type.lower(), each.group_state, each.protocol_type, node_id)
            for each in response.groups
        ]

    async def attempt() -> list[ListedGroup]:
        await cluster.refresh([])
        lists = await asyncio.gather(*(of(node_id) for node_id in cluster.topology.brokers))
        # While a coordinator moves, two brokers may list the same group.
        groups = {group.group_id: group for groups in lists for group in groups}
        return sorted(groups.values(), key=lambda group: group.group_id)

    return await cluster.retrying(attempt)


async def describe(cluster: ClusterClient, group_id: str) -> Group:
    """Raises GROUP_ID_NOT_FOUND for a group that does not exist."""

    async def attempt() -> Group:
        coordinator_id = await cluster.coordinator(group_id)
        connection = await cluster.to_node(coordinator_id)
        if ConsumerGroupDescribeRequest.api_key in connection.apis:
            found = await _describe_consumer(cluster, group_id, coordinator_id)
            if found is not None:
                return found
        if ShareGroupDescribeRequest.api_key in connection.apis:
            found = await _describe_share(cluster, group_id, coordinator_id)
            if found is not None:
                return found
        if StreamsGroupDescribeRequest.api_key in connection.apis:
            found = await _describe_streams(cluster, group_id, coordinator_id)
            if found is not None:
                return found
        return await _describe_classic(cluster, group_id, coordinator_id)

    return await cluster.retrying(attempt)


async def _describe_consumer(cluster: ClusterClient, group_id: str, coordinator_id: int) -> Group | None:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    response = await cluster.ask_coordinator(group_id, request, ConsumerGroupDescribeResponse)
    [told] = response.groups
    if told.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None  # nonexistent, or of another type
    cluster.refuse_from_coordinator(group_id, told.error_code, f"group {group_id!r}", told.error_message)
    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            tuple(
                TopicPartition(topic.topic_name, partition)
                for topic in each.assignment.topic_partitions
                for partition in topic.partitions
            ),
        )
        for each in told.members
    )
    group = Group(group_id, CONSUMER, told.group_state, told.assignor_name, coordinator_id, members)
    return replace(group, awaited=tuple(_awaited(told)))


async def _describe_share(cluster: ClusterClient, group_id: str, coordinator_id: int) -> Group | None:
    request = ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    response = await cluster.ask_coordinator(group_id, request, ShareGroupDescribeResponse, version_min=1)
    [told] = response.groups
    if told.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None  # nonexistent, of another type, or no share groups on this broker
    cluster.refuse_from_coordinator(group_id, told.error_code, f"group {group_id!r}", told.error_message)
    members = tuple(
        GroupMember(
            each.member_id,
            None,
            each.client_id,
            each.client_host.removeprefix("/"),
            tuple(
                TopicPartition(topic.topic_name, partition)
                for topic in each.assignment.topic_partitions
                for partition in topic.partitions
            ),
        )
        for each in told.members
    )
    return Group(group_id, SHARE, told.group_state, told.assignor_name, coordinator_id, members)


async def _describe_streams(cluster: ClusterClient, group_id: str, coordinator_id: int) -> Group | None:
    """A member reads the partitions of its active tasks."""
    request = StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    response = await cluster.ask_coordinator(group_id, request, StreamsGroupDescribeResponse)
    [told] = response.groups
    if told.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None  # nonexistent, of another type, or no streams groups on this broker
    cluster.refuse_from_coordinator(group_id, told.error_code, f"group {group_id!r}", told.error_message)
    parts = {each.subtopology_id: each for each in (told.topology and told.topology.subtopologies) or ()}
    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            tuple(_read_by(each.assignment.active_tasks, parts)),
        )
        for each in told.members
    )
    names = sorted(set(_topics_of(parts)))
    topology = await cluster.retrying(lambda: cluster.refresh(names))
    missing = tuple(name for name in names if name not in topology.topics)
    group = Group(group_id, STREAMS, told.group_state, STREAMS_ASSIGNOR, coordinator_id, members)
    return replace(group, awaited=tuple(_awaited_tasks(told, parts)), missing_topics=missing)


def _sources(part: Subtopology) -> list[str]:
    return [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]


def _topics_of(parts: Mapping[str, Subtopology]) -> Iterator[str]:
    for part in parts.values():
        yield from _sources(part)
        yield from (topic.name for topic in part.state_changelog_topics)


def _read_by(tasks: Sequence[TaskIds], parts: Mapping[str, Subtopology]) -> Iterator[TopicPartition]:
    for each in tasks:
        for topic in _sources(parts[each.subtopology_id]) if each.subtopology_id in parts else ():
            yield from (TopicPartition(topic, partition) for partition in each.partitions)


def _awaited_tasks(told: StreamsGroup, parts: Mapping[str, Subtopology]) -> Iterator[Awaited]:
    holders = {at: member for member in told.members for at in _read_by(member.assignment.active_tasks, parts)}
    for taker in told.members:
        for at in _read_by(taker.target_assignment.active_tasks, parts):
            holder = holders.get(at)
            if holder is not None and holder is not taker:
                yield Awaited(at, holder.client_id or holder.member_id, taker.client_id or taker.member_id)


def _awaited(told: DescribedGroup) -> Iterator[Awaited]:
    holders = {
        (topic.topic_name, partition): member
        for member in told.members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    }
    for taker in told.members:
        for topic in taker.target_assignment.topic_partitions:
            for partition in topic.partitions:
                holder = holders.get((topic.topic_name, partition))
                if holder is not None and holder is not taker:
                    at = TopicPartition(topic.topic_name, partition)
                    yield Awaited(at, holder.client_id or holder.member_id, taker.client_id or taker.member_id)


async def _describe_classic(cluster: ClusterClient, group_id: str, coordinator_id: int) -> Group:
    request = DescribeGroupsRequest(groups=[group_id])
    response = await cluster.ask_coordinator(group_id, request, DescribeGroupsResponse)
    [told] = response.groups
    cluster.refuse_from_coordinator(group_id, told.error_code, f"group {group_id!r}", told.error_message)
    if told.group_state == "Dead":  # before DescribeGroups v6 this means nonexistent
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")
    members = tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host.removeprefix("/"),
            assigned_partitions(each.member_assignment) if told.protocol_type == CONSUMER_PROTOCOL else (),
        )
        for each in told.members
    )
    return Group(group_id, CLASSIC, told.group_state, told.protocol_data, coordinator_id, members)


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions in the opaque assignment of a classic consumer; none if it is empty or in an unknown format."""
    version_bytes = 2
    if len(data) < version_bytes:
        return ()
    version = min(int.from_bytes(data[:version_bytes], "big", signed=True), ConsumerProtocolAssignment.versions.last)
    if version < 0:
        return ()
    try:
        assignment, _ = decoder_of(ConsumerProtocolAssignment, version)(memoryview(data), version_bytes)
    except Malformed:
        return ()
    return tuple(
        TopicPartition(each.topic, partition)
        for each in assignment.assigned_partitions
        for partition in sorted(each.partitions)
    )


async def delete(cluster: ClusterClient, group_ids: Sequence[str]) -> dict[str, Refused | None]:
    """Deletes groups with their offsets; a group with members is refused with NON_EMPTY_GROUP."""

    async def one(group_id: str) -> None:
        async def attempt() -> None:
            response = await cluster.ask_coordinator(
                group_id, DeleteGroupsRequest(groups_names=[group_id]), DeleteGroupsResponse
            )
            [told] = response.results
            cluster.refuse_from_coordinator(group_id, told.error_code, f"cannot delete group {group_id!r}")

        await cluster.retrying(attempt)

    results: dict[str, Refused | None] = {}
    for group_id in group_ids:
        try:
            await one(group_id)
        except Refused as fault:
            results[group_id] = fault
        else:
            results[group_id] = None
    return results
