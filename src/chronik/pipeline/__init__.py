"""Chronik for Spark: topics as streaming and batch sources and sinks, Delta tables, and pipelines made of them.

This package exports what a pipeline file imports, without Spark. Modules that need Spark need the extra `spark` (`pip
install chronik[spark]`). Reading topics without Spark is separate: `decode` turns record batches into Arrow, `reading`
fetches them with a blocking socket, and neither imports pyspark.
"""

from chronik.pipeline.declarations import LINEAGE, bronze, gold, silver, to_topic
from chronik.pipeline.expectations import expect

__all__ = ["LINEAGE", "bronze", "expect", "gold", "silver", "to_topic"]
