"""Where partitions end now, for the lag of share groups: from this node's replicas, or by ListOffsets from others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from chronik.broker.topics import find_replica
from chronik.metadata.image import NO_LEADER
from chronik.replication.replica import Replica
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_UNCOMMITTED
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.offset_specs import LATEST
from chronik.wire.peer_errors import PeerError

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.metadata.image import Topic

ANSWER_MS_MAX: Final = 5_000

Place = tuple[bytes, int]  # topic id and partition


async def latest_offsets(services: Services, places: Iterable[Place]) -> dict[Place, int | ErrorCode]:
    found: dict[Place, int | ErrorCode] = {}
    elsewhere: dict[int, list[tuple[Topic, int]]] = {}
    for place in places:
        topic_id, index = place
        topic = services.store.image.topic(topic_id)
        partition = None if topic is None else topic.partition(index)
        if topic is None or partition is None:
            found[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif partition.leader == services.node_id:
            replica = find_replica(services, topic, index)
            is_known = isinstance(replica, Replica) and replica.is_leader and replica.is_end_known
            found[place] = replica.high_watermark if is_known else ErrorCode.OFFSET_NOT_AVAILABLE  # type: ignore[union-attr]
        elif partition.leader == NO_LEADER:
            found[place] = ErrorCode.LEADER_NOT_AVAILABLE
        else:
            elsewhere.setdefault(partition.leader, []).append((topic, index))
    for told in await asyncio.gather(*(_ask(services, leader, some) for leader, some in elsewhere.items())):
        found |= told
    return found


async def _ask(services: Services, leader_id: int, places: Sequence[tuple[Topic, int]]) -> dict[Place, int | ErrorCode]:
    topics: dict[str, ListOffsetsTopic] = {}
    ids: dict[str, bytes] = {}
    for topic, index in places:
        wanted = topics.setdefault(topic.name, ListOffsetsTopic(name=topic.name, partitions=[]))
        wanted.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        ids[topic.name] = topic.topic_id
    request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_UNCOMMITTED, topics=list(topics.values()))
    found: dict[Place, int | ErrorCode] = {
        (topic.topic_id, index): ErrorCode.LEADER_NOT_AVAILABLE for topic, index in places
    }
    try:
        response = await services.peers.ask(
            leader_id, request, ListOffsetsResponse, version_min=1, timeout_ms=ANSWER_MS_MAX
        )
    except PeerError:
        return found
    for answered in response.topics:
        for told in answered.partitions:
            error = ErrorCode.of(told.error_code)
            found[ids[answered.name], told.partition_index] = error or told.offset
    return found
