"""Columns and records one by one give the same answer; the second is jsonschema's, or the flow's own decoding."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chronik.pipeline.contracts.checking import COLUMNS, Report, judge, ranges_of
from chronik.pipeline.contracts.declared import DeclaredSchema
from chronik.pipeline.contracts.facts import FactFinder
from chronik.pipeline.contracts.json_schema import JsonSchema
from chronik.pipeline.declarations import Bronze
from chronik.pipeline.errors import PipelineError

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
NAMES = ["a", "b", "c.d", "é"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(10**14, 10**20),
    st.sampled_from([0.5, 1.0, -2.0, 1e15, 1e300]),
    st.sampled_from(["", "x", "xy", "1", "true", "null", "a\nb", "ü", "\\", '"', "{", "a,}", ": nan", "\ud800", "😀"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)),
    max_leaves=8,
)
odd = st.sampled_from(
    [
        *(
            b"",
            b"{",
            b"{} {}",
            b'{"a":1,}',
            b'{"a":NaN}',
            b'{"a":-Infinity}',
            b'{"a":1,"a":"x"}',
            b"\xff",
            b"[1]",
            b"{}",
        ),
        *(
            b'{"a":1e400}',
            b'{"a":1.0}',
            b'{"b":{"a":1,"a":2}}',
            b'{"a":{"a":1,"a":2}}',
            b' {"a" : 1 } ',
            b'{"a":01}',
            b"null",
        ),
        *(
            b'{"a":12345678901234567890123}',
            b'{"a":"\\ud800"}',
            b'{"a":"\\u0000"}',
            b'{"z":{"q":1,"q":2}}',
            b'{"a":-0.0}',
        ),
    ]
)
documents = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=4).map(lambda each: json.dumps(each).encode()),
    values.map(lambda each: json.dumps(each).encode()),
    odd,
)
kinds = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.one_of(kinds, st.lists(kinds, min_size=1, max_size=3, unique=True)),
        "minimum": st.sampled_from([0, 1, 0.5, -3, 10**16]),
        "exclusiveMaximum": st.sampled_from([1, 2.0, 5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^x", "y$", "^[a-z]+$", "x.", "\\d", "^x{1,2}$", ""]),
        "enum": st.lists(scalars.filter(lambda each: each != "\ud800"), min_size=1, max_size=4),
        "const": st.sampled_from([1, 1.0, "x", None, True, 0, {"a": 1}]),
        "multipleOf": st.just(2),
        "items": st.just({"type": "integer"}),
        "format": st.just("date-time"),
    },
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)},
        optional={
            "type": kinds,
            "required": st.lists(st.sampled_from(NAMES), max_size=3, unique=True),
            "additionalProperties": st.one_of(st.booleans(), st.just({"type": "string"})),
            "anyOf": st.just([{"required": ["a"]}, {"required": ["b"]}]),
        },
    )


schemas = st.recursive(st.one_of(leaves, st.booleans()), objects, max_leaves=6).filter(
    lambda each: isinstance(each, dict)
)


def batch(found: list[bytes | None], keys: list[bytes | None] | None = None) -> pa.RecordBatch:
    rows = [
        {
            "key": keys[index] if keys else None,
            "value": value,
            "partition": 0,
            "offset": index,
            "timestamp": EPOCH + timedelta(seconds=index),
            "headers": None,
        }
        for index, value in enumerate(found)
    ]
    assert SCHEMA.names == list(COLUMNS)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def told(contract: Any, bronze: Bronze | None, rows: pa.RecordBatch) -> Report:
    finder = FactFinder(contract.paths, contract.objects, contract.texts) if contract.is_columnar else None
    report = Report()
    try:
        judge(contract, bronze, finder, rows, report)
    finally:
        if finder is not None:
            finder.close()
    return report


def require_same(contract: Any, bronze: Bronze | None, rows: pa.RecordBatch) -> Report:
    """Once by columns, once one by one."""
    by_columns, one_by_one = told(contract, bronze, rows), Report()
    judge(contract, bronze, None, rows, one_by_one)
    assert (by_columns.broken, by_columns.by_rule) == (one_by_one.broken, one_by_one.by_rule)
    assert by_columns.first == one_by_one.first
    firsts = {rule: each.offset for rule, each in by_columns.first_of.items()}
    assert firsts == {rule: each.offset for rule, each in one_by_one.first_of.items()}
    return by_columns


@settings(max_examples=60)
@given(schemas, st.lists(st.one_of(st.none(), documents), min_size=1, max_size=12))
@example({"properties": {"a": {"type": "integer"}}}, [b'{"a":1.0}', b'{"a":1.5}', b'{"a":1}', b'{"a":"1"}', None])
@example({"required": ["a"], "type": "object"}, [b"{}", b'{"a":null}', b"[]"])
def test_columns_agree_with_jsonschema(schema: Any, found: list[bytes | None]) -> None:
    """Any schema, any bytes."""
    require_same(JsonSchema(schema), None, batch(found))


DECLARED = "a long, b string, `c.d` double, e timestamp, f struct<a: int, b: boolean>, g date, h array<int>, i int"
texts = st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02", "2026-01-02T03:04:05", "x", "", "1"])
declared_values = st.dictionaries(
    st.sampled_from(["a", "b", "c.d", "e", "f", "g", "h", "i", "z"]),
    st.one_of(scalars, texts, st.fixed_dictionaries({}, optional={"a": scalars, "b": scalars, "z": scalars})),
    max_size=4,
).map(lambda each: json.dumps(each).encode())


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.none(), declared_values, odd), min_size=1, max_size=12),
    st.sampled_from(["keep", "ignore", "dlq"]),
    st.sampled_from(["", "k long", "k string", "a long"]),
    st.sampled_from([None, 30]),
    st.lists(st.sampled_from([None, b"1", b"x", b"\xff", b" 1", b"12345678901"]), min_size=12, max_size=12),
)
def test_columns_agree_with_the_flow(
    found: list[bytes | None], unknown_fields: str, key: str, limit: int | None, keys: list[bytes | None]
) -> None:
    """A pipeline's declaration: the error class that each record would have as a dead letter."""
    bronze = Bronze(
        "b", "t", decode="json", schema=DECLARED, unknown_fields=unknown_fields, key=key, value_bytes_max=limit
    )
    require_same(DeclaredSchema(bronze), bronze, batch(found, keys))


def test_common_constructs_need_no_second_look() -> None:
    """Otherwise a million records would take minutes. Columns also find records that break a rule."""
    schema = {
        "type": "object",
        "required": ["id", "city"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": "integer", "minimum": 0},
            "city": {"type": "string", "enum": ["Ulm", "Bonn"]},
            "price": {"type": ["number", "null"], "maximum": 10},
            "code": {"type": "string", "pattern": "^[A-Z]{2}$", "maxLength": 2},
            "who": {"type": "object", "properties": {"vip": {"type": "boolean"}}},
        },
    }
    good = {"id": 1, "city": "Ulm", "price": 1.5, "code": "AB", "who": {"vip": True}}
    bad = [
        {"id": -1},
        {"city": "Rom"},
        {"price": "1"},
        {"price": 11},
        {"code": "ab"},
        {"who": {"vip": 1}},
        {"x": 1},
        {"id": 1.5},
    ]
    without = {name: value for name, value in good.items() if name != "city"}
    documents = [json.dumps(each).encode() for each in [good, *({**good, **each} for each in bad), without]]
    report = require_same(JsonSchema(schema), None, batch([*documents]))
    assert (report.one_by_one, report.broken) == (0, 9)
    assert report.by_rule == Counter(
        {
            "$.id: minimum 0": 1,
            "$.city: enum": 1,
            "$.price: type number or null": 1,
            "$.price: maximum 10": 1,
            "$.code: pattern ^[A-Z]{2}$": 1,
            "$.who.vip: type boolean": 1,
            "$: additionalProperties": 1,
            "$.id: type integer": 1,
            "$.city: required": 1,
        }
    )
    assert report.first is not None
    assert (report.first.partition, report.first.offset) == (0, 1)


def test_a_declared_schema_needs_no_second_look_either() -> None:
    bronze = Bronze("b", "t", decode="json", schema="id long, price double, at timestamp, name string", key="k string")
    good = b'{"id": 1, "price": 2.5, "at": "2026-01-02T03:04:05Z", "name": "x"}'
    wrong = good.replace(b"1,", b'"1",')
    report = require_same(DeclaredSchema(bronze), bronze, batch([good, wrong], [b"k", b"k"]))
    assert (report.one_by_one, report.by_rule) == (0, Counter({"VALUE_WRONG_TYPE id is no long": 1}))


def test_what_is_no_schema_is_said() -> None:
    with pytest.raises(PipelineError, match=r"\$\.type.*'text' is not valid"):
        JsonSchema({"type": "text"}, "x.json")


def test_ranges() -> None:
    """The newest records: a number of each partition, and a total number."""
    starts, ends = {0: 0, 1: 10, 2: 5}, {0: 100, 1: 12, 2: 5}
    assert ranges_of(starts, ends, last=None, records_max=None) == {0: (0, 100), 1: (10, 12)}
    assert ranges_of(starts, ends, last=5, records_max=None) == {0: (95, 100), 1: (10, 12)}
    assert ranges_of(starts, ends, last=None, records_max=20) == {0: (82, 100), 1: (10, 12)}
