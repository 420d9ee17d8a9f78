"""Gold without a watermark: recomputed from its input tables whenever one of them has changed.

The commit of a result records its inputs: the id and version of each table. A result is up to date if these match the
current tables. So a table that was rebuilt, or restored from an older copy, is noticed although its version is lower. A
result with unknown inputs is recomputed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from chronik.pipeline import table_writes
from chronik.pipeline.batches import Counts
from chronik.pipeline.flows import table_path
from chronik.pipeline.table_frames import table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from chronik.pipeline.flows import Flow
    from chronik.pipeline.registry import Pipeline


class View:
    def __init__(self, spark: SparkSession, pipeline: Pipeline, flow: Flow) -> None:
        self.flow = flow
        self._spark = spark
        self._pipeline = pipeline

    def refresh(self) -> Counts | None:
        """None if nothing has changed, or if an input table does not exist yet."""
        found = {name: table_writes.identity_of(self._table(name)) for name in self.flow.declaration.reads}
        tables = {name: identity for name, identity in found.items() if identity is not None}
        inputs = json.dumps(tables, sort_keys=True)
        if len(tables) < len(found) or table_writes.inputs_of(self.flow.table) == inputs:
            return None
        transform = self.flow.declaration.transform
        assert transform is not None
        results = transform(*(self._read(name, version) for name, (_, version) in tables.items())).persist()
        try:
            count = results.count()
            version = table_writes.replace(results, self.flow, inputs)
            return Counts(rows_in=count, rows_out=count, table_version=version)
        finally:
            results.unpersist()

    def _table(self, name: str) -> str:
        return table_path(self.flow.storage, name)

    def _read(self, name: str, version: int) -> DataFrame:
        return table_frame(self._spark, self._table(name), version=version)
