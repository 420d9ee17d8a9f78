"""What commands print: tables for people, JSON for programs, from the same rows.

A row is a dict; a `Column` says which key to show, under which title and how. JSON gets the rows as they are: numbers
stay numbers and sizes stay bytes. People get units, a sign for "none", and times with their zone. On a terminal a table
is never wider than the screen, and what is left out is said; in a pipe it is always whole.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from chronik.runtime.wording import counted
from chronik.runtime.wording import human_bytes as human_bytes
from chronik.runtime.wording import human_count as human_count
from chronik.runtime.wording import human_duration as human_duration

Row = Mapping[str, Any]

NOTHING: Final = "-"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
GAP: Final = 2  # blanks between two columns
_UNPRINTED: Final = re.compile(r"[^\n -~]")
TEXT_MIN: Final = 8  # characters of a text that must be seen for its column to be worth showing


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    title: str
    show: Callable[[Any], str] = str
    is_number: bool = False
    nothing: str = NOTHING  # stands for None


def print_rows(
    rows: Sequence[Row], columns: Sequence[Column], *, as_json: bool, empty: str = "", whole: str = "--format json"
) -> None:
    """`empty` is said to people in place of a table without rows; `whole` is what shows columns that do not fit."""
    if as_json:
        print_json(list(rows))
        return
    if not rows:
        print(empty, file=sys.stderr)
        return
    cells = [[_cell(row.get(column.key), column) for column in columns] for row in rows]
    if sys.stdout.isatty():
        _print_for_terminal(cells, columns, whole)
        return
    cells.insert(0, [column.title for column in columns])
    widths = [max(map(len, cut)) for cut in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def _print_for_terminal(cells: Sequence[Sequence[str]], columns: Sequence[Column], whole: str) -> None:
    """As wide as the terminal. Long texts are cut with a sign; columns without room are left out and counted."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    shown = [[visible(cell) for cell in line] for line in cells]
    needed = [
        max(cell_len(column.title), *(cell_len(line[index]) for line in shown)) for index, column in enumerate(columns)
    ]
    widths = fit(needed, columns, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=False):
        justify: Literal["right", "left"] = "right" if column.is_number else "left"
        table.add_column(Text(column.title), justify=justify, no_wrap=True, overflow="ellipsis", width=width)
    for line in shown:
        table.add_row(*map(Text, line[: len(widths)]))
    console.print(table)
    if hidden := columns[len(widths) :]:
        names = ", ".join(column.title for column in hidden)
        print(f"{counted(len(hidden), 'column')} not shown ({names}): use {whole}", file=sys.stderr)


def fit(needed: Sequence[int], columns: Sequence[Column], room: int) -> list[int]:
    """The widths of the columns that fit into `room`, first to last; those that are missing do not fit.

    The widest texts give way first, down to their titles. Numbers are never cut: a part of a number is another number.
    """
    least = [
        width if column.is_number else min(width, max(len(column.title), TEXT_MIN))
        for width, column in zip(needed, columns, strict=True)
    ]
    count = len(columns)
    while count > 1 and sum(least[:count]) + GAP * (count - 1) > room:
        count -= 1
    for cap in range(min(max(needed), room), 0, -1):
        widths = [max(low, min(need, cap)) for low, need in zip(least[:count], needed[:count], strict=True)]
        if sum(widths) + GAP * (count - 1) <= room:
            return widths
    return [room]  # one column, wider than the terminal


def visible(text: str) -> str:
    """Control characters as escapes: a value must not move the cursor or change colours."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _cell(value: Any, column: Column) -> str:
    return column.nothing if value is None else column.show(value)


def print_json(value: Any) -> None:
    """One document; indented only where somebody reads it."""
    if sys.stdout.isatty():
        print(visible_json(json.dumps(value, ensure_ascii=False, indent=2)))
    else:
        print(json.dumps(value, ensure_ascii=False))


def visible_json(document: str) -> str:
    """The same document with characters that a terminal would obey as escapes of JSON."""
    return _UNPRINTED.sub(_escaped, document)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1].replace("\x7f", "\\u007f")


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
