"""The lag of the groups that this node coordinates, in records and in time. For /metrics.

End offsets come from the partition leaders: from this node's replicas, or by ListOffsets from other nodes. The lag in
time is the age of the oldest record that the group has not read. There is no request for the timestamp of an offset, so
that record is fetched, once for each position of the group. `chronik group describe` uses the same definition.

Everything is limited: the number of partitions, the number of records that are fetched per scrape, and the wait for
other nodes. Values that are not known in time are omitted; nothing here fails or retries.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.broker.topics import find_replica
from chronik.metadata.image import NO_LEADER
from chronik.replication.replica import Replica
from chronik.storage.errors import StorageError
from chronik.wire.batches import split
from chronik.wire.errors import WireError
from chronik.wire.isolation import READ_UNCOMMITTED
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.peer_errors import PeerError
from chronik.wire.records import iterate

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.metadata.image import Topic

PARTITIONS_MAX: Final = 20_000  # of all groups together; partitions beyond this limit are not shown
FETCHES_MAX: Final = 200  # per scrape; positions that were fetched before cost nothing
SIDE_BY_SIDE: Final = 8
ANSWER_MS_MAX: Final = 1_000
PER_TURN: Final = 200
DECOMPRESSED_BYTES_MAX: Final = 64 << 20
VERSION_BY_ID: Final = 13  # version of Fetch


Key = tuple[bytes, int]  # topic id and partition: the hash of a Topic would cover all its partitions


class Place(NamedTuple):
    topic: Topic
    partition: int

    @property
    def key(self) -> Key:
        return self.topic.topic_id, self.partition

    @property
    def leader_id(self) -> int:
        return self.topic.partitions[self.partition].leader


class Stored(NamedTuple):
    """A group's committed offset."""

    group_id: str
    place: Place
    offset: int


class Span(NamedTuple):
    """The range of readable offsets in a log."""

    start_offset: int
    end_offset: int


class GroupLag(NamedTuple):
    group_id: str
    topic: str
    partition: int
    record_count: int
    age_ms: int | None  # None if unknown; 0 without lag


class GroupLags:
    """One per node."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._times: dict[tuple[bytes, int, int], int] = {}  # (topic id, partition, offset): timestamp of the record

    async def take(self) -> list[GroupLag]:
        stored = [each async for each in self._stored()]
        spans = await self._spans({each.place.key: each.place for each in stored}.values())
        behind: dict[tuple[bytes, int, int], Place] = {}
        for each in stored:
            span = spans.get(each.place.key)
            if span is not None and (position := max(each.offset, span.start_offset)) < span.end_offset:
                behind[*each.place.key, position] = each.place
        await self._learn_times(behind)
        now_ms = self._services.runtime.clock.wall_ms()
        return [self._lag(each, spans[each.place.key], now_ms) for each in stored if each.place.key in spans]

    def _lag(self, stored: Stored, span: Span, now_ms: int) -> GroupLag:
        group_id, place, offset = stored
        position = max(offset, span.start_offset)
        record_count = max(0, span.end_offset - position)
        age_ms: int | None = 0
        if record_count:
            written_ms = self._times.get((*place.key, position))
            age_ms = None if written_ms is None else max(0, now_ms - written_ms)
        return GroupLag(group_id, place.topic.name, place.partition, record_count, age_ms)

    async def _stored(self) -> AsyncIterator[Stored]:
        image = self._services.store.image
        offsets = islice(self._services.groups.committed_offsets(), PARTITIONS_MAX)
        for count, (group_id, topic_name, partition, offset) in enumerate(offsets):
            topic = image.topic_named(topic_name)
            if topic is not None and topic.partition(partition) is not None:
                yield Stored(group_id, Place(topic, partition), offset)
            if count % PER_TURN == 0:
                await asyncio.sleep(0)

    # --- log offsets

    async def _spans(self, places: Iterable[Place]) -> dict[Key, Span]:
        found: dict[Key, Span] = {}
        elsewhere: dict[int, list[Place]] = {}
        for place in places:
            replica = find_replica(self._services, place.topic, place.partition)
            if isinstance(replica, Replica) and replica.is_leader:
                if replica.is_end_known:
                    found[place.key] = Span(replica.log.start_offset, replica.high_watermark)
            elif place.leader_id not in (NO_LEADER, self._services.node_id):
                elsewhere.setdefault(place.leader_id, []).append(place)
        for told in await asyncio.gather(*(self._ask_spans(leader, some) for leader, some in elsewhere.items())):
            found |= told
        return found

    async def _ask_spans(self, leader_id: int, places: Sequence[Place]) -> dict[Key, Span]:
        starts, ends = await asyncio.gather(
            self._ask_offsets(leader_id, places, EARLIEST), self._ask_offsets(leader_id, places, LATEST)
        )
        return {key: Span(starts[key], ends[key]) for key in starts.keys() & ends.keys()}

    async def _ask_offsets(self, leader_id: int, places: Sequence[Place], which: int) -> dict[Key, int]:
        topics: dict[str, ListOffsetsTopic] = {}
        keys: dict[tuple[str, int], Key] = {}
        for place in places:
            topic = topics.setdefault(place.topic.name, ListOffsetsTopic(name=place.topic.name, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=place.partition, timestamp=which))
            keys[place.topic.name, place.partition] = place.key
        request = ListOffsetsRequest(replica_id=-1, isolation_level=READ_UNCOMMITTED, topics=list(topics.values()))
        try:
            response = await self._services.peers.ask(
                leader_id, request, ListOffsetsResponse, version_min=1, timeout_ms=ANSWER_MS_MAX
            )
        except PeerError:
            return {}
        return {
            key: told.offset
            for answered in response.topics
            for told in answered.partitions
            if not told.error_code and (key := keys.get((answered.name, told.partition_index))) is not None
        }

    # --- record timestamps

    async def _learn_times(self, behind: dict[tuple[bytes, int, int], Place]) -> None:
        """Fetches unknown timestamps, and removes those that no group needs any more."""
        self._times = {key: self._times[key] for key in behind if key in self._times}
        unknown = [key for key in behind if key not in self._times][:FETCHES_MAX]
        gate = asyncio.Semaphore(SIDE_BY_SIDE)

        async def learn(key: tuple[bytes, int, int]) -> None:
            async with gate:
                written_ms = await self._time_at(behind[key], key[2])
            if written_ms is not None:
                self._times[key] = written_ms

        await asyncio.gather(*map(learn, unknown))

    async def _time_at(self, place: Place, offset: int) -> int | None:
        """The timestamp of the record at the offset, or of the next one in the same batch."""
        replica = find_replica(self._services, place.topic, place.partition)
        try:
            if isinstance(replica, Replica) and replica.is_leader:
                read = replica.log.read(offset, bytes_max=1, offset_limit=replica.high_watermark)
                data: Sequence[bytes | memoryview] = read.buffers
            else:
                data = await self._fetch(place, offset)
            return await self._services.record_lane.run(partial(_first_time, data, offset))
        except (StorageError, WireError, PeerError):
            return None

    async def _fetch(self, place: Place, offset: int) -> Sequence[bytes | memoryview]:
        """Fetches one batch: a response contains a first batch of any size."""
        wanted = FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=1)
        topic = FetchTopic(topic=place.topic.name, topic_id=place.topic.topic_id, partitions=[wanted])
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1, topics=[topic])
        response = await self._services.peers.ask(
            place.leader_id, request, FetchResponse, version_min=VERSION_BY_ID, timeout_ms=ANSWER_MS_MAX
        )
        for answered in response.responses:
            for told in answered.partitions:
                records = told.records or b""
                return records if isinstance(records, list) else [records]
        return []


def _first_time(data: Sequence[bytes | memoryview], offset: int) -> int | None:
    for batch in split(memoryview(b"".join(data)), cut_tail=True):
        for record in iterate(batch, DECOMPRESSED_BYTES_MAX):
            if record.offset >= offset:
                return record.timestamp if record.timestamp >= 0 else None
    return None
