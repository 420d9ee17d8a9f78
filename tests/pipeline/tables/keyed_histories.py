"""Random histories of a keyed topic, and the simplest model of its table: a dict that gets every record in order.

A history is a list of records in the order in which they were produced. Partitions are read at different speeds, so a
batch holds a stretch of each, and a record may be read long after one that was produced later.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import pyarrow as pa

from tests.pipeline.tables.rows import PROVENANCE_FIELDS, START

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("updated", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("tags", pa.list_(pa.string())),  # nested, as real rows are
        *PROVENANCE_FIELDS,
        pa.field("_deleted", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Record:
    produced: int
    key: int
    partition: int
    offset: int
    updated: int | None  # None in a tombstone
    is_deletion: bool

    def row(self, at_ms: int) -> dict[str, Any]:
        return {
            "id": self.key,
            "updated": self.updated,
            "value": None if self.is_deletion else f"v{self.produced}",
            "tags": None if self.is_deletion else [str(self.produced)],
            "_topic_id": "T",
            "_partition": self.partition,
            "_offset": self.offset,
            "_timestamp": START + timedelta(milliseconds=at_ms),
            "_deleted": self.is_deletion,
        }


class Hard(StrEnum):
    """What makes a history hard."""

    GROWTH = "growth"  # partitions double in number, so that keys move
    TOMBSTONES = "tombstones"  # deletions that have no value of the sequence
    LAG = "lag"  # partitions are read at different speeds
    CLOCKS = "clocks"  # timestamps go back


# A table by sequence forgets a row that lost, so growth, tombstones and lag together are not supported: a tombstone
# that is read late, in a partition that the key has left, removes the row that won, not the one that lost. Wrong clocks
# can be combined with everything except growth, because records in one partition compare by offset.
BY_LOG = [{Hard.GROWTH, Hard.TOMBSTONES, Hard.LAG}, {Hard.CLOCKS, Hard.TOMBSTONES, Hard.LAG}]
BY_SEQUENCE = [{Hard.GROWTH, Hard.TOMBSTONES}, {Hard.GROWTH, Hard.LAG}, {Hard.CLOCKS, Hard.TOMBSTONES, Hard.LAG}]


class History:
    """The records of a topic, and how they are read."""

    def __init__(self, rng: random.Random, size: int, hard: Collection[Hard], *, keys: int = 5) -> None:
        self.rng, self.hard = rng, hard
        self.records: list[Record] = []
        ends = [0] if Hard.GROWTH in hard else [0, 0]
        for produced in range(size):
            if Hard.GROWTH in hard and len(ends) < 4 and rng.random() < 0.1:
                ends += [0] * len(ends)
            key = rng.randrange(keys)
            partition = key % len(ends)
            is_deletion = rng.random() < 0.35
            is_tombstone = is_deletion and Hard.TOMBSTONES in hard and rng.random() < 0.5
            updated = None if is_tombstone else rng.randrange(12)
            self.records.append(Record(produced, key, partition, ends[partition], updated, is_deletion))
            ends[partition] += 1
        self.times_ms = [rng.randrange(50) if Hard.CLOCKS in hard else produced for produced in range(size)]

    def batches(self, count: int) -> list[list[Record]]:
        """Each partition in its order; within a batch, rows come in no order."""
        found: list[list[Record]] = [[] for _ in range(count)]
        partitions = {record.partition for record in self.records} if Hard.LAG in self.hard else {None}
        for partition in partitions:
            own = [record for record in self.records if partition in (None, record.partition)]
            for record, batch in zip(own, sorted(self.rng.choices(range(count), k=len(own))), strict=True):
                found[batch].append(record)
        for batch in found:
            self.rng.shuffle(batch)
        return found

    def table(self, records: Iterable[Record]) -> pa.Table:
        return pa.Table.from_pylist([record.row(self.times_ms[record.produced]) for record in records], SCHEMA)


def told(records: Iterable[Record], *, by_sequence: bool) -> dict[int, str]:
    """The rows that remain after these records, according to a dict. It needs no partitions: it gets records in the
    order of production."""
    heard: dict[int, list[Record]] = {}
    for record in sorted(records, key=lambda record: record.produced):
        if record.is_deletion and (record.updated is None or not by_sequence):
            heard[record.key] = []
        else:
            heard.setdefault(record.key, []).append(record)
    last = {
        key: max(own, key=lambda record: (record.updated if by_sequence else 0, record.produced))  # type: ignore[arg-type, return-value]
        for key, own in heard.items()
        if own
    }
    return {key: f"v{record.produced}" for key, record in last.items() if not record.is_deletion}
