"""Query parameters and bodies: text from outside becomes values with a type and a bound, or an error that says why.

A route declares its parameters; others are refused, so that a typo cannot silently mean the default.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chronik.console.errors import ConsoleError

TEXT_CHARS_MAX: Final = 4_096
OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
TOPIC_CHARS_MAX: Final = 249
WIRE_TEXT_BYTES_MAX: Final = 32_767  # of a text in Kafka's protocol


@dataclass(frozen=True, slots=True)
class Parameter:
    parse: Callable[[str, str], Any]  # name, text
    default: Any = None
    is_list: bool = False
    count_max: int = 200


def text(default: str = "", *, chars_max: int = TEXT_CHARS_MAX) -> Parameter:
    def parse(name: str, given: str) -> str:
        if len(given) > chars_max:
            raise ConsoleError("BAD_PARAMETER", f"{name} is longer than {chars_max} characters")
        return given

    return Parameter(parse, default)


def whole(default: int | None, low: int, high: int) -> Parameter:
    def parse(name: str, given: str) -> int:
        if not (given.removeprefix("-").isascii() and given.removeprefix("-").isdigit() and len(given) < 20):
            raise ConsoleError("BAD_PARAMETER", f"{name}={given[:40]} is not a whole number")
        if not low <= int(given) <= high:
            raise ConsoleError("BAD_PARAMETER", f"{name}={given}: allowed are {low} to {high}")
        return int(given)

    return Parameter(parse, default)


def time_ms() -> Parameter:
    return whole(None, 0, OFFSET_MAX)


def choice(default: str | None, *allowed: str) -> Parameter:
    def parse(name: str, given: str) -> str:
        if given not in allowed:
            raise ConsoleError("BAD_PARAMETER", f"{name}={given[:40]}: allowed are {', '.join(allowed)}")
        return given

    return Parameter(parse, default)


def many(one: Parameter, count_max: int = 200) -> Parameter:
    return Parameter(one.parse, (), is_list=True, count_max=count_max)


def parsed(declared: Mapping[str, Parameter], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Raises BAD_PARAMETER."""
    found: dict[str, Any] = {name: each.default for name, each in declared.items()}
    seen: dict[str, list[Any]] = {}
    for name, value in given:
        parameter = declared.get(name)
        if parameter is None:
            raise ConsoleError("BAD_PARAMETER", f"there is no parameter {name[:40]!r} here", _allowed(declared))
        values = seen.setdefault(name, [])
        values.append(parameter.parse(name, value))
        if len(values) > (parameter.count_max if parameter.is_list else 1):
            raise ConsoleError("BAD_PARAMETER", f"{name} is given too often")
        found[name] = tuple(values) if parameter.is_list else values[0]
    return found


def _allowed(declared: Mapping[str, Parameter]) -> str:
    return f"parameters: {', '.join(declared)}" if declared else "it takes no parameters"


# --- bodies


class Body:
    """A JSON object. Each field that is read is checked; `done` refuses those that nothing has read."""

    def __init__(self, document: Any) -> None:
        if not isinstance(document, dict):
            raise ConsoleError("BAD_BODY", "the body must be a JSON object")
        self._document: dict[str, Any] = document
        self._read: set[str] = set()

    def _take(self, name: str, kind: type[Any], default: Any) -> Any:
        self._read.add(name)
        value = self._document.get(name)
        if value is None:
            if default is REQUIRED:
                raise ConsoleError("BAD_BODY", f"{name} is missing")
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConsoleError("BAD_BODY", f"{name} must be {_KINDS[kind]}")
        return value

    def text(self, name: str, default: Any = None) -> Any:
        return self._take(name, str, default)

    def whole(self, name: str, default: Any = None, *, low: int = 0, high: int = OFFSET_MAX) -> Any:
        value = self._take(name, int, default)
        if value is not default and not low <= value <= high:
            raise ConsoleError("BAD_BODY", f"{name} must be {low} to {high}")
        return value

    def flag(self, name: str) -> bool:
        return bool(self._take(name, bool, False))

    def mapping(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._take(name, dict, {})
        return found

    def texts(self, name: str) -> dict[str, str]:
        found = self.mapping(name)
        if not all(isinstance(value, str) for value in found.values()):
            raise ConsoleError("BAD_BODY", f"{name} must map names to text")
        for each in (*found, *found.values()):
            _require_short(name, each)
        return found

    def items(self, name: str, *, count_max: int) -> list[Any]:
        found: list[Any] = self._take(name, list, [])
        if len(found) > count_max:
            raise ConsoleError("BAD_BODY", f"{name} has more than {count_max} items")
        return found

    def names(self, name: str, *, count_max: int = 1_000) -> list[str]:
        found = self.items(name, count_max=count_max)
        if not all(isinstance(value, str) for value in found):
            raise ConsoleError("BAD_BODY", f"{name} must be a list of text")
        for each in found:
            _require_short(name, each)
        return found

    def bytes(self, name: str) -> bytes | None:
        return bytes_of(name, self._take(name, dict, None))

    def done(self) -> None:
        if foreign := self._document.keys() - self._read:
            raise ConsoleError("BAD_BODY", f"there is no field {min(foreign)[:40]!r} here")


REQUIRED: Final = object()
_KINDS: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "an object", list: "a list"}


def bytes_of(name: str, given: Any) -> bytes | None:
    """Of null, {"text": ...} or {"base64": ...}."""
    match given:
        case None:
            return None
        case {"text": str(said), **rest} if not rest:
            try:
                return said.encode()
            except UnicodeEncodeError:
                raise ConsoleError("BAD_BODY", f"{name} holds half a surrogate pair, which has no bytes") from None
        case {"base64": str(said), **rest} if not rest:
            try:
                return base64.b64decode(said, validate=True)
            except binascii.Error as fault:
                raise ConsoleError("BAD_BODY", f"{name} is not base64: {fault}") from None
    raise ConsoleError("BAD_BODY", f'{name} must be null, {{"text": "..."}} or {{"base64": "..."}}')


def place_of(given: Any) -> tuple[int, int]:
    """Of {"partition": 0, "offset": 12}."""
    match given:
        case {"partition": int(partition), "offset": int(offset)} if _is_in(partition, PARTITION_MAX) and _is_in(
            offset, OFFSET_MAX
        ):
            return partition, offset
    raise ConsoleError("BAD_BODY", 'a record is named as {"partition": 0, "offset": 12}')


def _is_in(value: int, high: int) -> bool:
    return not isinstance(value, bool) and 0 <= value <= high


def _require_short(name: str, text: str) -> None:
    if len(text.encode()) > WIRE_TEXT_BYTES_MAX:
        raise ConsoleError("BAD_BODY", f"{name} has a text of more than {WIRE_TEXT_BYTES_MAX} bytes")
