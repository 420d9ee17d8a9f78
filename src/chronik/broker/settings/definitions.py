"""What a configuration key is: its type, default, bounds, and how it may change while a node runs.

Facts only; values are checked by `parsing`. Tables are written in a notation of one line a key:

    [title of a section]
    num.partitions    int    1    read-only    1..
        What it does, in words of ours.

The columns are name, type, default (`-` for none, `''` for empty), update mode, and what is allowed: ranges and words
joined by `|`. A key without words is one that is accepted and has no effect; its section's title says why.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from chronik.metadata.config_definitions import ConfigType


class UpdateMode(StrEnum):
    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"  # may be set for one broker, not for all of them
    CLUSTER_WIDE = "cluster-wide"  # may be set for one broker and as the default of all


class Definition(NamedTuple):
    name: str
    type: ConfigType
    default: str | None  # as Kafka writes it
    mode: UpdateMode
    allowed: tuple[str, ...]  # ranges such as `1..` and words; empty when anything of the type will do
    words: str  # what it does; empty when it has no effect
    section: str

    @property
    def has_effect(self) -> bool:
        return bool(self.words)

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD


def read_table(text: str) -> dict[str, Definition]:
    """The definitions of a table, by name and in its order."""
    found: dict[str, Definition] = {}
    section = ""
    for line in text.strip().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith(" "):
            name, definition = found.popitem()
            found[name] = definition._replace(words=f"{definition.words} {line.strip()}".strip())
        elif line:
            name, config_type, default, mode, *allowed = line.split()
            found[name] = Definition(
                name,
                ConfigType[config_type.upper()],
                None if default == "-" else default.replace("''", ""),
                UpdateMode(mode),
                tuple(allowed[0].split("|")) if allowed else (),
                "",
                section,
            )
    return found


class Definitions:
    """All keys of one kind of resource."""

    def __init__(self, *tables: Mapping[str, Definition]) -> None:
        self._by_name = {name: definition for table in tables for name, definition in table.items()}

    def __iter__(self) -> Iterator[Definition]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Definition:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Definition | None:
        return self._by_name.get(name)

    def nearest(self, name: str) -> str | None:
        """The known name that a misspelled one most resembles, if any comes close."""
        return nearest(name, self._by_name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), None)
