"""`chronik pipeline test`: runs a pipeline's functions on rows from files, in one session, without broker or tables.

The records of fixtures/TOPIC.jsonl go through the same decoding, functions and expectations as in a run. A silver keeps
the last row of each key, a gold is computed over all of it, as after a run that has read everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import DELETED, Bronze, Declaration, Gold, Silver, ToTopic
from chronik.pipeline.registry import Pipeline, load
from chronik.pipeline.rows import (
    ERROR_CLASS,
    RECORD_SCHEMA,
    decoded,
    good,
    judged,
    kept,
    marked,
    refused,
    timed,
)
from chronik.pipeline.table_writes import flat
from chronik.pipeline.tables.order import Keeping, living
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Tested:
    """One table: its rows, and the differences from the expected ones; both empty if none were expected."""

    name: str
    rows: list[dict[str, Any]]
    dead: dict[str, int] = field(default_factory=dict)  # dead letters by error class
    is_compared: bool = False
    missing: list[dict[str, Any]] = field(default_factory=list)
    surplus: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return not self.missing and not self.surplus

    def document(self) -> dict[str, Any]:
        told = {"name": self.name, "rows": len(self.rows), "dead": self.dead, "compared": self.is_compared}
        return told | {"right": self.is_right, "missing": self.missing, "surplus": self.surplus}

    def lines(self) -> Iterator[str]:
        dead = "".join(f", {count} dead ({name})" for name, count in self.dead.items())
        verdict = "" if not self.is_compared else ": as expected" if self.is_right else ": NOT as expected"
        yield f"{self.name}: {counted(len(self.rows), 'row')}{dead}{verdict}"
        if not self.is_compared:
            yield from (f"    {json.dumps(row, ensure_ascii=False, default=str)}" for row in self.rows)
        yield from (f"  - {json.dumps(row, ensure_ascii=False, default=str)}" for row in self.missing)
        yield from (f"  + {json.dumps(row, ensure_ascii=False, default=str)}" for row in self.surplus)


def run_fixtures(spark: SparkSession, file: Path) -> list[Tested]:
    pipeline = load(file)
    fixture = _Fixture(spark, pipeline, file.resolve().parent)
    return [fixture.tested(declaration) for declaration in pipeline if not isinstance(declaration, ToTopic)]


class _Fixture:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, folder: Path) -> None:
        self._spark, self._pipeline, self._folder = spark, pipeline, folder
        self._rows: dict[str, DataFrame] = {}

    def tested(self, declaration: Declaration) -> Tested:
        rows = [_plain(row.asDict(recursive=True)) for row in self._table(declaration).collect()]
        expected = self._folder / "expected" / f"{declaration.name}.jsonl"
        dead = self._dead(declaration)
        if not expected.exists():
            return Tested(declaration.name, rows, dead)
        wanted = [json.loads(line) for line in expected.read_text().splitlines() if line.strip()]
        columns = list(wanted[0]) if wanted else []
        left = [{name: row.get(name) for name in columns} for row in rows] if columns else list(rows)
        missing = []
        for row in wanted:
            if row in left:
                left.remove(row)
            else:
                missing.append(row)
        return Tested(declaration.name, rows, dead, is_compared=True, missing=missing, surplus=left)

    def _decoded(self, bronze: Bronze) -> DataFrame:
        file = self._folder / "fixtures" / f"{bronze.topic}.jsonl"
        if not file.exists():
            raise PipelineFault("FILE_NOT_FOUND", at=bronze.declared_at, file=str(file))
        now = datetime.now(UTC)
        records = []
        for offset, line in enumerate(filter(str.strip, file.read_text().splitlines())):
            record = json.loads(line)
            place = (bronze.topic, 0, offset, now, 0, None)
            records.append((_bytes(record.get("key")), _bytes(record.get("value")), *place))
        return decoded(self._spark.createDataFrame(records, RECORD_SCHEMA), bronze, "fixture")

    def _stream(self, declaration: Declaration) -> DataFrame:
        """Rows after expectations, before keeping one per key."""
        if declaration.name not in self._rows:
            if isinstance(declaration, Bronze):
                inputs = [good(self._decoded(declaration))]
            else:
                is_view = isinstance(declaration, Gold) and not declaration.is_stream
                read = [each for name in declaration.reads if (each := self._pipeline.named(name)) is not None]
                inputs = [self._table(each) if is_view else self._kept(each) for each in read]
            if isinstance(declaration, Gold):
                inputs = [timed(rows, declaration) for rows in inputs]
            rows = declaration.transform(*inputs) if declaration.transform is not None else inputs[0]
            self._rows[declaration.name] = judged(
                rows, getattr(declaration, "expectations", ()), getattr(declaration, "keys", ())
            )
        return self._rows[declaration.name]

    def _kept(self, declaration: Declaration) -> DataFrame:
        return kept(self._stream(declaration))

    def _table(self, declaration: Declaration) -> DataFrame:
        rows = self._kept(declaration)
        if isinstance(declaration, Gold):
            return flat(rows)
        if not isinstance(declaration, Silver) or not declaration.keys:
            return rows
        keeping = Keeping(declaration.keys, (declaration.sequence_by,), DELETED)
        rows = marked(rows, declaration).coalesce(1)  # so that rows of a key are in one task

        def stand(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            if held := list(batches):
                yield from living(pa.Table.from_batches(held), keeping).to_batches()

        return rows.mapInArrow(stand, rows.schema).drop(DELETED)

    def _dead(self, declaration: Declaration) -> dict[str, int]:
        if isinstance(declaration, Bronze):
            counted = self._decoded(declaration).where(f"{ERROR_CLASS} IS NOT NULL").groupBy(ERROR_CLASS).count()
            return {row[0]: row[1] for row in sorted(counted.collect())}
        if not isinstance(declaration, Silver):
            return {}
        counted = refused(self._stream(declaration)).groupBy(ERROR_CLASS).count()
        return {row[0]: row[1] for row in sorted(counted.collect())}


def _bytes(value: Any) -> bytearray | None:
    if value is None:
        return None
    return bytearray((value if isinstance(value, str) else json.dumps(value)).encode())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """In JSON's types, to compare rows with lines of a file."""
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
        if not isinstance(value, bytes | bytearray)
    }
