"""A page of figures: what made it, on which machine, its tables; and the same figures as JSON beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from load.report import machine

OUTPUT = Path(__file__).parents[2] / "docs" / "benchmarks"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write_page(name: str, *, title: str, command: str, sections: Sequence[str], figures: Mapping[str, Any]) -> Path:
    """docs/benchmarks/NAME.md and NAME.json; returns the page."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    head = f"# {title}\n\nMade by `{command}` on {when}; {machine()}.\nRatios of one run count; absolute figures vary."
    page = OUTPUT / f"{name}.md"
    page.write_text("\n\n".join([head, *sections]) + "\n")
    (OUTPUT / f"{name}.json").write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    return page
