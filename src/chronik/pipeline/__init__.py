"""Data pipelines on Spark: what a pipeline file imports. Importing it brings no Spark along."""

from chronik.pipeline.declarations import LINEAGE, bronze, gold, silver, to_topic
from chronik.pipeline.expectations import expect

__all__ = ["LINEAGE", "bronze", "expect", "gold", "silver", "to_topic"]
