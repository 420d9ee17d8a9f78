"""JSON as text: which texts are documents, and that a change of layout changes nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.cli.json_text import document_in, indented, member_text, on_one_line

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20
)
DOCUMENTS = st.lists(TREES, max_size=4) | st.dictionaries(st.text(), TREES, max_size=4)


@pytest.mark.parametrize(
    "data",
    [None, b"", b"1", b'"text"', b"null", b"{", b"{1}", b"[NaN]", b'{"a": Infinity}', b"\xff", b"[" * 100_000, b"x{}"],
)
def test_what_is_not_an_object_or_an_array_is_text(data: bytes | None) -> None:
    """A topic of numbers keeps its type in JSON, and nothing that other programs refuse is called JSON."""
    assert document_in(data) is None


@given(DOCUMENTS, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_layout_changes_blanks_and_nothing_else(tree: Any, indent: Any, is_ascii: bool) -> None:
    """Numbers keep their digits, and brackets in strings are no brackets."""
    text = json.dumps(tree, indent=indent, ensure_ascii=is_ascii)
    data = text.encode("utf-8", "surrogatepass")
    document = document_in(data)
    if document is None:
        assert not is_ascii  # only a lone surrogate, which UTF-8 cannot hold, keeps it from being one
        return
    assert indented(document) == json.dumps(tree, indent=2, ensure_ascii=is_ascii)
    line = on_one_line(document)
    assert "\n" not in line
    assert json.loads(line) == tree


def test_numbers_and_keys_that_python_would_change_stay_as_they_are() -> None:
    """1.10 is not 1.1 to a bank, and a duplicate key is a bug that must stay visible."""
    text = '{"a":1.10,"a":1e400,"b":[ ],"c":{}, "d":12345678901234567890.5}'
    assert document_in(text.encode()) == text
    assert indented(text).split() == ['{', '"a":', "1.10,", '"a":', "1e400,", '"b":', "[],", '"c":', "{},", '"d":',
                                      "12345678901234567890.5", "}"]  # fmt: skip


@given(st.dictionaries(st.text(), TREES, max_size=5), st.sampled_from([None, 2]))
def test_a_member_is_found_as_it_was_written(tree: dict[str, Any], indent: int | None) -> None:
    """So that `produce` writes the bytes that `consume` read."""
    text = json.dumps(tree, indent=indent)
    for name, value in tree.items():
        found = member_text(text, name)
        assert found is not None
        assert json.loads(found) == value
        assert found in text
    assert member_text(text, "no such name") is None
