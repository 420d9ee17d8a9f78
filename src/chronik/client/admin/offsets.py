"""Offsets: looks them up in logs by position or time, reads and commits those of groups, and deletes records.

Requests about partitions go to their leaders, one request per leader. A refused partition is in the result as its
Refused, after retries with refreshed leaders within the timeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.client.errors import ClientError, Refused, refuse
from chronik.client.leaders import ask_leaders, by_topic
from chronik.client.topology import TopicPartition
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_UNCOMMITTED
from chronik.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from chronik.wire.offset_specs import EARLIEST, LATEST, MAX_TIMESTAMP

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

NONE: Final = -1  # no such offset: the log has no record at or after the time
TIMEOUT_MS: Final = 30_000


class OffsetAt(NamedTuple):
    offset: int  # NONE if no record is that late
    timestamp: int  # of the record found; -1 for a position
    leader_epoch: int


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


async def look_up(
    cluster: ClusterClient, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAt | ClientError]:
    """The offset at a time in ms, or at LATEST, EARLIEST or MAX_TIMESTAMP, per partition."""

    version_min = 7 if MAX_TIMESTAMP in wanted.values() else 1

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | ClientError]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=at.partition, timestamp=wanted[at]) for at in them],
            )
            for topic, them in by_topic(some).items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=TIMEOUT_MS
        )
        connection = await cluster.to_node(node_id)
        response = await connection.ask(request, ListOffsetsResponse, version_min=version_min)
        return {
            (at := TopicPartition(topic.name, told.partition_index)): OffsetAt(
                told.offset, told.timestamp, told.leader_epoch
            )
            if not told.error_code
            else Refused(ErrorCode.of(told.error_code), f"cannot look up an offset of {at}")
            for topic in response.topics
            for told in topic.partitions
        }

    return await ask_leaders(cluster, wanted, ask)


async def bounds(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, tuple[int, int]]:
    """Start and end of each log. Starts are queried first, so no end is below its start. Raises ClientError."""
    wanted = list(partitions)
    starts = await look_up(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = await look_up(cluster, dict.fromkeys(wanted, LATEST), isolation_level=isolation_level)
    found = {}
    for at in wanted:
        start, end = starts[at], ends[at]
        if isinstance(start, ClientError):
            raise start
        if isinstance(end, ClientError):
            raise end
        found[at] = (start.offset, end.offset)
    return found


async def delete_records(
    cluster: ClusterClient, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | ClientError]:
    """Deletes the records before an offset (LATEST: all of them); returns the new start of each log."""

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[DeleteRecordsPartition(partition_index=at.partition, offset=before[at]) for at in them],
            )
            for topic, them in by_topic(some).items()
        ]
        connection = await cluster.to_node(node_id)
        request = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        response = await connection.ask(request, DeleteRecordsResponse, timeout_ms=2 * TIMEOUT_MS)
        return {
            (at := TopicPartition(topic.name, told.partition_index)): told.low_watermark
            if not told.error_code
            else Refused(ErrorCode.of(told.error_code), f"cannot delete records of {at}")
            for topic in response.topics
            for told in topic.partitions
        }

    return await ask_leaders(cluster, before, ask)


async def committed(
    cluster: ClusterClient, group_id: str, *, is_stable: bool = False
) -> dict[TopicPartition, Committed]:
    """All committed offsets of a group. `is_stable` waits for transactions that may still change them."""
    what = f"cannot read the offsets of group {group_id!r}"
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=is_stable
    )

    async def attempt() -> dict[TopicPartition, Committed]:
        # Up to v9: v10 identifies topics by id, which says nothing about a deleted topic.
        response = await cluster.ask_coordinator(group_id, request, OffsetFetchResponse, version_min=8, version_max=9)
        [told] = response.groups
        cluster.refuse_from_coordinator(group_id, told.error_code, what)
        found: dict[TopicPartition, Committed] = {}
        for topic in told.topics:
            for each in topic.partitions:
                refuse(each.error_code, what)
                if each.committed_offset >= 0:
                    at = TopicPartition(topic.name, each.partition_index)
                    found[at] = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata or "")
        return dict(sorted(found.items()))

    return await cluster.retrying(attempt)


async def delete(
    cluster: ClusterClient, group_id: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, Refused | None]:
    """Deletes a group's committed offsets for these partitions. Those of a topic that it reads are refused."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=at.partition) for at in them],
            )
            for topic, them in by_topic(partitions).items()
        ],
    )

    async def attempt() -> dict[TopicPartition, Refused | None]:
        response = await cluster.ask_coordinator(group_id, request, OffsetDeleteResponse)
        what = f"cannot delete offsets of group {group_id!r}"
        cluster.refuse_from_coordinator(group_id, response.error_code, what)
        return {
            (at := TopicPartition(topic.name, told.partition_index)): Refused(
                ErrorCode.of(told.error_code), f"{what} for {at}"
            )
            if told.error_code
            else None
            for topic in response.topics
            for told in topic.partitions
        }

    return await cluster.retrying(attempt)


async def commit(
    cluster: ClusterClient,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
) -> None:
    """Commits for a member or, without one, for a group that has no members."""
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=at.partition,
                        committed_offset=offsets[at].offset,
                        committed_leader_epoch=offsets[at].leader_epoch,
                        committed_metadata=offsets[at].metadata,
                    )
                    for at in them
                ],
            )
            for topic, them in by_topic(offsets).items()
        ],
    )

    async def attempt() -> None:
        response = await cluster.ask_coordinator(group_id, request, OffsetCommitResponse, version_min=2, version_max=9)
        for topic in response.topics:
            for told in topic.partitions:
                what = f"cannot commit {topic.name}-{told.partition_index} for group {group_id!r}"
                cluster.refuse_from_coordinator(group_id, told.error_code, what)

    await cluster.retrying(attempt)
