"""Values as text: how each type is parsed and formatted, by Java's rules as Kafka applies them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial

Value = bool | int | float | str | tuple[str, ...] | None

INTEGER_CHARS_MAX = 64  # a longer number cannot fit
_integer = re.compile(r"[+-]?\d+")  # digits of any script, as in Java
_decimal = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", re.ASCII)


class ConfigType(IntEnum):
    """Kafka's numbers in DescribeConfigs."""

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
    """The text is not a valid value of its key; the message is only the reason."""


def read_value(config_type: ConfigType, text: str) -> Value:
    """Parses text without surrounding blanks. Raises InvalidValue."""
    return _readers[config_type](text)


def show_value(value: Value) -> str | None:
    """A typed value in Kafka's format: DescribeConfigs returns this, however the value was spelled."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float():
            return _show_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


def split_list(text: str) -> tuple[str, ...]:
    """Splits at commas; an empty text is an empty list."""
    return tuple(each.strip() for each in text.split(",")) if text.strip() else ()


def _show_double(value: float) -> str:
    """Like Java: 0.5, 1.0, 2.5E-4, 1.0E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(17) if float(text := f"{value:.{digits}e}") == value)
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidValue("write true or false")
    return text.lower() == "true"


def _whole(bits: int, text: str) -> int:
    if not _integer.fullmatch(text):
        raise InvalidValue("a whole number is needed")
    if len(text) > INTEGER_CHARS_MAX or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise InvalidValue(f"the number does not fit {bits} bits")
    return int(text)


def _double(text: str) -> float:
    if not _decimal.fullmatch(text):
        raise InvalidValue("a number is needed")
    value = float(text.rstrip("dDfF"))
    if math.isinf(value):
        raise InvalidValue("the number is too large")
    return value


_readers: Mapping[ConfigType, Callable[[str], Value]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.SHORT: partial(_whole, 16),
    ConfigType.INT: partial(_whole, 32),
    ConfigType.LONG: partial(_whole, 64),
    ConfigType.DOUBLE: _double,
    ConfigType.STRING: str,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
    ConfigType.LIST: split_list,
}
