"""A table as a DataFrame that Spark's own Parquet reader fills: the files of one snapshot, read by the JVM.

The rows are those of `format("chronik-table")`, which takes them through Python workers and needs about ten times as
long. Tables that Spark's reader could read differently go through that format: partitioned tables, tables that are not
on a local path, and paths that Spark would take for a pattern.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import stored_files

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")


def table_frame(spark: SparkSession, path: str, *, version: int | None = None) -> DataFrame:
    """The table at a version; the newest now, if none is given. Later commits do not affect the DataFrame."""
    from pyspark.sql.types import StructType

    place = Place.of(path)
    table = place.load_as_of(version=version)
    files = [f"file://{place.uri}/{each.path}" for each in stored_files(place, table)]
    if not _is_plain(place, table, files):
        return spark.read.format("chronik-table").option("versionAsOf", table.version()).load(path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)


def _is_plain(place: Place, table: DeltaTable, files: list[str]) -> bool:
    return place.is_local and not table.metadata().partition_columns and not any(map(_PATTERN.search, files))
