"""The lag of a group: in records, and in time.

Lag in time is the age of the oldest record that the group has not read. A log cannot return the time of an offset, so
that record is fetched; a partition without lag needs no fetch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.admin import offsets
from chronik.client.errors import ClientError
from chronik.client.fetch_answers import Chunk, FetchOptions, fetch
from chronik.client.leaders import ask_leaders
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

# One batch is sent whole whatever its size, but only for one partition per request: so each partition needs a request.
ONE_BATCH: Final = FetchOptions(max_wait_ms=0, max_bytes=1, partition_max_bytes=1)
SIDE_BY_SIDE: Final = 8


@dataclass(frozen=True, slots=True)
class PartitionLag:
    committed: int | None  # None: the group has no offset here
    start_offset: int | None  # this and the following are None if the leader did not answer
    end_offset: int | None
    lag: int | None  # also None if records wait but no offset is stored: the start is unknown
    lag_ms: int | None  # also None if the record's time is unknown


async def of(
    cluster: ClusterClient,
    committed: Mapping[TopicPartition, int | None],
    *,
    with_time: bool = True,
    starts_at_earliest: bool = True,
) -> dict[TopicPartition, PartitionLag]:
    """The lag of a group with these committed offsets. Records deleted by retention do not count.

    `starts_at_earliest`: readers start at the earliest record where they have no offset; False if that is unknown.
    """
    starts = await offsets.look_up(cluster, dict.fromkeys(committed, EARLIEST))
    ends = await offsets.look_up(cluster, dict.fromkeys(committed, LATEST))
    found: dict[TopicPartition, PartitionLag] = {}
    behind: dict[TopicPartition, int] = {}
    for at, offset in committed.items():
        start, end = starts[at], ends[at]
        if isinstance(start, ClientError) or isinstance(end, ClientError):
            found[at] = PartitionLag(offset, None, None, None, None)
            continue
        position = start.offset if offset is None else max(offset, start.offset)
        lag = max(0, end.offset - position)
        if lag and offset is None and not starts_at_earliest:
            found[at] = PartitionLag(None, start.offset, end.offset, None, None)
            continue
        found[at] = PartitionLag(offset, start.offset, end.offset, lag, None if lag else 0)
        if lag:
            behind[at] = position
    if with_time and behind:
        now_ms = cluster.clock.wall_ms()
        for at, timestamp in (await times_of(cluster, behind)).items():
            known = found[at]
            age_ms = None if timestamp is None else max(0, now_ms - timestamp)
            found[at] = PartitionLag(known.committed, known.start_offset, known.end_offset, known.lag, age_ms)
    return found


async def times_of(
    cluster: ClusterClient, at_offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | None]:
    """The timestamp of the record at each offset, or of the first after it; None if unavailable."""
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(node_id: int, at: TopicPartition) -> Chunk | ClientError | None:
        async with gate:
            answers = await fetch(cluster, node_id, {at: at_offsets[at]}, ONE_BATCH, purpose="lag")
            return answers.get(at)

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, int | ClientError | None]:
        chunks = await asyncio.gather(*(one(node_id, at) for at in some))
        return {
            at: chunk if isinstance(chunk, ClientError) else _first_time(chunk)
            for at, chunk in zip(some, chunks, strict=True)
        }

    answers = await ask_leaders(cluster, at_offsets, ask)
    return {at: None if isinstance(answer, ClientError) else answer for at, answer in answers.items()}


def _first_time(chunk: Chunk | None) -> int | None:
    if chunk is None:
        return None
    records = chunk.take(1).records
    return records[0].timestamp if records and records[0].timestamp >= 0 else None
