"""How a config key is described and its value checked: Kafka's types, limits and readings of text.

Values are kept as the text the user wrote and read when needed: `Definition.parse` gives the Python value, or says in
one sentence why the text is not one. Nothing here knows any key; the tables are `topic_configs` and `broker_configs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

SHORT_MAX, INT_MAX, LONG_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1

_INTEGER = re.compile(r"[+-]?\d+")  # of any script, as in Java
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)
_THROTTLED = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


class ConfigType(IntEnum):
    """By Kafka's numbers in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidValue(ValueError):
    """The text is not a value of its key; the message is the reason alone."""


Rule = Callable[[Any], str | None]  # the reason against a value, or None


class Synonym(NamedTuple):
    """A broker key that gives a topic key its default; `factor` turns its unit into the topic key's."""

    key: str
    factor: int = 1


class Definition(NamedTuple):
    name: str
    type: ConfigType
    default: str | None
    doc: str
    rule: Rule | None = None
    synonyms: tuple[Synonym, ...] = ()  # the first one set wins

    @property
    def sensitive(self) -> bool:
        return self.type == ConfigType.PASSWORD

    def parse(self, text: str) -> Any:
        """Raises InvalidValue."""
        value = _READERS[self.type](text.strip())
        if self.rule is not None and (reason := self.rule(value)) is not None:
            raise InvalidValue(reason)
        return value


def at_least(low: int) -> Rule:
    return lambda value: None if value >= low else f"it must be at least {low}"


def between(low: int, high: int, *, also: int | None = None) -> Rule:
    reason = f"it must be {low} to {high}" + ("" if also is None else f", or {also}")
    return lambda value: None if low <= value <= high or value == also else reason


def one_of(*allowed: str) -> Rule:
    return lambda value: None if value in allowed else f"it must be one of {', '.join(allowed)}"


def some_of(*allowed: str) -> Rule:
    return lambda values: None if set(values) <= set(allowed) else f"each item must be one of {', '.join(allowed)}"


def not_empty(values: list[str]) -> str | None:
    return None if values else "it needs at least one item"


def throttled_replicas(values: list[str]) -> str | None:
    if values in ([], ["*"]) or all(_THROTTLED.fullmatch(value) for value in values):
        return None
    return "it must be * or a list of partition:broker pairs"


def split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _integer(bits: int, name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if _INTEGER.fullmatch(text) is None or len(text) > 20 or not -(2**bits) <= int(text) < 2**bits:
            raise InvalidValue(f"it is not a number of type {name}")
        return int(text)

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidValue("it must be true or false")
    return text.lower() == "true"


def _double(text: str) -> float:
    if _DECIMAL.fullmatch(text) is None:
        raise InvalidValue("it is not a number of type DOUBLE")
    return float(text.rstrip("dDfF"))


_READERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer(31, "INT"),
    ConfigType.SHORT: _integer(15, "SHORT"),
    ConfigType.LONG: _integer(63, "LONG"),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: split_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
