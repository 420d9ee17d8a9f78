"""docs/reference/compatibility.md agrees with the handlers and with the exceptions of the comparison with Kafka."""

from __future__ import annotations

from pathlib import Path

from chronik.broker.api import served_apis
from chronik.broker.compatibility import DIFFERENCES, document

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compatibility.md"


def test_the_page_is_up_to_date() -> None:
    """A page that differs from the code is worse than none: `python -m chronik.broker.compatibility` writes it."""
    assert PAGE.read_text() == document()


def test_every_api_says_what_it_does() -> None:
    """Users choose by this table, so no cell may be empty."""
    rows = [line for line in document().splitlines() if line.startswith("| ") and "| key |" not in line]
    assert len(rows) == len(served_apis()) + len(DIFFERENCES) + 1  # the heading of the differences
    assert [row for row in rows if "|  |" in row] == []
