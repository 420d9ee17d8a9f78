"""Descriptions of groups: DescribeGroups, ListGroups, and the structure of OffsetFetch responses. Read-only."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from chronik.coordinator.errors import CoordinatorError
from chronik.coordinator.groups import offsets
from chronik.coordinator.groups.group import DEAD, Group
from chronik.runtime.pieces import Work, each_light
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribedGroup
from chronik.wire.messages.list_groups import ListedGroup, ListGroupsRequest
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NOT_FOUND_SINCE: Final = 6  # version of DescribeGroups; before, an unknown group is reported as Dead
MANY_GROUPS_SINCE: Final = 8  # version of OffsetFetch
TOP_LEVEL_ERROR_SINCE: Final = 2  # version of OffsetFetch; before, every partition has the error


def described(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    found = None if group is None else group.describe()
    if found is not None:
        return found
    if version < NOT_FOUND_SINCE:
        return described_error(group_id, ErrorCode.NONE, state=DEAD)
    message = f"Group {group_id} not found."
    return described_error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, state=DEAD, message=message)


def described_error(group_id: str, error: ErrorCode, *, state: str = "", message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def listed(groups: Iterable[Group], request: ListGroupsRequest) -> list[ListedGroup]:
    """Filter names ignore case; an unknown name matches nothing."""
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state,
            group_type=group.type,
        )
        for group in groups
        if (not types or group.type in types) and (not states or group.state.lower() in states)
    ]


def fetched_groups(request: OffsetFetchRequest, version: int) -> list[OffsetFetchRequestGroup]:
    """The request in the form of the newest versions, which can name several groups."""
    if version >= MANY_GROUPS_SINCE:
        return request.groups
    topics: list[OffsetFetchRequestTopics] | None = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in request.topics
        ]
    return [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]


# The stored offsets of a group; and, by topic, the partitions whose offsets are not stable.
StoredOffsets = tuple[dict[str, offsets.Partitions], Mapping[str, Container[int]]]


def fetch_response(
    asked: list[OffsetFetchRequestGroup], stored: Callable[[OffsetFetchRequestGroup], StoredOffsets], version: int
) -> Work[OffsetFetchResponse]:
    groups = []
    for group in asked:
        groups.append((yield from _fetch_group(group, stored, version)))
        yield 1
    if version >= MANY_GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    only = groups[0]
    topics: list[OffsetFetchResponseTopic] = []
    for topic in only.topics:
        topics += [(yield from _old_shape(topic))]
    return OffsetFetchResponse(error_code=only.error_code, topics=topics)


def _fetch_group(
    group: OffsetFetchRequestGroup, stored: Callable[[OffsetFetchRequestGroup], StoredOffsets], version: int
) -> Work[OffsetFetchResponseGroup]:
    try:
        topics = yield from offsets.fetch(*stored(group), group.topics)
    except CoordinatorError as error:
        if version >= TOP_LEVEL_ERROR_SINCE:
            return OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=error.kafka_error)
        topics = yield from _all_failed(group.topics or [], error.kafka_error)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


def _all_failed(asked: list[OffsetFetchRequestTopics], error: ErrorCode) -> Work[list[OffsetFetchResponseTopics]]:
    def failed(index: int) -> OffsetFetchResponsePartitions:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=offsets.NO_OFFSET, metadata="", error_code=error
        )

    topics = []
    for topic in asked:
        partitions = yield from each_light(failed, topic.partition_indexes)
        topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
    return topics


def _old_shape(topic: OffsetFetchResponseTopics) -> Work[OffsetFetchResponseTopic]:
    return OffsetFetchResponseTopic(
        name=topic.name, partitions=(yield from each_light(_old_partition, topic.partitions))
    )


def _old_partition(new: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=new.partition_index,
        committed_offset=new.committed_offset,
        committed_leader_epoch=new.committed_leader_epoch,
        metadata=new.metadata,
        error_code=new.error_code,
    )
