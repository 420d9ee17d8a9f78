"""The query in the README, for the tests that run it unchanged."""

from __future__ import annotations

import re

from tests.house.repository import ROOT

QUERY = r"^    (spark\.readStream\.format\(\"chronik\"\).*)$"


def readme_query(bootstrap: str, topic: str) -> str:
    """A line of Python with a `spark` in it; only the broker and the topic are the test's own."""
    [query] = re.findall(QUERY, (ROOT / "README.md").read_text(), re.MULTILINE)
    return str(query).replace("localhost:9092", bootstrap).replace('"orders"', f'"{topic}"')
