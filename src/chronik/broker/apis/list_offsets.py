"""ListOffsets (key 2): returns the offset at a position or a timestamp, per partition.

Times: -1 end (hw; lso when read_committed), -2 log start, -3 largest timestamp (v7+), -4 local log start (v8+, here as
-2), -5 and -6 concern tiered storage (v9+, v11+), which does not exist here, so offset -1. Any other: first record at
or after it, else -1.
Versions: v0 a list of offsets; v1 one offset and its timestamp; v2 isolation_level; v4 leader epochs; v10 timeout_ms.
Only the leader responds, and only with committed records. A new leader that does not know its predecessor's high
watermark yet returns neither an end offset, because clients could see it go back (KIP-207), nor the result that no
record was found. The returned epoch is that of the record, not of the partition. From v1 on, a partition that is named
twice is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import DESCRIBE, TOPIC
from chronik.broker.produced import takes_long_to_open
from chronik.broker.topics import find_replica, find_topic
from chronik.replication.errors import NotYetAvailable
from chronik.storage.time_lookup import Lookup, Stamp, TimestampedOffset, first_at_or_after, latest
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from chronik.wire.notation import ZERO_UUID
from chronik.wire.offset_specs import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Topic
    from chronik.replication.replica import Replica
    from chronik.runtime.interfaces import Lane

VERSION_NEVER = 2**15
VERSION_NOT_AVAILABLE = 5
SINCE_VERSION = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
NO_OFFSET = (-1, -1, -1)  # offset, timestamp, leader epoch


@api(ListOffsetsRequest, ListOffsetsResponse, needs=(DESCRIBE.on(TOPIC),))
async def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    topics = []
    for asked in request.topics:
        topic: Topic | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_denied = not context.allows(DESCRIBE, TOPIC, asked.name)
        if not is_denied:
            topic = find_topic(context.services, asked.name, ZERO_UUID)
        results = []
        times = Counter(partition.partition_index for partition in asked.partitions)
        for partition in asked.partitions:
            index = partition.partition_index
            if times[index] > 1 and context.version > 0 and not is_denied:
                continue
            replica = topic if isinstance(topic, ErrorCode) else find_replica(context.services, topic, index)
            results.append(await _list_one(request, partition, replica, context))
            await context.services.turns.piece()
        results += [
            ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.INVALID_REQUEST)
            for index, count in times.items()
            if count > 1 and context.version > 0 and not is_denied
        ]
        topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=results))
    return ListOffsetsResponse(topics=topics)


async def _list_one(
    request: ListOffsetsRequest, asked: ListOffsetsPartition, replica: Replica | ErrorCode, context: Context
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=0)
    if isinstance(replica, ErrorCode):
        answer.error_code = replica
        return answer
    if asked.timestamp < 0 and context.version < SINCE_VERSION.get(asked.timestamp, VERSION_NEVER):
        answer.error_code = ErrorCode.UNSUPPORTED_VERSION
        return answer
    try:
        replica.require_leader(asked.current_leader_epoch)
        if context.version == 0:
            answer.old_style_offsets = _segment_starts(replica, asked, context.services.runtime.clock.wall_ms())
        else:
            committed_only = request.isolation_level == READ_COMMITTED
            lane = context.services.record_lane
            found = await find_offset(replica, asked.timestamp, lane, committed_only=committed_only)
            replica.require_leader(asked.current_leader_epoch)  # again, because the search may have taken long
            answer.offset, answer.timestamp, answer.leader_epoch = found
    except REFUSALS as fault:
        answer.error_code = fault.kafka_error
        if fault.kafka_error == ErrorCode.OFFSET_NOT_AVAILABLE and context.version < VERSION_NOT_AVAILABLE:
            answer.error_code = ErrorCode.LEADER_NOT_AVAILABLE  # older clients retry after this error
    return answer


async def find_offset(replica: Replica, timestamp: int, lane: Lane, *, committed_only: bool) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch); -1 if there is no such record, or it is not committed.

    While the end offset is unknown, a record that was not found may exist, so the client must retry. Batches that take
    long to decode are decoded on the lane.
    """
    log = replica.log
    limit = replica.last_stable_offset if committed_only else replica.high_watermark
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1, log.epochs.epoch_of(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NO_OFFSET
    if timestamp == LATEST:
        if replica.is_end_known:
            return limit, -1, log.epochs.epoch_of(limit)
    else:
        found = await _found_by(
            latest(log) if timestamp == MAX_TIMESTAMP else first_at_or_after(log, timestamp, limit), lane
        )
        if found is not None and found.offset < limit:
            return found.offset, found.timestamp_ms, found.leader_epoch
        if replica.is_end_known:
            return NO_OFFSET
    raise NotYetAvailable(replica.name, replica.high_watermark)


async def _found_by(lookup: Lookup, lane: Lane) -> TimestampedOffset | None:
    """If headers are correct, one look is enough, or two if the log starts inside a batch. Otherwise many may be
    needed, so only the first one runs on the event loop."""
    found: Stamp | None = None
    is_first = True
    try:
        while True:
            look = lookup.send(found)
            found = look() if is_first and not takes_long_to_open(look.batch) else await lane.run(look.__call__)
            is_first = False
    except StopIteration as end:
        result: TimestampedOffset | None = end.value
        return result


def _segment_starts(replica: Replica, asked: ListOffsetsPartition, now_ms: int) -> list[int]:
    """v0 returns the base offsets of segments written before a time, newest first, up to the requested number.

    The log end offset counts as the start of a segment that is written now.
    """
    log = replica.log
    if asked.timestamp == EARLIEST:
        return [log.start_offset][: asked.max_num_offsets]
    segments = [s for s in log.segments if asked.timestamp == LATEST or s.max_timestamp_ms <= asked.timestamp]
    newest_first = [max(segment.base_offset, log.start_offset) for segment in reversed(segments)]
    if asked.timestamp == LATEST or asked.timestamp >= now_ms:
        newest_first.insert(0, replica.high_watermark)
    return list(dict.fromkeys(newest_first))[: asked.max_num_offsets]
