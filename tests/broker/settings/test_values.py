"""Parses texts to typed values, and reports errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.broker.errors import BadSetting
from chronik.broker.settings.values import parse_value
from chronik.catalogue.notation import read_table
from chronik.catalogue.values import Value

DEFINITIONS = read_table("""
[All types]
flag      boolean   -  read-only
small     short     -  read-only
number    int       -  read-only
counted   int       -  read-only  1..
level     int       -  read-only  -1|1..9
large     long      -  read-only
share     double    -  read-only  0..1
word      string    -  read-only
choice    string    -  read-only  fsync|os
items     list      -  read-only
policy    list      -  read-only  compact|delete
secret    password  -  read-only
""")

GOOD: list[tuple[str, str | None, Value]] = [
    ("flag", "true", True),
    ("flag", " FALSE ", False),
    ("small", "-32768", -32768),
    ("number", "+7", 7),
    ("number", " 007 ", 7),
    ("number", "2147483647", 2**31 - 1),
    ("number", "\u0661", 1),  # Java reads digits of any script
    ("number", None, None),
    ("counted", "1", 1),
    ("level", "-1", -1),
    ("level", "9", 9),
    ("large", "9223372036854775807", 2**63 - 1),
    ("share", "0.5", 0.5),
    ("share", "1", 1.0),
    ("share", "5e-1", 0.5),
    ("share", "0.5d", 0.5),  # Java reads its own suffixes
    ("word", " a b ", "a b"),
    ("word", "", ""),
    ("choice", "os", "os"),
    ("items", "a, b ,c", ("a", "b", "c")),
    ("items", "", ()),
    ("items", "a,,b", ("a", "", "b")),
    ("policy", "compact,delete", ("compact", "delete")),
    ("policy", "delete,compact,delete", ("delete", "compact")),
    ("policy", "", ()),
    ("secret", "x", "x"),
]


@pytest.mark.parametrize(("name", "text", "expected"), GOOD)
def test_a_text_gives_a_typed_value(name: str, text: str | None, expected: Value) -> None:
    """Kafka trims, ignores the case of booleans only, and reads lists without regard to blanks."""
    value = parse_value(DEFINITIONS[name], text)
    assert value == expected
    assert type(value) is type(expected)


BAD = [
    ("flag", "yes", "write true or false"),
    ("flag", "1", "write true or false"),
    ("number", "", "a whole number is needed"),
    ("number", "1.0", "a whole number is needed"),
    ("number", "1_000", "a whole number is needed"),
    ("number", "0x10", "a whole number is needed"),
    ("number", "2147483648", "the number does not fit 32 bits"),
    ("small", "32768", "the number does not fit 16 bits"),
    ("large", "9223372036854775808", "the number does not fit 64 bits"),
    ("large", "9" * 5000, "the number does not fit 64 bits"),
    ("counted", "0", "allowed: 1 or more"),
    ("level", "0", "allowed: -1, 1 to 9"),
    ("level", "10", "allowed: -1, 1 to 9"),
    ("share", "1.1", "allowed: 0 to 1"),
    ("share", "half", "a number is needed"),
    ("share", "nan", "a number is needed"),
    ("share", "1e999", "the number is too large"),
    ("choice", "OS", "allowed: fsync, os"),
    ("choice", "", "allowed: fsync, os"),
    ("policy", "compact,remove", "allowed: compact, delete"),
]


@pytest.mark.parametrize(("name", "text", "reason"), BAD)
def test_a_bad_value_is_named_with_its_key_and_the_reason(name: str, text: str, reason: str) -> None:
    """The operator sees one line and must know from it what to change."""
    with pytest.raises(BadSetting) as stopped:
        parse_value(DEFINITIONS[name], text)
    assert (stopped.value.key, stopped.value.value, stopped.value.reason) == (name, text, reason)
    assert str(stopped.value) == f"{name}={text}: {reason}"


def test_a_secret_is_not_repeated_in_a_message() -> None:
    """Messages end in logs."""
    definition = DEFINITIONS["secret"]._replace(allowed=("nothing",))
    with pytest.raises(BadSetting) as stopped:
        parse_value(definition, "hunter2")
    assert "hunter2" not in str(stopped.value)


@given(st.integers(-(2**70), 2**70))
def test_an_integer_is_read_exactly_or_refused(number: int) -> None:
    """No value is clipped or wrapped to fit."""
    for name, bits in (("small", 16), ("number", 32), ("large", 64)):
        if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            assert parse_value(DEFINITIONS[name], str(number)) == number
        else:
            with pytest.raises(BadSetting):
                parse_value(DEFINITIONS[name], str(number))
