"""The settings given to clients: properties that Java and Chronik parse alike, and no visible password."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chronik.broker.settings.properties import parse_properties
from chronik.catalogue.jaas import parse_jaas
from chronik.security.client_settings import TABLES, Access, java, properties_text, settings_of, snippets

SECRET = "correct horse"
ACCESS = Access("a:1,b:2", "alice", SECRET, "/etc/ca.pem")


@settings(max_examples=50)
@given(st.text(min_size=1), st.text(min_size=1))
def test_any_user_and_password_survive_the_file(user: str, password: str) -> None:
    """A password with a quote or a backslash must not become another password."""
    text = properties_text(java(Access("a:1", user, password, "/ca.pem")), "made for\ntests")
    assert text.isascii()
    assert parse_jaas(parse_properties(text)["sasl.jaas.config"]).own == (user, password)


@settings(max_examples=50)
@given(st.text())
@example("\N{GRINNING FACE}")
@example(" # leading blank")
def test_what_is_written_is_read(value: str) -> None:
    assert parse_properties(properties_text({"key": value})) == {"key": value}


def test_no_snippet_shows_the_password() -> None:
    """They are printed on terminals and land in chats; the password stays in its file."""
    made = snippets(ACCESS, "/users/alice.password", "/users/alice.properties")
    assert not [name for name, text in made.items() if SECRET in text]
    assert len(made) == 5
    assert SECRET not in repr(ACCESS)


def test_an_unknown_library_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'sarama' is not a known client: name one of java, librdkafka"):
        settings_of("sarama", ACCESS)
    assert "sarama" not in TABLES
