"""Compares the replicas of a partition, byte for byte.

The comparison covers what is committed on all of them, from the highest start offset to the lowest high watermark. Each
replica compacts its own log, so replicas of a compacted topic may differ and still be correct.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, refuse
from chronik.wire.batches import split
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.offset_specs import EARLIEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Partition

READ_BYTES: Final = 1 << 20
VERSION_ANY_REPLICA, VERSION_BY_NAME = 11, 12


@dataclass(frozen=True, slots=True)
class Comparison:
    partition: int
    leader_id: int
    compared: tuple[int, ...]  # the brokers that answered
    missing: tuple[int, ...]  # replicas that did not answer
    start_offset: int
    end_offset: int  # answering replicas are equal up to here, unless `differs_at` is set
    differs_at: int | None  # first offset of the first batch that differs

    @property
    def is_equal(self) -> bool:
        return self.differs_at is None


async def compare(cluster: ClusterClient, topic: str) -> list[Comparison]:
    """All partitions of a topic, in sequence."""
    cluster.forget(topic)
    known = await cluster.topic(topic)
    return [await _compare(cluster, topic, partition) for partition in known.partitions.values()]


async def _compare(cluster: ClusterClient, topic: str, partition: Partition) -> Comparison:
    index = partition.partition
    start_offset = await _start_offset(cluster, topic, partition)
    answers = await asyncio.gather(
        *(_high_watermark(cluster, node_id, topic, index, start_offset) for node_id in partition.replicas),
        return_exceptions=True,
    )
    ends: dict[int, int] = {}
    for node_id, answer in zip(partition.replicas, answers, strict=True):
        if isinstance(answer, int):
            ends[node_id] = answer
        elif not isinstance(answer, ClientError):
            raise answer
    end_offset = max(start_offset, min(ends.values(), default=0))
    offset, differs_at = start_offset, None
    while offset < end_offset and differs_at is None:
        pieces = await asyncio.gather(*(_read(cluster, node_id, topic, index, offset, end_offset) for node_id in ends))
        offset, differs_at = hold_together(pieces, offset)
    return Comparison(
        index,
        partition.leader_id,
        tuple(ends),
        tuple(each for each in partition.replicas if each not in ends),
        start_offset,
        end_offset,
        differs_at,
    )


def hold_together(pieces: list[dict[int, bytes]], offset: int) -> tuple[int, int | None]:
    """The offset to continue at, and where replicas differ. `pieces` maps first offsets to batches, for each replica.

    Brokers may return different amounts of the same log; only the range that all returned counts.
    """
    first = pieces[0]
    for at, (base_offset, data) in enumerate(first.items()):
        for other in pieces[1:]:
            keys = list(other)
            if at >= len(keys):
                return (offset, base_offset) if at == 0 else (offset, None)
            if keys[at] != base_offset or other[base_offset] != data:
                return offset, min(keys[at], base_offset)
        offset = split(memoryview(data))[0].next_offset
    if not first:
        return offset, offset
    return offset, None


async def _start_offset(cluster: ClusterClient, topic: str, partition: Partition) -> int:
    """The start of the leader's log; only the leader reports it."""
    asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    connection = await cluster.to_node(partition.leader_id, "replicas")
    response = await connection.ask(request, ListOffsetsResponse, version_min=1)
    told = response.topics[0].partitions[0]
    refuse(told.error_code, f"the leader of {topic}-{partition.partition} does not tell where it starts")
    return told.offset


async def _high_watermark(cluster: ClusterClient, node_id: int, topic: str, index: int, offset: int) -> int:
    """The high watermark as known to this broker."""
    answer = await _fetch(cluster, node_id, topic, index, offset, size_bytes=0)
    refuse(answer.error_code, f"broker {node_id} does not answer for {topic}-{index}")
    return answer.high_watermark


async def _read(
    cluster: ClusterClient, node_id: int, topic: str, index: int, offset: int, end_offset: int
) -> dict[int, bytes]:
    """Batches from `offset` on that end at or before `end_offset`, by their first offset."""
    answer = await _fetch(cluster, node_id, topic, index, offset, size_bytes=READ_BYTES)
    refuse(answer.error_code, f"cannot read {topic}-{index} at offset {offset} from broker {node_id}")
    data = memoryview(answer.records or b"")  # type: ignore[arg-type]
    batches = [batch for batch in split(data, cut_tail=True) if batch.next_offset <= end_offset]
    return {batch.base_offset: bytes(batch.data) for batch in batches}


async def _fetch(
    cluster: ClusterClient, node_id: int, topic: str, index: int, offset: int, *, size_bytes: int
) -> PartitionData:
    connection = await cluster.to_node(node_id, "replicas")
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max(size_bytes, 1),
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size_bytes)],
            )
        ],
        forgotten_topics_data=[],
        rack_id="",
    )
    response = await connection.ask(
        request, FetchResponse, version_min=VERSION_ANY_REPLICA, version_max=VERSION_BY_NAME
    )
    refuse(response.error_code, f"broker {node_id} does not answer for {topic}-{index}")
    return response.responses[0].partitions[0]
