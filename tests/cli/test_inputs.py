"""Lines that become records: what each format accepts, and that nothing else is ever written."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.cli.inputs import BadLine, Input, csv_records, json_records, jsonl_records

Form = Callable[[AsyncIterator[bytes]], AsyncIterator[Input]]


def read(form: Form, data: bytes) -> list[Input]:
    """All records of these lines."""

    async def lines() -> AsyncIterator[bytes]:
        for line in data.removesuffix(b"\n").split(b"\n"):
            yield line

    async def everything() -> list[Input]:
        return [record async for record in form(lines())]

    return asyncio.run(everything())


def as_json(data: bytes) -> list[Input]:
    return read(lambda lines: json_records(lines, "f"), data)


def as_jsonl(data: bytes, key_field: str | None = None) -> list[Input]:
    return read(lambda lines: jsonl_records(lines, "f", key=None, key_field=key_field), data)


def as_csv(data: bytes, key_field: str | None = None) -> list[Input]:
    return read(lambda lines: csv_records(lines, "f", key=None, key_field=key_field), data)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"order_id": 1, "city": "Köln"}', "unknown key 'order_id'. A record has the keys value, "),
        ('{"order_id": 1}', "use --input jsonl"),
        ('{"valeu": "a"}', "unknown key 'valeu'; did you mean 'value'?"),
        ('{"key": "k"}', 'no value; write "value": null for a tombstone'),
        ("{}", "no value"),
        ('"hello"', "write an object such as"),
        ("hello", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"value": 1, "value_base64": "aGk="}', "both value and value_base64"),
        ('{"value_base64": "?"}', "value_base64 is not base64"),
        ('{"value": "a", "timestamp_ms": "now"}', 'timestamp_ms must be an integer, not "now"'),
        ('{"value": "a", "timestamp_ms": true}', "timestamp_ms must be an integer, not true"),
        ('{"value": "a", "partition": 1.5}', "partition must be an integer, not 1.5"),
        ('{"value": "a", "timestamp": "2026-03-01T12:00:00"}', "is not a time with a time zone"),
        ('{"value": "a", "headers": {"type": "jpeg"}}', 'headers must be a list of {"key": ..., "value": ...}'),
        ('{"value": "a", "headers": [{"name": "type"}]}', 'headers must be a list of {"key": ..., "value": ...}'),
        ('{"value": "\\ud800"}', "half a surrogate pair"),
    ],
)
def test_a_json_line_that_is_not_a_record_is_refused_with_its_number(line: str, why: str) -> None:
    """Ignoring unknown fields turned rows of a table into null records, which are tombstones."""
    with pytest.raises(BadLine) as refused:
        as_json(b'{"value": "fine"}\n' + line.encode())
    assert str(refused.value).startswith("f, line 2: ")
    assert why in str(refused.value)


def test_a_json_line_may_hold_everything_that_consume_prints() -> None:
    """Topic and offset say where a record was, not where it goes."""
    line = {"topic": "t", "partition": 2, "offset": 9, "timestamp": "2026-03-01T11:00:00Z", "timestamp_ms": 5}
    line |= {"key_base64": "/w==", "value": None, "headers": [{"key": "a", "value_base64": "/w=="}, {"key": "b"}]}
    assert as_json(json.dumps(line).encode()) == [Input(None, b"\xff", (("a", b"\xff"), ("b", None)), 2, 5)]
    assert as_json(b'{"value": {"a": [1]}, "timestamp": "1970-01-01T00:00:01Z"}') == [
        Input(b'{"a": [1]}', timestamp=1000)
    ]


def test_json_lines_are_values_byte_by_byte() -> None:
    """The consumer gets the file's contents, including spaces, order and digits."""
    data = b'{"id": 7,  "x": 1.50}\n\n{"id": "a\xc3\xa4"}\r\n[1]'
    assert [record.value for record in as_jsonl(data)] == [b'{"id": 7,  "x": 1.50}', b'{"id": "a\xc3\xa4"}', b"[1]"]
    assert [record.key for record in as_jsonl(data[:-4], "id")] == [b"7", b"a\xc3\xa4"]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"id": 1}\n{"idd": 2}', "line 2: no field 'id' for the key; did you mean 'idd'?"),
        (b'{"id": 1}\n[2]', "line 2: --key-field id needs an object"),
        (b'{"id": 1}\n{"id"', "line 2: not JSON"),
    ],
)
def test_a_json_line_without_its_key_is_refused(data: bytes, why: str) -> None:
    """A record without the key would go to any partition."""
    with pytest.raises(BadLine, match="f, ") as refused:
        as_jsonl(data, "id")
    assert why in str(refused.value)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=6))
def test_csv_rows_become_objects_with_the_same_text(rows: list[tuple[str, str, str]]) -> None:
    """Whatever a field holds: separators, quotes, line breaks."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "city", "note"])
    writer.writerows(rows)
    found = as_csv(out.getvalue().encode(), "id")
    values: list[dict[str, Any]] = [json.loads(record.value or b"") for record in found]
    assert [tuple(value.values()) for value in values] == rows
    assert [record.key for record in found] == [row[0].encode() for row in rows]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"id,city\n1,Bonn\n2\n", "line 3: 1 field, but the header has 2"),
        (b"id,id\n", "line 1: the header names the field 'id' twice"),
        (b"idd,city\n", "line 1: the header has no field 'id' for the key; did you mean 'idd'?"),
        (b'id,city\n1,"Bonn\n2,Ulm\n', "line 2: a quoted field is never closed"),
        (b"id,city\n1,\xff\n", "line 2: not UTF-8"),
        (b'id,city\n1,"a"b\n', "line 2: not CSV"),
    ],
)
def test_a_row_that_does_not_fit_its_header_is_refused(data: bytes, why: str) -> None:
    """A shifted row would be wrong in every column."""
    with pytest.raises(BadLine) as refused:
        as_csv(data, "id")
    assert why in str(refused.value)


def test_a_spreadsheets_csv_is_read() -> None:
    """With a byte order mark, CRLF, a quote inside an unquoted field, and an empty line at the end."""
    assert as_csv(b'\xef\xbb\xbfid,size\r\n1,5" disk\r\n\r\n') == [Input(b'{"id":"1","size":"5\\" disk"}')]
