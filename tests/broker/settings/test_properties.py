"""The text of a properties file, and KAFKA_* variables. `test_against_kafka` compares the former with Java itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.broker.errors import BadSetting
from chronik.broker.settings.properties import parse_properties, settings_in_environment

TEXTS = [
    ("a=1", {"a": "1"}),
    ("a = 1", {"a": "1"}),
    ("a:1", {"a": "1"}),
    ("a 1", {"a": "1"}),
    ("a\t:\t1", {"a": "1"}),
    ("  a=1", {"a": "1"}),
    ("a=1 ", {"a": "1 "}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("a==1", {"a": "=1"}),
    ("a = = 1", {"a": "= 1"}),
    ("a=b=c", {"a": "b=c"}),
    ("# a=1\n! b=2\n \t# c=3\nd=4", {"d": "4"}),
    ("a=1 # not a comment", {"a": "1 # not a comment"}),
    ("a=1\nb=2\r\nc=3\rd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    ("a=1\na=2", {"a": "2"}),
    ("a=1,\\\n   2,\\\n\t3", {"a": "1,2,3"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a=1\\\n# still the value", {"a": "1# still the value"}),
    ("# a comment does not go on \\\na=1", {"a": "1"}),
    ("a\\=b=1", {"a=b": "1"}),
    ("a\\ b=1", {"a b": "1"}),
    ("a\\:b:1", {"a:b": "1"}),
    ("a=C\\:\\\\data", {"a": "C:\\data"}),
    ("a=\\u00fc\\t\\n\\q", {"a": "ü\t\nq"}),
    ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}),
    ("", {}),
    ("\n\n  \n", {}),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_a_text_gives_its_keys_and_values(text: str, expected: dict[str, str]) -> None:
    """Each row is a rule of Java's format that some file relies on."""
    assert parse_properties(text) == expected


def test_a_broken_escape_names_the_key() -> None:
    """Java stops there too. Half a value would be a configuration that no one wrote."""
    with pytest.raises(BadSetting) as stopped:
        parse_properties("broker.rack=\\u12")
    assert stopped.value.key == "broker.rack"
    assert "hexadecimal" in stopped.value.reason


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(each):04x}" if not each.isalnum() or ord(each) > 127 else each for each in text)


words = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1)


@given(st.dictionaries(words, words), st.sampled_from(["=", ":", " ", " = "]))
def test_whatever_is_written_with_escapes_is_read_back(pairs: dict[str, str], separator: str) -> None:
    """No character of a key or value is lost or interpreted as syntax."""
    text = "\n".join(f"{escaped(key)}{separator}{escaped(value)}" for key, value in pairs.items())
    assert parse_properties(text) == pairs


VARIABLES = [
    ("KAFKA_LOG_DIRS", "log.dirs"),
    ("KAFKA_NODE_ID", "node.id"),
    ("KAFKA_CFG_NODE_ID", "node.id"),
    ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR", "offsets.topic.replication.factor"),
    ("KAFKA_A__B", "a_b"),
    ("KAFKA_A___B", "a-b"),
    ("KAFKA_A____B", "a-.b"),
    ("KAFKA_CHRONIK_DURABILITY", "chronik.durability"),
    ("KAFKA_METRIC_REPORTERS", "metric.reporters"),
    ("KAFKA_HEAP_OPTS", None),
    ("KAFKA_OPTS", None),
    ("KAFKA_JMX_PORT", None),
    ("KAFKA_LOG4J_ROOT_LOGLEVEL", None),
    ("KAFKA_VERSION", None),
    ("KAFKA_PORT", None),
    ("KAFKA_PORT_9092_TCP_ADDR", None),
    ("KAFKA_SERVICE_HOST", None),
    ("KAFKA_UI_SERVICE_PORT_HTTP", None),
    ("KAFKA_", None),
    ("LOG_DIRS", None),
    ("XKAFKA_LOG_DIRS", None),
]


@pytest.mark.parametrize(("variable", "key"), VARIABLES)
def test_a_variable_stands_for_a_key_as_in_the_usual_images(variable: str, key: str | None) -> None:
    """A compose file written for another image must start a node with the same settings."""
    expected = {} if key is None else {key: (variable, "x")}
    assert settings_in_environment({variable: "x", "PATH": "/bin"}) == expected
