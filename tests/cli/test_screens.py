"""Every table of every command on screens of 60, 80 and 120 columns, as `screens.txt` shows them.

CHRONIK_REWRITE=1 rewrites the file, so that the difference can be reviewed.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chronik.cli
from chronik.cli.output import Column, id_list, yes_or_no
from tests.cli.test_output import on_screen

GOLDEN = Path(__file__).with_name("screens.txt")
WIDTHS = (60, 80, 120)
TEXTS = {
    "topic": "orders-of-the-year",
    "name": "orders-of-the-year",
    "group": "billing-and-shipping",
    "state_hash": "f7e26e4300112233445566778899aabb",
    "last_batch": "2026-03-01T12:00:00.000+01:00",
    "time": "2026-03-01T12:00:00.000+01:00",
    "address": "broker-1.example.com:9092",
}


def tables() -> Iterator[tuple[str, tuple[Column, ...]]]:
    """Whatever a module of the command line lays out: each tuple of columns, by its name."""
    for module in sorted(pkgutil.iter_modules(chronik.cli.__path__), key=lambda module: module.name):
        if module.name == "__main__":
            continue
        found = vars(importlib.import_module(f"chronik.cli.{module.name}"))
        for name, value in found.items():
            if isinstance(value, tuple) and value and all(isinstance(each, Column) for each in value):
                yield f"{module.name}.{name}", value


def value_of(column: Column) -> Any:
    if column.show is yes_or_no:
        return True
    if column.show is id_list:
        return [1, 2, 3]
    if column.is_number:
        return 1_234_567
    if column.show is not str and column.key not in TEXTS:
        return ["one", "two"]
    return TEXTS.get(column.key, f"some text as {column.key}")


def drawn() -> str:
    parts = []
    for name, columns in tables():
        full = {column.key: value_of(column) for column in columns}
        for width in WIDTHS:
            lines, beside = on_screen([full, dict.fromkeys(full)], columns, width)
            parts.append("\n".join([f"# {name} on {width} columns", *lines, *beside.splitlines(), ""]))
    return "\n".join(parts)


def test_every_table_looks_as_it_did() -> None:
    """A column that is added to a table may displace another one, and a reviewer must see that."""
    now = drawn()
    if os.environ.get("CHRONIK_REWRITE"):
        GOLDEN.write_text(now)
    assert now == GOLDEN.read_text()


@pytest.mark.parametrize("width", WIDTHS)
def test_no_column_of_any_table_is_lost_without_a_line_that_says_so(width: int) -> None:
    """A column that is neither shown nor named would seem not to exist. No line is wider than the screen."""
    for name, columns in tables():
        lines, beside = on_screen([{column.key: value_of(column) for column in columns}], columns, width)
        named = beside.partition("(")[2].partition(")")[0].split(", ") if beside else []
        shown = [column.title for column in columns if column.title not in named]
        assert lines[0].split() == " ".join(shown).split(), name
        assert all(len(line) <= width for line in lines), name
        assert not beside or beside.startswith(f"{len(named)} column"), name
