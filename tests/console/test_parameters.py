"""What comes from outside has a type and a bound, or is refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.console.errors import STATUSES, ConsoleError
from chronik.console.parameters import REQUIRED, Body, bytes_of, choice, many, parsed, place_of, text, whole

DECLARED = {
    "limit": whole(10, 1, 100),
    "sort": choice("name", "name", "lag"),
    "p": many(whole(None, 0, 9), 3),
    "q": text(),
}


def test_defaults_hold_where_nothing_is_said() -> None:
    assert parsed(DECLARED, []) == {"limit": 10, "sort": "name", "p": (), "q": ""}


def test_values_have_their_type() -> None:
    given = [("limit", "7"), ("sort", "lag"), ("p", "1"), ("p", "2"), ("q", "x")]
    assert parsed(DECLARED, given) == {"limit": 7, "sort": "lag", "p": (1, 2), "q": "x"}


@pytest.mark.parametrize(
    "given",
    [
        [("limit", "0")],
        [("limit", "101")],
        [("limit", "1e1")],
        [("limit", "٣")],
        [("limit", "")],
        [("limit", "9" * 5_000)],
        [("limit", "1"), ("limit", "2")],
        [("sort", "size")],
        [("p", "1"), ("p", "2"), ("p", "3"), ("p", "4")],
        [("q", "x" * 5_000)],
        [("limits", "1")],
    ],
)
def test_anything_else_is_refused(given: list[tuple[str, str]]) -> None:
    with pytest.raises(ConsoleError) as refused:
        parsed(DECLARED, given)
    assert refused.value.code == "BAD_PARAMETER"


@pytest.mark.parametrize("document", [None, 1, "x", [], [{}]])
def test_a_body_is_an_object(document: Any) -> None:
    with pytest.raises(ConsoleError):
        Body(document)


def test_a_field_that_nothing_reads_is_refused() -> None:
    """A misspelt field must not silently mean the default."""
    body = Body({"count": 3, "cuont": 4})
    assert body.whole("count") == 3
    with pytest.raises(ConsoleError, match="cuont"):
        body.done()


@pytest.mark.parametrize("value", [True, 1.5, "1", -1, 101])
def test_numbers_of_a_body_are_whole_and_in_range(value: Any) -> None:
    with pytest.raises(ConsoleError):
        Body({"count": value}).whole("count", low=0, high=100)


def test_a_default_may_lie_outside_of_what_can_be_given() -> None:
    assert Body({}).whole("count", -1, low=1) == -1


def test_what_is_required_must_be_there() -> None:
    with pytest.raises(ConsoleError, match="name is missing"):
        Body({}).text("name", REQUIRED)


@pytest.mark.parametrize(
    ("given", "expected"), [(None, None), ({"text": "Köln"}, "Köln".encode()), ({"base64": "AP8="}, b"\x00\xff")]
)
def test_bytes(given: Any, expected: bytes | None) -> None:
    assert bytes_of("value", given) == expected


@pytest.mark.parametrize(
    "given", ["x", {}, {"text": 1}, {"base64": "*"}, {"text": "a", "base64": ""}, {"text": "\ud800"}]
)
def test_what_is_not_bytes(given: Any) -> None:
    with pytest.raises(ConsoleError):
        bytes_of("value", given)


@pytest.mark.parametrize(
    "given", [None, {}, {"partition": 0}, {"partition": -1, "offset": 0}, {"partition": 0, "offset": "1"}]
)
def test_what_is_no_place(given: Any) -> None:
    with pytest.raises(ConsoleError):
        place_of(given)


def test_every_code_has_one_status() -> None:
    assert all(ConsoleError(code, "").status == status for code, status in STATUSES.items())
