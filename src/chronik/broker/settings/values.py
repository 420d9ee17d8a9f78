"""Turns the text of a value into its type, and says what is wrong with it. The rules are Kafka's."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from chronik.broker.errors import BadSetting
from chronik.broker.settings.definitions import Definition
from chronik.metadata.config_definitions import ConfigType

Value = bool | int | float | str | tuple[str, ...] | None

_integer = re.compile(r"[+-]?[0-9]+")
_decimal = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_bits = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}


def parse_value(definition: Definition, text: str | None) -> Value:
    """The typed value. None stands for a key without a value, and stays None."""
    if text is None:
        return None
    text = text.strip()
    try:
        value = _parsers[definition.type](definition, text)
        _require_allowed(definition, value)
    except ValueError as fault:
        shown = "[hidden]" if definition.is_sensitive else text
        raise BadSetting(definition.name, shown, str(fault)) from None
    return value


def show_value(value: Value) -> str | None:
    """As Kafka writes a typed value: what DescribeConfigs answers, however the value was spelled."""
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


def _show_double(value: float) -> str:
    """Java's way: 0.5, 1.0, 2.5E-4, 1.0E7."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(17) if float(text := f"{value:.{digits}e}") == value)
    mantissa, _, exponent = shortest.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def parse_list(text: str) -> tuple[str, ...]:
    """Split at commas; an empty text is an empty list."""
    return tuple(each.strip() for each in text.split(",")) if text.strip() else ()


def _boolean(definition: Definition, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("say true or false")
    return text.lower() == "true"


def _whole(definition: Definition, text: str) -> int:
    if not _integer.fullmatch(text):
        raise ValueError("a whole number is needed")
    value = int(text)
    bits = _bits[definition.type]
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"the number does not fit {bits} bits")
    return value


def _double(definition: Definition, text: str) -> float:
    if not _decimal.fullmatch(text):
        raise ValueError("a number is needed")
    value = float(text)
    if math.isinf(value):
        raise ValueError("the number is too large")
    return value


def _text(definition: Definition, text: str) -> str:
    return text


def _list(definition: Definition, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parse_list(text)))  # a word that is repeated counts once


_parsers: dict[ConfigType, Callable[[Definition, str], Value]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.SHORT: _whole,
    ConfigType.INT: _whole,
    ConfigType.LONG: _whole,
    ConfigType.DOUBLE: _double,
    ConfigType.STRING: _text,
    ConfigType.CLASS: _text,
    ConfigType.PASSWORD: _text,
    ConfigType.LIST: _list,
}


def _require_allowed(definition: Definition, value: Value) -> None:
    if not definition.allowed:
        return
    for each in value if isinstance(value, tuple) else (value,):
        if not any(_fits(each, allowed) for allowed in definition.allowed):
            raise ValueError(f"allowed: {describe_allowed(definition)}")


def _fits(value: Value, allowed: str) -> bool:
    low, dots, high = allowed.partition("..")
    if not isinstance(value, int | float):
        return value == allowed
    if not dots:
        return value == int(allowed)
    return (not low or value >= int(low)) and (not high or value <= int(high))


def describe_allowed(definition: Definition) -> str:
    """In words: `1 or more`, `-1, 1 to 9`, `fsync, os`."""
    return ", ".join(_describe(each) for each in definition.allowed)


def _describe(allowed: str) -> str:
    low, dots, high = allowed.partition("..")
    if not dots:
        return allowed
    return f"{low} to {high}" if high else f"{low} or more"
