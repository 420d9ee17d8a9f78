"""How a benchmark leaves its figures: a page with the command and the machine, the same as JSON, and a plot."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[2] / "docs" / "benchmarks"


def machine() -> str:
    cores = os.cpu_count()
    names = [line.partition(":")[2].strip() for line in _read("/proc/cpuinfo").splitlines() if "model name" in line]
    load = os.getloadavg()[0]
    cpu = names[0] if names else platform.processor()
    return f"{cpu}, {cores} cores, Python {platform.python_version()}, load average {load:.1f} at the end"


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


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
