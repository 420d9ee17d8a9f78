"""Where Spark finds format("chronik-table"): it imports top-level modules named `pyspark_*` and takes DefaultSource.

Spark imports every such module as soon as any Python data source is looked up. So this one needs nothing but pyspark:
a package of the extra that is missing is told by the first use of the format, and breaks no other data source. The
module's name carries no dash, but the format does: Spark goes by what `DefaultSource.name()` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

    from chronik.pipeline.tables.table import TableSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """`spark.read.format("chronik-table")`, `df.write.format("chronik-table")`, and the same for streams."""

    @classmethod
    def name(cls) -> str:
        return "chronik-table"

    @property
    def _table(self) -> TableSource:
        try:
            from chronik.pipeline.tables.table import TableSource
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                f"format('chronik-table') needs the package {missing.name}: pip install 'chronik[spark]'",
                name=missing.name,
            ) from missing
        return TableSource(self.options)

    def schema(self) -> StructType:
        return self._table.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._table.reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        return self._table.writer(schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        return self._table.streamWriter(schema, overwrite)
