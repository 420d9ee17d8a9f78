"""Logins of nodes and clients by token: the source of tokens, how long they are kept, and errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.peer.addresses import Address
from chronik.peer.http import allowed_url
from chronik.peer.token_login import TokenLogin, TokenSource, read_token_answer
from chronik.runtime.real import real_runtime
from chronik.sim.disk import SimDisk
from chronik.wire.oauthbearer import read_bearer_first
from chronik.wire.peer_errors import LoginFailed, PeerError, Unreachable
from tests.broker.harness import TestClock, memory_runtime
from tests.broker.sasl.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider

HERE = Address("broker", 9092)


class SetClock(TestClock):
    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def of_endpoint(provider: IdentityProvider, secret: str = CLIENT_SECRET) -> tuple[TokenLogin, SetClock]:
    source = TokenSource(
        url=allowed_url(provider.url("/token")), client_id=CLIENT_ID, client_secret=secret, scope="a b"
    )
    clock = SetClock()
    return TokenLogin(real_runtime()._replace(clock=clock), source, lambda: None), clock


def test_one_token_serves_all_logins_until_it_is_renewed() -> None:
    async def story(login: TokenLogin, clock: SetClock, provider: IdentityProvider) -> None:
        tokens = [await login.first() for _ in range(3)]
        tokens += await asyncio.gather(*(login.first() for _ in range(3)))
        assert (len(set(tokens)), provider.asked["/token"], provider.scopes) == (1, 1, ["a b"])
        clock.now_ns = int(3600 * 0.79 * 1e9)
        assert await login.first() == tokens[0]
        clock.now_ns = int(3600 * 0.81 * 1e9)
        provider.subject = "bob"
        assert await login.first() != tokens[0]

    with IdentityProvider() as provider:
        asyncio.run(story(*of_endpoint(provider), provider))


def test_a_mechanism_sends_the_token_and_acknowledges_a_refusal() -> None:
    async def story(login: TokenLogin) -> None:
        mechanism: Any = login(HERE)
        first = await mechanism.first()
        assert read_bearer_first(first).token.count(".") == 2
        assert mechanism.answer(b'{"status":"invalid_token"}') == b"\x01"
        good: Any = login(HERE)
        await good.first()
        assert good.answer(b"") is None

    with IdentityProvider() as provider:
        asyncio.run(story(of_endpoint(provider)[0]))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, {}, b"{}"), "without an access_token"),
        ((200, {}, b"<html>"), "without an access_token"),
        ((200, {}, b'{"access_token": 7}'), "without an access_token"),
        ((200, {}, b'{"access_token": "a b"}'), "characters"),
        ((500, {}, b"swordfish"), "status 500"),
    ],
)
def test_an_endpoint_that_gives_no_token_is_named(answer: tuple[int, dict[str, str], bytes], reason: str) -> None:
    with IdentityProvider() as provider:
        provider.answers["/token"] = answer
        with pytest.raises(PeerError, match=reason) as refused:
            asyncio.run(of_endpoint(provider)[0].first())
        assert provider.url("/token") in str(refused.value)
        assert "swordfish" not in str(refused.value)


def test_a_wrong_secret_is_told_and_not_shown() -> None:
    with IdentityProvider() as provider:
        login, _ = of_endpoint(provider, "swordfish")
        with pytest.raises(Unreachable, match="status 401") as refused:
            asyncio.run(login.first())
        assert "swordfish" not in str(refused.value) + repr(login)


def test_a_lifetime_that_is_no_number_is_none() -> None:
    """The token is then used once, not forever."""
    for text in (b'"x"', b"-5", b"true", b"null", b"NaN", b"[]"):
        assert read_token_answer(b'{"access_token": "t", "expires_in": %s}' % text, "idp") == ("t", 0.0)
    assert read_token_answer(b'{"access_token": "t", "expires_in": 1e99}', "idp") == ("t", 1e6)


def test_a_token_in_a_file_is_read_for_each_login() -> None:
    """Its owner replaces it before it expires."""
    disk = SimDisk(0)
    disk.make_directory("/run")
    login = TokenLogin(memory_runtime(disk), TokenSource(path="/run/token", extensions={"pool": "x"}), lambda: None)

    async def story() -> None:
        for text in ("a.b.c", "d.e.f"):
            disk.replace_file("/run/token", f"{text}\n".encode())
            read = read_bearer_first(await login.first())
            assert (read.token, read.extensions) == (text, {"pool": "x"})
        for data in (b"", b"\xff", b"two words"):
            disk.replace_file("/run/token", data)
            with pytest.raises(LoginFailed, match="/run/token"):
                await login.first()
        disk.remove("/run/token")
        with pytest.raises(LoginFailed, match="cannot read"):
            await login.first()

    asyncio.run(story())
    login.close()
