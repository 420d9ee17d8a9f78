"""Delegation tokens on a whole node, in virtual time: who may change them, and how long they allow logins.

tests/oracle/test_compat_tokens.py says the same to a real Kafka.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from chronik.broker.settings.access import STANDARD
from chronik.metadata.access import ALLOW, LITERAL
from chronik.metadata.commands.create_acls import AclRule, CreateAcls
from chronik.metadata.snapshot import decode_snapshot, encode_snapshot
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from chronik.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from chronik.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from chronik.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import KINDS
from tests.broker.hostile import World, run
from tests.broker.sasl.logging_in import ALICE, BOB, Stranger, make_world

KEY = "a key that no log may show"
DAY_MS = 24 * 60 * 60 * 1000
E = ErrorCode


def told(test: Callable[[World], Awaitable[None]], **settings: object) -> None:
    async def story() -> None:
        defaults = {"delegation_token_secret_key": KEY, "authorizer_class_name": STANDARD, "super_users": "User:root"}
        more = {key: value for key, value in (defaults | settings).items() if value is not None}
        world = await make_world(**more)
        await test(world)
        await world.node.stop()

    run(story())


async def user(world: World, token: bytes = ALICE) -> Stranger:
    made = Stranger(world)
    assert not (await made.log_in(token)).error_code
    return made


async def create(on: Stranger, owner: str | None = None, **more: Any) -> CreateDelegationTokenResponse:
    renewers = [
        CreatableRenewers(principal_type=more.get("kind", "User"), principal_name=n) for n in more.get("to", ())
    ]
    request = CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=renewers,
        max_lifetime_ms=more.get("lifetime_ms", -1),
    )
    return await on.ask(request, CreateDelegationTokenResponse, more.get("version", 3))


async def renew(on: Stranger, secret: bytes, period_ms: int = -1) -> RenewDelegationTokenResponse:
    return await on.ask(
        RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms), RenewDelegationTokenResponse, 2
    )


async def expire(on: Stranger, secret: bytes, period_ms: int = -1) -> ExpireDelegationTokenResponse:
    request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
    return await on.ask(request, ExpireDelegationTokenResponse, 2)


async def describe(on: Stranger, owners: list[str] | None = None) -> DescribeDelegationTokenResponse:
    asked = owners and [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
    return await on.ask(DescribeDelegationTokenRequest(owners=asked), DescribeDelegationTokenResponse, 3)


async def log_in(world: World, token_id: str, secret: bytes, kind: str = "SCRAM-SHA-512") -> tuple[Stranger, Any]:
    client, stranger = (
        ScramLogin(KINDS[kind], token_id, base64.b64encode(secret).decode(), "n" * 32, has_token=True),
        Stranger(world),
    )
    await stranger.handshake(kind)
    challenge: SaslAuthenticateResponse = await stranger.token(client.first())
    assert not challenge.error_code
    proof = client.answer(challenge.auth_bytes)
    assert isinstance(proof, bytes)
    return stranger, await stranger.token(proof)


async def allow(world: World, who: str, operation: int, kind: int, name: str) -> None:
    rule = AclRule(
        resource_type=kind,
        resource_name=name,
        pattern_type=LITERAL,
        principal=f"User:{who}",
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )
    await world.node.store.submit(CreateAcls(rules=[rule]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_token_logs_in_as_its_owner_until_it_expires(kind: str) -> None:
    async def story(world: World) -> None:
        made = await create(await user(world), lifetime_ms=20_000)
        stranger, answer = await log_in(world, made.token_id, made.hmac, kind)
        assert not answer.error_code
        assert str(stranger.session.principal) == "User:alice"
        assert stranger.session.has_token
        assert 0 < answer.session_lifetime_ms <= 20_000
        await asyncio.sleep(answer.session_lifetime_ms / 1000 + 1)
        assert (await log_in(world, made.token_id, made.hmac, kind))[1].error_code == E.SASL_AUTHENTICATION_FAILED
        assert (await renew(await user(world), made.hmac)).error_code == E.DELEGATION_TOKEN_EXPIRED
        await asyncio.sleep(6)
        assert not world.node.store.image.tokens, "the controller has removed it"

    told(story, delegation_token_expiry_check_interval_ms=5_000)


def test_a_removed_token_and_one_that_never_was_fail_like_a_wrong_password() -> None:
    async def story(world: World) -> None:
        owner = await user(world)
        made = await create(owner)
        _, wrong = await log_in(world, made.token_id, b"x" * 64)
        assert not (await expire(owner, made.hmac)).error_code
        _, gone = await log_in(world, made.token_id, made.hmac)
        _, unknown = await log_in(world, "nobody", made.hmac)
        assert wrong == gone == unknown
        assert wrong.error_code == E.SASL_AUTHENTICATION_FAILED

    told(story)


def test_a_token_that_is_removed_during_a_login_lets_nobody_in() -> None:
    async def story(world: World) -> None:
        owner = await user(world)
        made = await create(owner)
        client = ScramLogin(
            KINDS["SCRAM-SHA-256"], made.token_id, base64.b64encode(made.hmac).decode(), "n" * 32, has_token=True
        )
        stranger = Stranger(world)
        await stranger.handshake("SCRAM-SHA-256")
        challenge = await stranger.token(client.first())
        await expire(owner, made.hmac)
        proof = client.answer(challenge.auth_bytes)
        assert isinstance(proof, bytes)
        assert (await stranger.token(proof)).error_code == E.SASL_AUTHENTICATION_FAILED

    told(story)


def test_who_has_logged_in_with_a_token_gets_no_tokens() -> None:
    """Otherwise a token could extend its own life forever."""

    async def story(world: World) -> None:
        made = await create(await user(world))
        stranger, _ = await log_in(world, made.token_id, made.hmac)
        assert (await create(stranger)).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (await renew(stranger, made.hmac)).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (await expire(stranger, made.hmac)).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert (await describe(stranger)).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

    told(story)


def test_only_the_owner_and_renewers_change_a_token() -> None:
    async def story(world: World) -> None:
        alice, bob = await user(world), await user(world, BOB)
        own, shared = await create(alice), await create(alice, to=["bob"])
        assert (await renew(bob, own.hmac)).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await expire(bob, own.hmac)).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
        assert not (await renew(bob, shared.hmac, 10_000)).error_code
        assert [each.token_id for each in (await describe(bob)).tokens] == [shared.token_id]
        assert not (await expire(bob, shared.hmac)).error_code
        assert (await renew(alice, shared.hmac)).error_code == E.DELEGATION_TOKEN_NOT_FOUND
        assert [each.token_id for each in (await describe(alice)).tokens] == [own.token_id]

    told(story)


def test_times_are_bounded_by_the_settings_and_by_the_token() -> None:
    async def story(world: World) -> None:
        alice = await user(world)
        made = await create(alice)
        assert made.max_timestamp_ms - made.issue_timestamp_ms == 7 * DAY_MS
        assert made.expiry_timestamp_ms - made.issue_timestamp_ms == DAY_MS
        short = await create(alice, lifetime_ms=5_000)
        assert short.max_timestamp_ms == short.expiry_timestamp_ms == short.issue_timestamp_ms + 5_000
        for period_ms in (-1, 0, 1 << 62):
            assert (await renew(alice, short.hmac, period_ms)).expiry_timestamp_ms == short.max_timestamp_ms
            found = (await renew(alice, made.hmac, period_ms)).expiry_timestamp_ms
            assert found - world.node.runtime.clock.wall_ms() == pytest.approx(DAY_MS, abs=1_000)
        later = await expire(alice, made.hmac, (1 << 63) - 1)
        assert later.expiry_timestamp_ms == made.max_timestamp_ms
        soon = await expire(alice, made.hmac, 1_000)
        assert soon.expiry_timestamp_ms < made.expiry_timestamp_ms

    told(story)


def test_a_token_for_another_owner_needs_a_permission() -> None:
    async def story(world: World) -> None:
        alice = await user(world)
        denied = await create(alice, "bob")
        assert denied.error_code == E.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (denied.principal_name, denied.token_requester_principal_name) == ("bob", "alice")
        await allow(world, "alice", 13, 7, "User:bob")
        made = await create(alice, "bob")
        assert not made.error_code
        stranger, _ = await log_in(world, made.token_id, made.hmac)
        assert str(stranger.session.principal) == "User:bob"
        assert len((await describe(alice)).tokens) == 1, "who has requested a token sees it"
        assert (await renew(alice, made.hmac)).error_code == E.DELEGATION_TOKEN_OWNER_MISMATCH
        await allow(world, "alice", 13, 7, "User:root")
        spared = await create(alice, "root")
        assert spared.error_code == E.DELEGATION_TOKEN_AUTHORIZATION_FAILED, (
            "a right to create must not make super users"
        )

    told(story)


@pytest.mark.parametrize("name", ["the token", "its owner"])
def test_others_see_tokens_by_permission(name: str) -> None:
    async def story(world: World) -> None:
        alice, bob = await user(world), await user(world, BOB)
        made = await create(alice)
        assert (await describe(bob)).tokens == []
        await allow(world, "bob", *((8, 6, made.token_id) if name == "the token" else (14, 7, "User:alice")))
        assert [each.hmac for each in (await describe(bob)).tokens] == [made.hmac]
        assert (await describe(bob, ["bob"])).tokens == []
        assert len((await describe(bob, ["alice", "bob"])).tokens) == 1
        assert (await describe(bob, [])).tokens == []

    told(story)


def test_principals_are_users() -> None:
    async def story(world: World) -> None:
        assert (await create(await user(world), to=["g"], kind="Group")).error_code == E.INVALID_PRINCIPAL_TYPE

    told(story)


def test_without_a_key_tokens_are_turned_off() -> None:
    async def story(world: World) -> None:
        alice = await user(world)
        found = [await create(alice), await renew(alice, b"x"), await expire(alice, b"x"), await describe(alice)]
        assert {each.error_code for each in found} == {E.DELEGATION_TOKEN_AUTH_DISABLED}

    told(story, delegation_token_secret_key=None)


def test_tokens_survive_a_snapshot_and_hold_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def story(world: World) -> None:
        alice = await user(world)
        made = await create(alice, to=["bob"])
        await log_in(world, made.token_id, made.hmac)
        await renew(alice, made.hmac)
        image = world.node.store.image
        data = encode_snapshot(image)
        assert decode_snapshot(data).tokens == image.tokens
        own = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)]
        )
        await allow(world, "alice", 10, 4, "kafka-cluster")
        configs = await alice.ask(own, DescribeConfigsResponse, 4)
        [shown] = [each for each in configs.results[0].configs if each.name == "delegation.token.secret.key"]
        assert (shown.value, shown.is_sensitive) == (None, True)
        password = base64.b64encode(made.hmac).decode()
        for secret in (made.hmac, password.encode(), KEY.encode()):
            assert secret not in data
        for text in (caplog.text, repr(image.tokens), repr(world.node.settings)):
            assert KEY not in text
            assert password not in text
            assert repr(made.hmac) not in text

    told(story)
