"""A pipeline without Spark: python -m tests.pipeline.topic_loop BOOTSTRAP TOPIC STORAGE KEYS. Tests kill it.

Works like a flow, in Spark's order: record the end of the batch, decode and write its rows, commit the table, record
that the batch is done. After a start it repeats a batch that is not recorded as done, up to the recorded end. With KEYS
the table is kept by key. It runs until it is killed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow as pa

from chronik.client.topology import TopicPartition
from chronik.pipeline.cluster import BlockingCluster
from chronik.pipeline.declarations import Bronze, Declaration, Silver
from chronik.pipeline.flow_notes import write_note
from chronik.pipeline.flows import flows_of
from chronik.pipeline.offsets import Position
from chronik.pipeline.plain_rows import RECORD_COLUMNS, PlainRows
from chronik.pipeline.reading import read_range
from chronik.pipeline.registry import Pipeline
from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.writing import Target
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import LATEST

NAME = "orders"
SCHEMA = "n long, city string"
DELTA_TYPES = {
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def pipeline_of(topic: str, keys: str) -> Pipeline:
    """Bronze alone, or with a silver by key above it."""
    bronze = Bronze("records" if keys else NAME, topic, decode="json", schema=SCHEMA, key="id long")
    found: list[Declaration] = [bronze]
    if keys:
        found.append(Silver(NAME, ("records",), keys=("id",), sequence_by="_offset", delete_when="_deleted"))
    return Pipeline("shop", "", tuple(found))


class Loop:
    def __init__(self, bootstrap: str, topic: str, storage: str, keys: str = "") -> None:
        self.bootstrap, self.topic = bootstrap, topic
        pipeline = pipeline_of(topic, keys)
        [self.flow] = [flow for flow in flows_of(pipeline, storage) if flow.name == NAME]
        write_note(pipeline, self.flow)
        self.cluster = BlockingCluster(bootstrap, client_id="loop")
        self.topic_id, self.partitions = self.cluster.topics([topic])[topic]
        self.rows = PlainRows(pipeline.declarations[0], self.topic_id)  # type: ignore[arg-type]
        self.checkpoint = Path(self.flow.checkpoint)
        more = {"mode": "upsert", "keys": ("id",), "sequence_by": ("_offset",), "delete_column": "_deleted"}
        self.options = TableOptions(Place.of(self.flow.table), compact_above=5, **(more if keys else {}))
        fields = [
            {"name": each.name, "type": DELTA_TYPES[each.type], "nullable": True, "metadata": {}}
            for each in self.rows.schema
        ]
        self.schema_json = json.dumps({"type": "struct", "fields": fields})

    def batch(self, number: int) -> None:
        noted = self.checkpoint / "offsets" / str(number)
        if not noted.exists():
            at = [TopicPartition(self.topic, index) for index in self.partitions]
            ends = self.cluster.offsets(dict.fromkeys(at, LATEST), READ_COMMITTED)
            position = Position({self.topic: self.topic_id}, {each: end or 0 for each, end in ends.items()})
            note(noted, "v1\n{}\n" + json.dumps(position.to_json()))
        target = Target.of(self.options, self.schema_json)
        outputs = [target.write(self._rows(number, index), f"b{number}-{index}") for index in self.partitions]
        target.commit(outputs, BatchName(f"{self.flow.group}/query", number))
        note(self.checkpoint / "commits" / str(number), "v1\n{}")

    def _rows(self, number: int, partition: int) -> list[pa.RecordBatch]:
        start = self._noted(number - 1).get(partition, 0) if number else 0
        records = read_range(
            self.bootstrap,
            self.topic,
            partition,
            start=start,
            end=self._noted(number)[partition],
            columns=RECORD_COLUMNS,
        )
        return [self.rows.of(each) for each in records]

    def _noted(self, number: int) -> dict[int, int]:
        text = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()[-1]
        return {at.partition: offset for at, offset in Position.from_json(json.loads(text)).offsets.items()}

    def next_number(self) -> int:
        folder = self.checkpoint / "commits"
        return max((int(each.name) for each in folder.glob("[0-9]*")), default=-1) + 1 if folder.is_dir() else 0


def note(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.replace(path)


def main(*words: str) -> None:
    loop = Loop(*words)
    number = loop.next_number()
    print("started", flush=True)
    while True:
        loop.batch(number)
        number += 1
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
