"""Gold without a watermark: computed anew from the tables it reads, whenever one of them has changed.

The versions that went in are the application's number of the commit, added up: versions only grow, so a sum that was
seen before is a result that is there already, after a restart too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.pipeline import table_writes
from chronik.pipeline.batches import Counts
from chronik.pipeline.flows import table_path

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
        """None when nothing has changed, or when a table that it reads is not there yet."""
        versions = {name: table_writes.version_of(self._table(name)) for name in self.flow.declaration.reads}
        number = sum(versions.values())
        if min(versions.values()) < 0 or table_writes.holds(self.flow.table, self.flow.group, number):
            return None
        transform = self.flow.declaration.transform
        assert transform is not None
        results = transform(*(self._read(name, version) for name, version in versions.items())).persist()
        try:
            count = results.count()
            version = table_writes.replace(results, self.flow, self.flow.group, number)
            return Counts(rows_in=count, rows_out=count, table_version=version)
        finally:
            results.unpersist()

    def _table(self, name: str) -> str:
        return table_path(self.flow.storage, name)

    def _read(self, name: str, version: int) -> DataFrame:
        return self._spark.read.format("chronik-table").option("versionAsOf", str(version)).load(self._table(name))
