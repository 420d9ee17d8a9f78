"""Format strings: the output of fields, and which formats are refused before anything is read."""

from __future__ import annotations

import pytest

from chronik.cli.errors import Misused
from chronik.cli.templates import Template
from chronik.client.topology import TopicPartition
from chronik.wire.records import Record

AT = TopicPartition("orders", 3)
RECORD = Record(
    7, 1_772_362_800_000, b"k", b'{"city": "K\xc3\xb6ln", "n": [1, {"x": null}], "a": {"b": 1.5}}', (("h", b"1"),)
)
EMPTY = Record(8, -1, None, None, ())


@pytest.mark.parametrize(
    ("template", "full", "empty"),
    [
        ("{topic}-{partition}@{offset}", "orders-3@7", "orders-3@8"),
        ("{key}: {headers}", "k: h=1", "(null): "),
        ("{value.city}|{value.a.b}|{value.n.0}", "Köln|1.5|1", "(null)|(null)|(null)"),
        ("{value.a}{value.n.1.x}{value.n.9}{value.city.x}", '{"b": 1.5}(null)(null)(null)', "(null)" * 4),
        (r"{{{key}}}\t\\n", "{k}\t\\n", "{(null)}\t\\n"),
        ("{timestamp_ms}", "1772362800000", "-1"),
        ("", "", ""),
    ],
)
def test_fields_are_filled_in(template: str, full: str, empty: str) -> None:
    """One line for each record, whatever is missing in it."""
    read = Template(template)
    assert read.line(AT, RECORD).decode() == f"{full}\n"
    assert read.line(AT, EMPTY).decode() == f"{empty}\n"


def test_times_have_their_zone() -> None:
    """As everywhere."""
    assert Template("{timestamp}").line(AT, RECORD)[:16].startswith(b"2026-03-01T")
    assert Template("{timestamp}").line(AT, EMPTY) == b"(null)\n"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{valu}", "did you mean 'value'"),
        ("{key.}", "there is no field 'key.'"),
        ("{offset.x}", "there is no field 'offset.x'"),
        ("{", "a single '{' at character 1"),
        ("a}", "a single '}' at character 2"),
        ("{}", "there is no field ''"),
    ],
)
def test_a_mistake_is_named(template: str, message: str) -> None:
    """Before a million lines are printed in the wrong form."""
    with pytest.raises(Misused, match=message.replace("{", r"\{").replace("}", r"\}")):
        Template(template)
