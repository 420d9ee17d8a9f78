"""Reads JSON values strictly by declared types, without Spark: the same rules as `rows` and `json_types`, record by
record.

A value must be exactly one JSON object. A field that does not have its declared type is an error: texts are not
converted to numbers. The results are values for Arrow arrays. `tests/pipeline/test_spark_json_values.py` compares every
rule with Spark's result.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Inexact, InvalidOperation, localcontext
from decimal import Decimal as Number
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from chronik.pipeline.ddl import Array, Decimal, Kind, Map, Scalar, Struct

SHOWN_CHARACTERS: Final = 80
FLOAT_MAX: Final = 3.4028234663852886e38
INTEGERS: Final = {"byte": 1 << 7, "short": 1 << 15, "integer": 1 << 31, "long": 1 << 63}
Path = tuple[str | int, ...]
T = TypeVar("T")

_INTEGER: Final = re.compile(r"-?\d+")
_PLAIN_DECIMAL: Final = re.compile(r"-?\d+(?:\.(\d+))?")
_EXPONENT: Final = re.compile(r"-?\d+(\.\d+)?[eE][+-]?\d+|-?\d+\.0")
_DATE: Final = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_MOMENT: Final = re.compile(
    rf"{_DATE}(?:[T ](\d{{1,2}}):(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?)?(\s*[A-Za-z+-].*)?)?", re.ASCII
)
_LOCAL: Final = re.compile(rf"{_DATE}(?:[T ]\d{{1,2}}:\d{{1,2}}(?::\d{{1,2}}(?:\.\d+)?)?)?", re.ASCII)
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")


class WrongValue(Exception):
    """A record that does not fit the schema: the error class, and a description."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(error_class, message)
        self.error_class, self.message = error_class, message


class Digits(str):
    """The text of a number."""

    __slots__ = ()


def object_in(value: bytes) -> dict[str, Any]:
    """The only JSON object in a value. Numbers are `Digits`."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise WrongValue("VALUE_NOT_UTF8", f"the value is not UTF-8; it has {len(value)} bytes") from None
    try:
        found = json.loads(
            text,
            parse_float=Digits,
            parse_int=Digits,
            parse_constant=_no_constant,
            object_pairs_hook=_without_duplicates,
        )
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        shown = f"the value is not one whole JSON object; it begins: {text[:SHOWN_CHARACTERS]}"
        raise WrongValue("VALUE_NOT_JSON", shown)
    return found


def fields_in(value: bytes, schema: Struct) -> tuple[dict[str, Any], list[str]]:
    """Every declared field, None if it is absent, and the paths of fields that are not in the schema."""
    found = object_in(value)
    fields = {name: _fitted(found.get(name), kind, (name,)) for name, kind in schema.fields}
    return fields, list(unknown_in(found, schema))


def scalar(value: Any, kind: Scalar) -> Any:
    """The value, or None if it does not have the type."""
    return _SCALARS[kind.name](value)


def unknown_in(value: Any, kind: Kind, path: str = "") -> Iterator[str]:
    """The paths of fields that are not in the schema, at any depth."""
    match kind:
        case Struct() if isinstance(value, dict):
            known = dict(kind.fields)
            yield from (f"{path}.{name}" if path else name for name in value if name not in known)
            for name, inner in kind.fields:
                yield from unknown_in(value.get(name), inner, f"{path}.{name}" if path else name)
        case Array() if isinstance(value, list):
            for item in value:
                yield from unknown_in(item, kind.item, f"{path}[]")
        case Map() if isinstance(value, dict):
            for item in value.values():
                yield from unknown_in(item, kind.value, f"{path}{{}}")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _fitted(value: Any, kind: Kind, path: Path) -> Any:
    """The value in the form that Arrow expects for this type."""
    if value is None:
        return None
    match kind:
        case Struct() if isinstance(value, dict):
            return {name: _fitted(value.get(name), inner, (*path, name)) for name, inner in kind.fields}
        case Array() if isinstance(value, list):
            return [_fitted(item, kind.item, (*path, index)) for index, item in enumerate(value)]
        case Map() if isinstance(value, dict):
            return [(name, _fitted(item, kind.value, (*path, name))) for name, item in value.items()]
        case Decimal():
            fitted = _decimal(value, kind) if isinstance(value, Digits) else None
        case Scalar("string"):
            is_text = isinstance(value, str) and not isinstance(value, Digits)
            return value if is_text else _as_text(value)
        case Scalar(name):
            fitted = _SCALARS[name](value)
        case _:
            fitted = None
    if fitted is None:
        shown = value if isinstance(value, str) else json.dumps(value)
        where = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")
        raise WrongValue("VALUE_WRONG_TYPE", f"{where} is no {kind}: {shown[:SHOWN_CHARACTERS]}")
    return fitted


def _integer(name: str) -> Callable[[Any], int | None]:
    limit = INTEGERS[name]

    def fitted(value: Any) -> int | None:
        if not isinstance(value, Digits) or len(value) > 20 or not _INTEGER.fullmatch(value):
            return None
        number = int(value)
        return number if -limit <= number < limit else None

    return fitted


def _float(largest: float) -> Callable[[Any], float | None]:
    def fitted(value: Any) -> float | None:
        number = float(value) if isinstance(value, Digits) else math.inf
        return number if abs(number) <= largest else None

    return fitted


def _boolean(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _binary(value: Any) -> bytes | None:
    if not isinstance(value, str) or isinstance(value, Digits):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except ValueError:
        return None


def _decimal(value: Digits, kind: Decimal) -> Number | None:
    """The number, if the type can hold its digits. With an exponent it is a double, and must round-trip."""
    if (plain := _PLAIN_DECIMAL.fullmatch(value)) and len(plain[1] or "") <= kind.scale:
        number = Number(value)
    elif _EXPONENT.fullmatch(value) and math.isfinite(float(value)):
        number = Number(repr(float(value)))
    else:
        return None
    with localcontext(Context(prec=100, traps=[InvalidOperation, Inexact])):
        try:
            number = number.quantize(Number(1).scaleb(-kind.scale))
        except (InvalidOperation, Inexact):
            return None
    return number if abs(number) < Number(10) ** (kind.precision - kind.scale) else None


def _date(value: Any) -> date | None:
    if not isinstance(value, str) or isinstance(value, Digits) or not (found := re.fullmatch(_DATE, value, re.ASCII)):
        return None
    return _or_none(lambda: date(int(found[1]), int(found[2]), int(found[3])))


def _timestamp(value: Any) -> datetime | None:
    """A time without a zone is in UTC, the time zone of every pipeline's session."""
    found = _moment(value)
    if found is None:
        return None
    moment, zone = found
    if not zone:
        return moment.replace(tzinfo=UTC)
    if (offset := _OFFSET.fullmatch(zone)) is not None:
        sign = -1 if offset[1] == "-" else 1
        hours, minutes, seconds = (int(each or 0) for each in offset.groups()[1:])
        ahead = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if minutes > 59 or seconds > 59 or ahead > timedelta(hours=18):
            return None
        return _or_none(lambda: moment.replace(tzinfo=timezone(sign * ahead)).astimezone(UTC))
    if zone in ("Z", "UTC", "GMT", "UT"):
        return moment.replace(tzinfo=UTC)
    return _or_none(lambda: moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))


def _timestamp_ntz(value: Any) -> datetime | None:
    if not isinstance(value, str) or not _LOCAL.fullmatch(value) or (found := _moment(value)) is None:
        return None
    return found[0]


def _moment(value: Any) -> tuple[datetime, str] | None:
    """The time as written, and its zone. Fractions of microseconds are truncated."""
    if not isinstance(value, str) or isinstance(value, Digits) or not (found := _MOMENT.fullmatch(value.strip())):
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int(((fraction or "") + "000000")[:6])
    clock = [int(each or 0) for each in (hour, minute, second)]
    moment = _or_none(
        lambda: datetime(int(year), int(month), int(day), clock[0], clock[1], clock[2], micros)  # noqa: DTZ001 - as written
    )
    return None if moment is None else (moment, (zone or "").strip())


def _or_none(make: Callable[[], T]) -> T | None:
    """The result of `make`, or None for a date or a zone that does not exist."""
    try:
        return make()
    except (ValueError, OverflowError, OSError, KeyError):
        return None


_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **{name: _integer(name) for name in INTEGERS},
    "float": _float(FLOAT_MAX),
    "double": _float(1.7976931348623157e308),
    "boolean": _boolean,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
}


def _as_text(value: Any) -> str:
    """A JSON value as the text of a string column: without blanks, with fractions as Java formats doubles."""
    match value:
        case None | bool():
            return json.dumps(value)
        case Digits():
            return str(value) if _INTEGER.fullmatch(value) else _java_double(float(value))
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{','.join(map(_as_text, value))}]"
    fields = (f"{json.dumps(name, ensure_ascii=False)}:{_as_text(inner)}" for name, inner in value.items())
    return f"{{{','.join(fields)}}}"


def _java_double(number: float) -> str:
    if math.isinf(number):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        plain = format(Number(repr(number)), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Number(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"
