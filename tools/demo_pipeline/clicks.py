"""The demo's pipeline: clicks become rows of a table, and what cannot be decoded a dead letter."""

from pyspark.sql import DataFrame

from chronik.pipeline import bronze


@bronze(topic="clicks", decode="json", schema="user long, page string, at timestamp")
def clicks(records: DataFrame) -> DataFrame:
    return records
