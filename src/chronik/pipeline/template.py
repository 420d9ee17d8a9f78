"""The files of `chronik pipeline init`: a small pipeline with every layer, and rows to test it with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from chronik.pipeline.conditions import PipelineFault

PIPELINE: Final = '''\
"""Orders from a topic to a table by key, and what each customer has spent.

    chronik topic create orders
    chronik pipeline test pipeline.py       # on fixtures/, without a broker
    chronik pipeline dry-run pipeline.py    # checks topics, tables and columns
    chronik pipeline run pipeline.py        # until Ctrl-C
"""

from pyspark.sql import functions as F

from chronik.pipeline import bronze, expect, gold, silver


@bronze(topic="orders", decode="json", key="id long", schema="customer string, amount double, updated timestamp")
def raw_orders(records):
    """Every record of the topic, decoded; what cannot be is in the topic orders.dlq."""
    return records


@silver(
    keys=["id"],
    sequence_by="updated",
    delete_when="_deleted",
    expectations=[expect("amount is not negative", "amount >= 0", on_fail="dlq")],
)
def orders(raw_orders):
    """Orders as they are now."""
    return raw_orders.withColumn("customer", F.lower("customer"))


@gold()
def spending(orders):
    """Computed anew when an order has changed."""
    return orders.groupBy("customer").agg(F.sum("amount").alias("spent"))
'''
FIXTURE: Final = """\
{"key": "1", "value": {"customer": "Ada", "amount": 10.0, "updated": "2026-01-01T10:00:00Z"}}
{"key": "2", "value": {"customer": "Bob", "amount": 5.0, "updated": "2026-01-01T10:01:00Z"}}
{"key": "1", "value": {"customer": "Ada", "amount": 12.5, "updated": "2026-01-01T10:02:00Z"}}
{"key": "2", "value": null}
{"key": "3", "value": {"customer": "Eve", "amount": -1.0, "updated": "2026-01-01T10:03:00Z"}}
{"key": "4", "value": "{\\"customer\\": \\"cut o"}
"""
EXPECTED: Final = {
    "orders": '{"id": 1, "customer": "ada", "amount": 12.5}\n',
    "spending": '{"customer": "ada", "spent": 12.5}\n',
}


def write_template(folder: Path) -> list[Path]:
    """Writes to a new folder: existing files are never overwritten."""
    if folder.exists():
        raise PipelineFault("FILE_NOT_READABLE", file=str(folder), reason="it exists; name a new folder")
    texts = {folder / "pipeline.py": PIPELINE, folder / "fixtures" / "orders.jsonl": FIXTURE}
    texts |= {folder / "expected" / f"{name}.jsonl": text for name, text in EXPECTED.items()}
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(texts)
