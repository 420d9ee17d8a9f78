"""Makes `format("chronik")` known to Spark without a call of the user's.

Spark imports every top-level module named `pyspark_*` that it finds, once, and registers its `DefaultSource`. The name
of this package is therefore part of the contract; everything else lives in `chronik.pipeline`. Options are checked when
the source is made, so that a mistake is told where it was written and not when the first batch runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """`spark.readStream.format("chronik")`, `spark.read.format("chronik")`, `df.write.format("chronik")`."""

    @classmethod
    def name(cls) -> str:
        return "chronik"

    def schema(self) -> StructType:
        from chronik.pipeline.schema import schema_of

        return schema_of(include_headers=self.options.get("includeHeaders", "false").lower() == "true")

    def reader(self, schema: StructType) -> DataSourceReader:
        from chronik.pipeline.options import parse
        from chronik.pipeline.schema import columns_of
        from chronik.pipeline.source import TopicReader

        return TopicReader(parse(self.options, is_stream=False), columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from chronik.pipeline.options import parse
        from chronik.pipeline.schema import columns_of
        from chronik.pipeline.source import TopicStreamReader

        return TopicStreamReader(parse(self.options, is_stream=True), columns_of(schema))
