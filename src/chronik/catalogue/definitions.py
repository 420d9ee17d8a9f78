"""The definition of a configuration key: its type, default, limits, and how it may change while a node runs.

`Definition.parse` parses the text of a value, or says in one sentence why it is invalid. The rules of each type are
Kafka's. Nothing here depends on specific keys.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from chronik.catalogue.values import ConfigType, InvalidValue, Value, read_value

Rule = Callable[[Any], str | None]  # the reason against a value, or None


class UpdateMode(StrEnum):
    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"  # can be set for one broker, not for all brokers
    CLUSTER_WIDE = "cluster-wide"  # can be set for one broker and as the default of all brokers


class Synonym(NamedTuple):
    """A broker key that gives a topic or group key its default."""

    key: str
    factor: int = 1  # converts the broker key's unit to the unit of the topic key
    floor: int | None = None  # a smaller value counts as this one


class Definition(NamedTuple):
    name: str
    type: ConfigType
    default: str | None  # in Kafka's format
    mode: UpdateMode
    allowed: tuple[str, ...]  # ranges such as `1..` and words; empty if the type is the only limit
    words: str  # description; empty for a broker key without effect
    section: str
    synonyms: tuple[Synonym, ...] = ()  # the first one that is set applies
    rule: Rule | None = None  # a limit that `allowed` cannot express
    is_idle: bool = False  # a topic key that Chronik accepts and ignores; `words` describe its effect in Kafka

    @property
    def has_effect(self) -> bool:
        return bool(self.words) and not self.is_idle

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Any:
        """The typed value. Raises InvalidValue."""
        value = read_value(self.type, text.strip())
        if self.allowed:
            for each in value if isinstance(value, tuple) else (value,):
                if not any(_fits(each, allowed) for allowed in self.allowed):
                    raise InvalidValue(f"allowed: {self.describe_allowed()}")
        if self.rule is not None and (reason := self.rule(value)) is not None:
            raise InvalidValue(reason)
        return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value

    def parsed_default(self) -> Any:
        return None if self.default is None else self.parse(self.default)

    def describe_allowed(self) -> str:
        """In words: `1 or more`, `-1, 1 to 9`, `fsync, os`."""
        return ", ".join(_described(each) for each in self.allowed)


class Definitions:
    """All keys of one kind of resource, in the order in which they are shown."""

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
        """The known name most similar to a misspelled one, if any is similar."""
        return nearest(name, self._by_name)


def nearest(name: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.75)), None)


def field_of(key: str) -> str:
    """The attribute with a key's value: `num_partitions`, and `durability` for chronik.durability."""
    return key.removeprefix("chronik.").replace(".", "_")


def _fits(value: Value, allowed: str) -> bool:
    low, dots, high = allowed.partition("..")
    if not isinstance(value, int | float):
        return value == allowed
    if not dots:
        return value == int(allowed)
    return (not low or value >= int(low)) and (not high or value <= int(high))


def _described(allowed: str) -> str:
    low, dots, high = allowed.partition("..")
    if not dots:
        return allowed
    return f"{low} to {high}" if high else f"{low} or more"
