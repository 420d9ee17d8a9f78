"""Makes `format("chronik")` known to Spark without a call of the user's.

Spark imports every top-level module named `pyspark_*` that it finds, once, and registers its `DefaultSource`. The name
of this package is therefore part of the contract; everything else lives in `chronik.pipeline`. Options are checked as
early as Spark lets us: a mistake is told by `load()`, where it was made, and not by the first batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """`spark.readStream.format("chronik")`, `spark.read.format("chronik")`, `df.write.format("chronik")`."""

    @classmethod
    def name(cls) -> str:
        return "chronik"

    def schema(self) -> StructType:
        from chronik.pipeline.options import require_sense
        from chronik.pipeline.schema import schema_of

        require_sense(self.options)
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

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        from chronik.pipeline.schema import sink_options_of
        from chronik.pipeline.sink import TopicWriter

        return TopicWriter(sink_options_of(self.options, schema, overwrites=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        from chronik.pipeline.schema import sink_options_of
        from chronik.pipeline.sink import TopicStreamWriter

        return TopicStreamWriter(sink_options_of(self.options, schema, overwrites=overwrite))
