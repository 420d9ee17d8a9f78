"""OAUTHBEARER logins on a complete node, in virtual time: which clients are served, for how long, and the errors of
others.

tests/oracle/test_compat_bearer_logins.py says the same to a real Kafka, byte by byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from chronik.broker.errors import BadSetting
from chronik.broker.session import Principal
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from chronik.wire.oauthbearer import bearer_first
from tests.broker.harness import Closed
from tests.broker.hostile import World, run
from tests.broker.sasl.logging_in import NOW_S, SETTINGS, Stranger, make_bearer_world
from tests.broker.sasl.tokens import key_set, token_of

KEY = "EdDSA"
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
INVALID_TOKEN = '{"status":"invalid_token"}'


def told(test: Callable[[World], Awaitable[None]], **settings: object) -> None:
    async def story() -> None:
        world = await make_bearer_world(key_set(KEY), **settings)
        await test(world)
        await world.node.stop()

    run(story())


async def log_in(user: Stranger, *, authzid: str = "", key: str = KEY, **claims: object) -> SaslAuthenticateResponse:
    offered = await user.handshake("OAUTHBEARER")
    assert (offered.error_code, offered.mechanisms) == (0, ["PLAIN", "OAUTHBEARER"])
    token = token_of(NOW_S, key=key, headers={"kid": KEY}, **claims)
    return await user.token(bearer_first(token, authzid, {"pool": "x"}))


def test_a_token_is_a_login_for_as_long_as_it_is_valid() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        answer = await log_in(user, authzid="alice", exp=NOW_S + 5)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
        assert answer.session_lifetime_ms == 5000
        assert user.session.principal == Principal("User", "alice")
        await asyncio.sleep(4.5)
        assert (await user.groups()).error_code == 0
        await asyncio.sleep(1)
        with pytest.raises(Closed):
            await user.groups()

    told(story)


def test_a_token_is_renewed_on_the_connection() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await log_in(user, exp=NOW_S + 6)
        await asyncio.sleep(5)
        assert (await log_in(user, exp=NOW_S + 60)).session_lifetime_ms == 55_000
        await asyncio.sleep(5)
        assert (await user.groups()).error_code == 0
        answer = await log_in(user, sub="bob")
        assert (answer.error_code, user.is_closed) == (FAILED, True)

    told(story)


def test_the_shorter_of_setting_and_token_counts() -> None:
    async def story(world: World) -> None:
        assert (await log_in(Stranger(world))).session_lifetime_ms == 10_000
        assert (await log_in(Stranger(world), exp=NOW_S + 5)).session_lifetime_ms == 5_000

    told(story, connections_max_reauth_ms=10_000)


def test_a_refusal_is_told_without_its_reason_and_ends_when_it_was_heard() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        answer = await log_in(user, key="EdDSA-other")
        assert (answer.error_code, bytes(answer.auth_bytes)) == (0, INVALID_TOKEN.encode())
        assert not user.is_closed
        since = asyncio.get_running_loop().time()
        answer = await user.token(b"\x01")
        assert (answer.error_code, answer.error_message, user.is_closed) == (FAILED, INVALID_TOKEN, True)
        assert asyncio.get_running_loop().time() - since >= 0.1
        assert (world.node.metrics.logins, world.node.metrics.logins_refused) == (0, 1)

    told(story)


def test_another_authorization_id_is_refused() -> None:
    async def story(world: World) -> None:
        answer = await log_in(Stranger(world), authzid="admin")
        told_ = "Client requested an authorization id (admin) that is different from the token's principal name (alice)"
        assert (answer.error_code, answer.error_message) == (FAILED, f"Authentication failed: {told_}")

    told(story)


def test_the_log_says_why_and_shows_no_token(caplog: pytest.LogCaptureFixture) -> None:
    token = token_of(NOW_S, key=KEY, exp=NOW_S - 99, iat=NOW_S - 100)

    async def story(world: World) -> None:
        user = Stranger(world)
        await user.handshake("OAUTHBEARER")
        await user.token(bearer_first(token))
        await user.token(b"\x01")

    with caplog.at_level(logging.DEBUG):
        told(story)
    assert "login by 'OAUTHBEARER' on SASL_PLAINTEXT: it has expired 99 s ago" in caplog.text
    assert all(each not in caplog.text for each in token.split("."))


def test_a_node_without_keys_does_not_start() -> None:
    async def story() -> None:
        with pytest.raises(BadSetting, match="nowhere"):
            await World.make(
                **(
                    SETTINGS
                    | {
                        "sasl_enabled_mechanisms": "PLAIN,OAUTHBEARER",
                        "sasl_oauthbearer_jwks_endpoint_url": "file:///nowhere",
                    }
                )
            )

    run(story())


def test_a_mechanism_that_is_turned_on_while_the_node_runs_is_not_offered() -> None:
    """Its keys are read when the node starts, so until a restart no client could log in."""

    async def story(world: World) -> None:
        user = Stranger(world)
        logins = world.node.settings.sasl_listeners["SASL_PLAINTEXT"]
        assert "OAUTHBEARER" in logins.mechanisms
        user.session.login._logins._signing_keys = None
        assert (await user.handshake("OAUTHBEARER")).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM

    told(story)
