"""Draws the metrics in a table over time, one line for each name, as an SVG that needs nothing else.

python examples/telemetry/plot.py chronik-storage/tables/metrics metrics.svg [NAME ...]
"""

import sys
from pathlib import Path

from deltalake import DeltaTable

from chronik.pipeline import charts


def plot(table: str, names: tuple[str, ...] = ()) -> str:
    """Reads the table without Spark: it is Delta, and small."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in DeltaTable(table).to_pyarrow_table(columns=["name", "value", "at"]).sort_by("at").to_pylist():
        if row["value"] is not None and (not names or row["name"] in names):
            lines.setdefault(row["name"], []).append((row["at"].timestamp(), row["value"]))
    return charts.lines(lines, "value")


if __name__ == "__main__":
    table, target, *names = sys.argv[1:]
    Path(target).write_text(plot(table, tuple(names)))
