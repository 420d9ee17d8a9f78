"""Positions of a query as stored in its checkpoint, and the ranges between two of them. Pure.

    {"orders": {"id": "9qM1bYvWR0mHkXTRcDm9Mw", "offsets": {"0": 23, "1": 42}}}

The topic's id is stored with its offsets, because offsets mean nothing for another topic of the same name. A position
may also hold where its batch began, for partitions missing in the previous position: all of them in a query's first
batch, new ones later. So a batch that is repeated after a restart covers the same records, even if
`startingOffsets=latest` has a different meaning by then.

    {"orders": {"id": ..., "offsets": {"0": 23, "1": 42}, "began": {"0": 7}}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from chronik.client.topology import TopicPartition
from chronik.pipeline.errors import PipelineError
from chronik.runtime.invariants import check


class OffsetRange(NamedTuple):
    """Records with `start` <= offset < `end`, read by one Spark task."""

    topic: str
    topic_id: str  # in the format of Kafka's tools; empty if brokers have no ids
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset of every partition that a query reads."""

    topic_ids: Mapping[str, str]
    offsets: Mapping[TopicPartition, int]
    began: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_initial: bool = False  # computed from options, not by a batch

    def to_json(self) -> dict[str, Any]:
        check(
            {at.topic for at in self.offsets} <= self.topic_ids.keys(),
            "19 a checkpoint holds every partition that was read",
            topics=sorted(self.topic_ids),
            offsets=self.offsets,
        )
        shown: dict[str, Any] = {}
        for topic, topic_id in sorted(self.topic_ids.items()):
            shown[topic] = {"id": topic_id, "offsets": _of(topic, self.offsets)}
            if began := _of(topic, self.began):
                shown[topic]["began"] = began
            if self.is_initial:
                shown[topic]["initial"] = True
        return shown

    @classmethod
    def from_json(cls, shown: Mapping[str, Any]) -> Position:
        try:
            return cls(
                {topic: str(told["id"]) for topic, told in shown.items()},
                _read(shown, "offsets"),
                _read(shown, "began"),
                any(told.get("initial", False) for told in shown.values()),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as fault:
            reason = f"{type(fault).__name__} in {str(shown)[:200]}; the checkpoint is not one of this source"
            raise PipelineError("INVALID_OFFSETS", reason=reason) from None


def _of(topic: str, offsets: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {str(at.partition): offset for at, offset in sorted(offsets.items()) if at.topic == topic}


def _read(shown: Mapping[str, Any], name: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, told in shown.items()
        for partition, offset in told.get(name, {}).items()
    }


def require_same_topics(before: Position, topic_ids: Mapping[str, str]) -> None:
    """Raises TOPIC_ID_CHANGED if a topic was recreated since it was read."""
    for topic, topic_id in sorted(before.topic_ids.items()):
        now = topic_ids.get(topic, topic_id)
        if topic_id and now and now != topic_id:
            raise PipelineError("TOPIC_ID_CHANGED", topic=topic, before=topic_id, after=now)


def ranges(start: Position, end: Position) -> list[OffsetRange]:
    """The ranges between two positions, in order; partitions without new records are omitted."""
    require_same_topics(start, end.topic_ids)
    # Only the end records where the first batch began: the options may resolve differently now.
    known = {**start.offsets, **end.began} if start.is_initial else {**end.began, **start.offsets}
    found = []
    for at, end_offset in sorted(end.offsets.items()):
        start_offset = known.get(at, 0)  # an unknown partition is new
        if start_offset < end_offset:
            found.append(OffsetRange(at.topic, end.topic_ids[at.topic], at.partition, start_offset, end_offset))
    return found
