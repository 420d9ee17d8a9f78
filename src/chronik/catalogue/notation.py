"""The notation of the tables: one line per key.

    [title of a section]
    num.partitions    int    1    read-only    1..
        What it does.

The columns are name, type, default (`-` for none, `''` for empty), update mode, and allowed values: ranges and words
joined by `|`. A key without a description is accepted and has no effect; the title of its section says why.

`Rows` uses the same notation for keys whose values a node reads: each row is beside the typed attribute that holds its
value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chronik.catalogue.definitions import Definition, UpdateMode
from chronik.catalogue.values import ConfigType


def read_row(text: str, section: str, words: str = "") -> Definition:
    name, config_type, default, mode, *allowed = text.split()
    return Definition(
        name,
        ConfigType[config_type.upper()],
        None if default == "-" else default.replace("''", ""),
        UpdateMode(mode),
        tuple(allowed[0].split("|")) if allowed else (),
        words,
        section,
    )


def read_table(text: str) -> dict[str, Definition]:
    """The definitions of a table, by name and in table order."""
    found: dict[str, Definition] = {}
    section = ""
    for line in text.strip().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith(" "):
            name, definition = found.popitem()
            found[name] = definition._replace(words=f"{definition.words} {line.strip()}".strip())
        elif line:
            definition = read_row(line, section)
            found[definition.name] = definition
    return found


class Key(NamedTuple):
    """In a class body, a placeholder for the value that instances have."""

    name: str


class Rows:
    """Collects the rows of a class body in order."""

    def __init__(self) -> None:
        self.definitions: dict[str, Definition] = {}
        self._section = ""

    def section(self, title: str) -> None:
        self._section = title

    def key(self, row: str, words: str) -> Any:
        """Defines a key. The annotation beside the call is the value's type for mypy; a test compares it with the
        row."""
        definition = read_row(row, self._section, words)
        self.definitions[definition.name] = definition
        return Key(definition.name)
