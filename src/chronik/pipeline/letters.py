"""Dead letters without Spark: their header names, decoding one, and creating their topic.

Header names are part of the contract: external tools read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chronik.pipeline.flows import Flow
    from chronik.pipeline.live_cluster import LiveCluster
    from chronik.pipeline.plan import TopicFacts
    from chronik.wire.records import Record

PREFIX: Final = "chronik.dlq."
# The headers of a letter, in this order, each as text.
TOPIC, TOPIC_ID, PARTITION, OFFSET = f"{PREFIX}topic", f"{PREFIX}topic.id", f"{PREFIX}partition", f"{PREFIX}offset"
TIMESTAMP = f"{PREFIX}timestamp"  # timestamp of the record, in ms
PIPELINE, FLOW = f"{PREFIX}pipeline", f"{PREFIX}flow"
ERROR, MESSAGE = f"{PREFIX}error", f"{PREFIX}message"
ADDED: Final = (TOPIC, TOPIC_ID, PARTITION, OFFSET, TIMESTAMP, PIPELINE, FLOW, ERROR, MESSAGE)
# Room for the headers added to a record that already has its topic's maximum size.
HEADER_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as shown to users and passed to `fix`."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    timestamp_ms: int
    pipeline: str
    flow: str
    error: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]  # headers of the producer


def letter_of(record: Record) -> Letter | None:
    """None for a record that no flow wrote: any client may write to the topic."""
    said = {name: (text or b"").decode("utf-8", "replace") for name, text in record.headers if name in ADDED}
    own = tuple((name, value) for name, value in record.headers if name not in ADDED)
    try:
        return Letter(
            topic=said[TOPIC],
            topic_id=said[TOPIC_ID],
            partition=int(said[PARTITION]),
            offset=int(said[OFFSET]),
            timestamp_ms=int(said[TIMESTAMP]),
            pipeline=said[PIPELINE],
            flow=said[FLOW],
            error=said[ERROR],
            message=said[MESSAGE],
            key=record.key,
            value=record.value,
            headers=own,
        )
    except (KeyError, ValueError):
        return None


def prepare(cluster: LiveCluster, flow: Flow, source: TopicFacts) -> None:
    """Creates the topic, with room for the headers and unlimited retention: its source may delete the records."""
    limit = int(cluster.configs_of([flow.source_topic])[flow.source_topic]["max.message.bytes"])
    settings = {"retention.ms": "-1", "max.message.bytes": str(min(limit + HEADER_BYTES_MAX, 2**31 - 1))}
    cluster.create_topic(flow.dlq_topic, source.partition_count, settings)
