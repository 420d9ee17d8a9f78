"""What commands print: tables for people, JSON for programs, from the same rows.

A row is a dict; a `Column` says which key to show, under which title and how. JSON gets the rows as they are: numbers
stay numbers and sizes stay bytes. People get units, a sign for "none", and times with their zone. Colours and the width
of the terminal matter only when there is one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Row = Mapping[str, Any]

NOTHING: Final = "-"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SECONDS_PER: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    title: str
    show: Callable[[Any], str] = str
    is_number: bool = False


def print_rows(rows: Sequence[Row], columns: Sequence[Column], *, as_json: bool, empty: str = "") -> None:
    """`empty` is said to people in place of a table without rows."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        print(empty, file=sys.stderr)
        return
    cells = [[_cell(row.get(column.key), column) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _print_for_terminal(cells, columns)
        return
    cells.insert(0, [column.title for column in columns])
    widths = [max(map(len, cut)) for cut in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def _print_for_terminal(cells: Sequence[Sequence[str]], columns: Sequence[Column]) -> None:
    """As wide as the terminal, what does not fit cut with a sign; titles in bold."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_number else "left", no_wrap=True)
    for line in cells:
        table.add_row(*map(Text, line))
    Console(highlight=False).print(table)


def _cell(value: Any, column: Column) -> str:
    return NOTHING if value is None else column.show(value)


def print_json(value: Any) -> None:
    """One document; indented only where somebody reads it."""
    print(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def human_bytes(size_bytes: int) -> str:
    """As people say it: 1023 B, 1.5 KiB, 20 MiB."""
    value = float(size_bytes)
    for unit in UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {UNITS[-1]}"


def human_count(count: int) -> str:
    return f"{count:,}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """1 record, 2 records, 0 records."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def human_duration(duration_ms: int) -> str:
    """The two largest units that say something: 850ms, 4.2s, 3m 20s, 2d 4h."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}s"
    left_s = duration_ms // 1000
    parts = []
    for unit, unit_s in SECONDS_PER:
        count, left_s = divmod(left_s, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def yes_or_no(flag: bool) -> str:  # noqa: FBT001 - the flag is what is shown
    return "yes" if flag else "no"


def id_list(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))


def time_text(timestamp_ms: int) -> str | None:
    """ISO 8601 with the zone of this machine; None for a record without time."""
    if timestamp_ms < 0:
        return None
    try:
        return (EPOCH + timedelta(milliseconds=timestamp_ms)).astimezone().isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):  # a client may write any 64 bits
        return str(timestamp_ms)
