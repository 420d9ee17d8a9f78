"""Records as `chronik produce` reads them: text, JSON records, JSON Lines or CSV. It never touches a topic.

- `text`: a line is a value, or a key and a value around a separator.
- `json`: a line is a whole record, in the form that `chronik consume --format json` prints.
- `jsonl`: a line is a value that must be JSON; `--key-field` names the field that becomes the key.
- `csv`: a row becomes a JSON object of strings; the first row of each file names the fields.

A line that does not have the promised form raises `BadLine`, which names the file, the line and the remedy. No form
ever turns a line that it does not understand into a record.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from chronik.cli.json_text import member_text
from chronik.cli.naming import did_you_mean
from chronik.cli.output import EPOCH
from chronik.runtime.wording import counted

RECORD_KEYS: Final = ("value", "value_base64", "key", "key_base64", "headers", "timestamp", "timestamp_ms", "partition")
IGNORED_KEYS: Final = ("topic", "offset")  # `consume` prints them; the target of a produce is named elsewhere
HEADER_KEYS: Final = ("key", "value", "value_base64")
HEADERS_FORM: Final = 'headers must be a list of {"key": ..., "value": ...}'
ROW_BYTES_MAX: Final = 16 << 20  # a quote that is never closed must not collect the rest of a large file
BOM: Final = b"\xef\xbb\xbf"


class Input(NamedTuple):
    """One record as the user gave it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


class BadLine(Exception):
    """A line that is not a record in the chosen form."""

    def __init__(self, source: str, number: int, why: str) -> None:
        super().__init__(f"{source}, line {number}: {why}")


class _Wrong(Exception):
    """What is wrong with a line, before its place is known."""


async def text_records(
    lines: AsyncIterator[bytes], *, key: bytes | None, separator: bytes | None
) -> AsyncIterator[Input]:
    """Every line is a record, also an empty one. A line without the separator has no key."""
    async for line in lines:
        before, found, after = line.partition(separator) if separator else (line, b"", b"")
        yield Input(after, before) if found else Input(line, key)


async def json_records(lines: AsyncIterator[bytes], source: str) -> AsyncIterator[Input]:
    """Empty lines are skipped here and in the two forms below."""
    number = 0
    async for line in lines:
        number += 1
        if line.strip():
            try:
                yield parse_record(line)
            except _Wrong as wrong:
                raise BadLine(source, number, str(wrong)) from wrong


async def jsonl_records(
    lines: AsyncIterator[bytes], source: str, *, key: bytes | None, key_field: str | None
) -> AsyncIterator[Input]:
    number = 0
    async for line in lines:
        number += 1
        if line.strip():
            try:
                value = line.removeprefix(BOM).removesuffix(b"\r")
                document = _json(value)
                yield Input(value, key if key_field is None else _key_of(document, key_field))
            except _Wrong as wrong:
                raise BadLine(source, number, str(wrong)) from wrong


async def csv_records(
    lines: AsyncIterator[bytes], source: str, *, key: bytes | None, key_field: str | None
) -> AsyncIterator[Input]:
    names: list[str] | None = None
    number = first = 0
    pending = b""
    async for line in lines:
        number += 1
        if not pending:
            first = number
            if not line.strip():
                continue
        # Only an odd number of quotes can close a field that an earlier line opened.
        is_inside = bool(pending) and line.count(b'"') % 2 == 0
        pending = pending + b"\n" + line if pending else line
        try:
            cells = None if is_inside and len(pending) <= ROW_BYTES_MAX else _row(pending)
            if cells is None:
                continue
            pending = b""
            if names is None:
                names = _field_names(cells, key_field)
                continue
            yield _csv_record(names, cells, key, key_field)
        except _Wrong as wrong:
            raise BadLine(source, first, str(wrong)) from wrong
    if pending:
        raise BadLine(source, first, "a quoted field is never closed")


def parse_record(line: bytes) -> Input:
    """One line of `--input json`. Bytes that are not UTF-8 stand in base64 under key_base64 and value_base64."""
    document = _json(line)
    if not isinstance(document, dict):
        raise _Wrong('not a record: write an object such as {"value": "hello", "key": "k"}')
    for name in document:
        if name not in RECORD_KEYS and name not in IGNORED_KEYS:
            hint = did_you_mean(name, RECORD_KEYS) or "."
            raise _Wrong(
                f"unknown key {name!r}{hint} A record has the keys {', '.join(RECORD_KEYS)}. "
                f"To write each line whole as a value, use --input jsonl"
            )
    if "value" not in document and "value_base64" not in document:
        raise _Wrong('the record has no value; write "value": null for a tombstone')
    if isinstance(document.get("value"), dict | list) and "value_base64" not in document:
        # As it was written: no number is rounded, no key is dropped.
        value = _as_bytes(member_text(line.decode(json.detect_encoding(line), "surrogatepass"), "value"))
    else:
        value = _bytes_of(document, "value")
    return Input(
        value,
        _bytes_of(document, "key"),
        _headers_of(document.get("headers")),
        _integer_of(document, "partition"),
        _time_of(document),
    )


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise _Wrong(f"not JSON: {error}") from error
    except RecursionError as error:
        raise _Wrong("not JSON that can be read: it is nested too deeply") from error


def _bytes_of(document: Mapping[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    value = document.get(name)
    if encoded is None:
        return _as_bytes(value)
    if value is not None:
        raise _Wrong(f"both {name} and {name}_base64 are given: keep one")
    try:
        return base64.b64decode(encoded, validate=True)
    except (ValueError, TypeError) as error:
        raise _Wrong(f"{name}_base64 is not base64: {error}") from error


def _as_bytes(value: Any) -> bytes | None:
    """Text as UTF-8; numbers, lists and objects as JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _Wrong(f"text contains half a surrogate pair, which UTF-8 cannot encode: {error.reason}") from error


def _headers_of(headers: Any) -> tuple[tuple[str, bytes | None], ...]:
    if headers is None:
        return ()
    if not isinstance(headers, list):
        raise _Wrong(HEADERS_FORM)
    found = []
    for each in headers:
        if not isinstance(each, dict) or not isinstance(each.get("key"), str) or not set(each) <= set(HEADER_KEYS):
            raise _Wrong(HEADERS_FORM)
        found.append((each["key"], _bytes_of(each, "value")))
    return tuple(found)


def _integer_of(document: Mapping[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise _Wrong(f"{name} must be an integer, not {json.dumps(value, ensure_ascii=False)}")
    return value


def _time_of(document: Mapping[str, Any]) -> int | None:
    """timestamp_ms wins; timestamp alone is ISO 8601 with a time zone."""
    exact = _integer_of(document, "timestamp_ms")
    text = document.get("timestamp")
    if exact is not None or text is None:
        return exact
    try:
        return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, TypeError) as error:
        shown = json.dumps(text, ensure_ascii=False)
        raise _Wrong(
            f"timestamp {shown} is not a time with a time zone, for example 2026-03-01T12:00:00Z; "
            "or give timestamp_ms, in milliseconds since 1970"
        ) from error


def _key_of(document: Any, key_field: str) -> bytes | None:
    if not isinstance(document, dict):
        raise _Wrong(f"--key-field {key_field} needs an object in every line")
    if key_field not in document:
        raise _Wrong(f"no field {key_field!r} for the key{did_you_mean(key_field, document)}")
    return _as_bytes(document[key_field])


def _row(data: bytes) -> list[str] | None:
    """The cells of a row; None when its last field goes on in the next line."""
    if len(data) > ROW_BYTES_MAX:
        raise _Wrong(f"a quoted field is not closed within {ROW_BYTES_MAX:,} bytes")
    try:
        text = data.removeprefix(BOM).decode().removesuffix("\r")
    except UnicodeDecodeError as error:
        raise _Wrong(f"not UTF-8: {error.reason} at byte {error.start}") from error
    csv.field_size_limit(ROW_BYTES_MAX)
    try:
        # The reader wants the lines of a row one by one, and joins those of a quoted field itself.
        return next(csv.reader((f"{line}\n" for line in text.split("\n")), strict=True))
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            return None
        raise _Wrong(f"not CSV: {error}") from error


def _field_names(cells: list[str], key_field: str | None) -> list[str]:
    for name in cells:
        if cells.count(name) > 1:
            raise _Wrong(f"the header names the field {name!r} twice")
    if key_field is not None and key_field not in cells:
        raise _Wrong(f"the header has no field {key_field!r} for the key{did_you_mean(key_field, cells)}")
    return cells


def _csv_record(names: list[str], cells: list[str], key: bytes | None, key_field: str | None) -> Input:
    if len(cells) != len(names):
        raise _Wrong(f"{counted(len(cells), 'field')}, but the header has {len(names)}")
    document = dict(zip(names, cells, strict=True))
    value = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return Input(value, key if key_field is None else document[key_field].encode())
