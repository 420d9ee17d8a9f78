"""Chronik for Spark: topics as streaming and batch sources and sinks, Delta tables, and pipelines made of them.

Here is what a pipeline file imports; it brings no Spark along. What needs Spark needs the extra `spark` (`pip install
chronik[spark]`). What reads topics without Spark stands apart: `decode` turns record batches into Arrow, `reading`
fetches them with a blocking socket, and neither imports pyspark.
"""

from chronik.pipeline.declarations import LINEAGE, bronze, gold, silver, to_topic
from chronik.pipeline.expectations import expect

__all__ = ["LINEAGE", "bronze", "expect", "gold", "silver", "to_topic"]
