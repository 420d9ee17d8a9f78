"""Batches of every kind that a log may hold, drawn at random; and what consumers of a topic read."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chronik.client.admin import offsets
from chronik.client.consumer import Consumer
from chronik.client.fetch_answers import FetchOptions
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.wire.batches import BatchView, build, split
from chronik.wire.compression import Codec
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.records import Record, TimestampType

_texts = st.one_of(st.none(), st.binary(max_size=20))
_headers = st.lists(st.tuples(st.text(max_size=5), _texts), max_size=2).map(tuple)


@st.composite
def logs(draw: Any) -> tuple[list[BatchView], int, int]:
    """Batches of one log with holes inside and between them, the offset where the log starts, and where it ends."""
    position = draw(st.integers(0, 50))
    batches = []
    for _ in range(draw(st.integers(0, 6))):
        first = position + draw(st.sampled_from([0, 0, 0, 1, 30]))
        whole = st.integers(1, 5).map(lambda count: list(range(count)))
        deltas = draw(st.one_of(whole, st.lists(st.integers(0, 12), unique=True, max_size=8).map(sorted)))
        last = first + max([*deltas, 0]) + draw(st.sampled_from([0, 0, 2]))
        kind = draw(st.sampled_from(list(TimestampType)))
        made = build(
            [
                Record(first + delta, draw(st.integers(0, 2**41)), draw(_texts), draw(_texts), draw(_headers))
                for delta in deltas
            ],
            draw(st.sampled_from(list(Codec))),
            base_offset=first,
            last_offset=last,
            max_timestamp=draw(st.integers(0, 2**41)) if kind is TimestampType.LOG_APPEND_TIME else None,
            timestamp_type=kind,
            producer_id=draw(st.sampled_from([-1, 7])),
            producer_epoch=3,
            base_sequence=11,
            leader_epoch=5,
            is_transactional=draw(st.booleans()),
        )
        batches += split(memoryview(made))
        position = last + 1
    end = position + draw(st.sampled_from([0, 1, 40]))
    start = draw(st.integers(0, end))
    return batches, start, end


async def contents(client: ClusterClient, topic: str, isolation_level: int) -> dict[TopicPartition, list[Record]]:
    """All records that a consumer reads, by partition."""
    places = [TopicPartition(topic, index) for index in (await client.topic(topic)).partitions]
    ends = await offsets.look_up(client, dict.fromkeys(places, LATEST), isolation_level=isolation_level)
    found: dict[TopicPartition, list[Record]] = {at: [] for at in places}
    async with Consumer(client, options=FetchOptions(isolation_level=isolation_level)) as consumer:
        await consumer.assign(dict.fromkeys(places, EARLIEST))
        while any(consumer.positions()[at] < getattr(ends[at], "offset", 0) for at in places):
            for fetched in await consumer.poll():
                found[fetched.at] += fetched.records
    return found
