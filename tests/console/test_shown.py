"""Bytes as pages show them: nothing lost, nothing interpreted, and never half a character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.console.shown import JSON_BYTES_MAX, shown_bytes, shown_record
from chronik.wire.records import Record


def shown(data: bytes, size_max: int = 100) -> dict[str, Any]:
    found = shown_bytes(data, size_max)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (b"", "text", ""),
        (b"plain", "text", "plain"),
        (b"42", "text", "42"),
        (b'{"b":1,"a":1e400}', "json", '{"b":1,"a":1e400}'),
        (b" [1, 2] ", "json", " [1, 2] "),
        (b"{not json", "text", "{not json"),
        (b"[NaN]", "text", "[NaN]"),
        (b"[" * 100_000, "text", "[" * 100),
        ("Köln".encode(), "text", "Köln"),
        (b"\xff\x00", "hex", "ff00"),
        (b"<script>alert(1)</script>", "text", "<script>alert(1)</script>"),
        (b"\x1b[31mred", "text", "\x1b[31mred"),
    ],
)
def test_kinds(data: bytes, kind: str, text: str) -> None:
    assert (shown(data)["kind"], shown(data)["text"]) == (kind, text)


def test_null_is_not_empty() -> None:
    assert shown_bytes(None, 10) is None


def test_a_cut_goes_through_no_character_and_changes_no_kind() -> None:
    data = '{"city":"Köln"}'.encode()
    for size in range(len(data)):
        found = shown(data, size)
        assert found["kind"] == "json"
        assert data.decode().startswith(found["text"])
        assert (found["size_bytes"], found["is_truncated"]) == (len(data), True)


@pytest.mark.parametrize(
    ("data", "kind"), [("ä".encode() * JSON_BYTES_MAX, "text"), (b"\xff" * 2 * JSON_BYTES_MAX, "hex")]
)
def test_large_values_are_looked_at_only_as_far_as_they_are_shown(data: bytes, kind: str) -> None:
    found = shown(data, 101)
    assert found["kind"] == kind
    assert found["size_bytes"] == len(data)
    assert len(found["text"]) <= 202


@given(st.binary(max_size=300), st.integers(0, 300))
def test_every_value_can_be_shown(data: bytes, size_max: int) -> None:
    found = shown(data, size_max)
    whole = bytes.fromhex(found["text"]) if found["kind"] == "hex" else found["text"].encode()
    assert data.startswith(whole)
    if not found["is_truncated"]:
        assert whole == data


def test_a_record_without_a_time_says_so() -> None:
    found = shown_record(3, Record(7, -1, b"k", None, (("h", b"\xff"),)), 10)
    assert (found["timestamp_ms"], found["value"], found["size_bytes"]) == (None, None, 3)
    assert found["headers"] == [
        {"key": "h", "value": {"kind": "hex", "text": "ff", "size_bytes": 1, "is_truncated": False}}
    ]
