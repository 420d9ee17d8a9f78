"""The answer to every kind of produced batch, held by a table, so that no change of the code changes one unnoticed."""

from __future__ import annotations

from pathlib import Path

from tests.broker.apis.produce_grid import lines
from tests.broker.hostile import run

ANSWERS = Path(__file__).with_name("produce_answers.txt")


def test_every_batch_is_answered_as_the_table_says() -> None:
    """The order of the checks decides which of several errors a client is told, and whether it retries. The digest at
    the end of a line covers the responses and the stored batches byte for byte."""
    expected, found = ANSWERS.read_text().splitlines(), run(lines())
    differing = [f"{was}\n  now {now}" for was, now in zip(expected, found, strict=True) if was != now]
    assert not differing, f"{len(differing)} lines differ; see produce_grid.py\n" + "\n".join(differing[:20])
