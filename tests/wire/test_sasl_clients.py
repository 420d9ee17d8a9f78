"""The client's side of PLAIN and SCRAM: its messages, which brokers it trusts, and what it refuses to compute."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from chronik.wire.peer_errors import LoginFailed
from chronik.wire.sasl_clients import (
    BY_PASSWORD,
    NONCE_CHARS,
    Derivation,
    PlainLogin,
    ScramLogin,
    mechanism_of,
    nonce_of,
)
from chronik.wire.scram import SHA_256
from tests.wire.test_scram import CLIENT_FINAL, CLIENT_FIRST, CLIENT_NONCE, NONCE, SERVER_FINAL, SERVER_FIRST


def scram() -> ScramLogin:
    return ScramLogin(SHA_256, "user", "pencil", CLIENT_NONCE)


def test_plain_is_one_message() -> None:
    login = PlainLogin("us er", "pässword")
    assert login.first() == b"\0us er\0p\xc3\xa4ssword"
    assert login.answer(b"") is None
    with pytest.raises(LoginFailed):
        login.answer(b"more?")


def test_scram_says_what_rfc_7677_says() -> None:
    login = scram()
    assert login.first() == CLIENT_FIRST
    assert login.answer(SERVER_FIRST) == CLIENT_FINAL
    assert login.answer(SERVER_FINAL) is None


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=stranger,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(NONCE.encode(), CLIENT_NONCE.encode()), "nonce"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=16385"), "16385 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=" + b"9" * 5000), "iterations"),
        (b"", "server-first"),
    ],
)
def test_a_broker_that_asks_for_something_else_gets_no_proof(challenge: bytes, reason: str) -> None:
    """A million iterations would keep the client busy; one would give its password away."""
    with pytest.raises(LoginFailed, match=reason):
        scram().answer(challenge)


@pytest.mark.parametrize("final", [b"v=AAAA", b"e=other-error", b"", SERVER_FIRST])
def test_a_broker_that_does_not_know_the_password_is_not_believed(final: bytes) -> None:
    login = scram()
    login.answer(SERVER_FIRST)
    with pytest.raises(LoginFailed):
        login.answer(final)


def test_the_slow_step_may_be_computed_elsewhere() -> None:
    asked: list[Derivation] = []

    async def elsewhere(derivation: Derivation) -> bytes:
        asked.append(derivation)
        return derivation.compute()

    async def exchange() -> None:
        login = ScramLogin(SHA_256, "user", "pencil", CLIENT_NONCE, elsewhere)
        later = login.answer(SERVER_FIRST)
        assert isinstance(later, Awaitable)
        assert await later == CLIENT_FINAL
        assert login.answer(SERVER_FINAL) is None

    asyncio.run(exchange())
    assert [each.iterations for each in asked] == [4096]
    assert "pencil" not in repr(asked)


@pytest.mark.parametrize("name", BY_PASSWORD)
def test_every_mechanism_is_made_by_its_name(name: str) -> None:
    made = mechanism_of(name, "u", "secret", bytes(range(100, 132)))
    assert made.name == name
    assert "secret" not in repr(made)


def test_a_nonce_has_no_comma_and_differs() -> None:
    assert nonce_of(bytes(range(256))[:32]) == "0123456789abcdefghijklmnopqrstuv"
    assert NONCE_CHARS * 5 >= 130, "as many random bits as Kafka's"
    assert nonce_of(b"\xff" * 32) != nonce_of(b"\xfe" * 32)
