"""The demo's pipeline: clicks become rows of a table, and what cannot be decoded a dead letter."""

from chronik.pipeline import bronze


@bronze(topic="clicks", decode="json", schema="user long, page string, at timestamp")
def clicks(records):
    return records
