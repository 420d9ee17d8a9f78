"""The messages of OAUTHBEARER: those that a client sends, how a broker parses them, and which it refuses.

tests/oracle/test_compat_bearer_logins.py sends the same to a real Kafka.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.errors import Malformed
from chronik.wire.oauthbearer import BearerFirst, BearerLogin, bearer_first, read_bearer_first, refusal
from chronik.wire.peer_errors import LoginFailed

TOKEN = "aa.b-b.c_c"


def test_the_first_message_is_that_of_rfc_7628() -> None:
    said = bearer_first(TOKEN, "al,i=ce", {"host": "server.example.com", "port": "143"})
    assert said == b"n,a=al=2Ci=3Dce,\x01auth=Bearer aa.b-b.c_c\x01host=server.example.com\x01port=143\x01\x01"
    assert read_bearer_first(said) == BearerFirst(TOKEN, "al,i=ce", {"host": "server.example.com", "port": "143"})
    assert bearer_first(TOKEN) == b"n,,\x01auth=Bearer aa.b-b.c_c\x01\x01"


@given(
    st.text("abcXYZ019-_.", min_size=1, max_size=20),
    st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=10),
    st.dictionaries(
        st.text("abcXYZ", min_size=1, max_size=5).filter(lambda name: name != "auth"),
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=10),
        max_size=3,
    ),
)
def test_what_a_client_sends_is_what_a_broker_reads(token: str, authzid: str, extensions: dict[str, str]) -> None:
    assert read_bearer_first(bearer_first(token, authzid, extensions)) == BearerFirst(token, authzid, extensions)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a\x01\x01",
        b"n,,auth=Bearer a\x01\x01",
        b"n,,\x01auth=Bearer a\x01",
        b"n,,\x01auth=Bearer a\x01\x01\x01",
        b"n,,\x01auth=Basic a\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer a\x01key=\x01\x01",
        b"n,,\x01auth=Bearer a\x01key=\x7f\x01\x01",
        "n,,\x01auth=Bearer a\x01key=ä\x01\x01".encode(),
        b"n,bob,\x01auth=Bearer a\x01\x01",
        b"n,a=,\x01auth=Bearer a\x01\x01",
        b"n,a=b=41,\x01auth=Bearer a\x01\x01",
        b"n,a=b\0,\x01auth=Bearer a\x01\x01",
        b"n,a=b\xff,\x01auth=Bearer a\x01\x01",
    ],
)
def test_anything_else_is_refused(message: bytes) -> None:
    with pytest.raises(Malformed):
        read_bearer_first(message)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {}),
        ("a b", {}),
        ("a\x01", {}),
        ("a", {"auth": "x"}),
        ("a", {"k1": "v"}),
        ("a", {"k": "\x01"}),
        ("a", {"k": ""}),
    ],
)
def test_a_client_sends_no_message_that_a_broker_would_read_differently(token: str, extensions: dict[str, str]) -> None:
    """A separator in a value would begin another pair."""
    with pytest.raises(ValueError, match=r"cannot be sent|characters"):
        bearer_first(token, extensions=extensions)


def test_a_refusal_is_acknowledged_and_then_over() -> None:
    login = BearerLogin(bearer_first(TOKEN))
    assert login.first() == bearer_first(TOKEN)
    assert login.answer(b"") is None
    assert login.answer(refusal("invalid_token")) == b"\x01"
    with pytest.raises(LoginFailed, match="invalid_token"):
        login.answer(b"")


def test_no_token_is_in_a_repr() -> None:
    assert TOKEN not in repr(read_bearer_first(bearer_first(TOKEN)))
