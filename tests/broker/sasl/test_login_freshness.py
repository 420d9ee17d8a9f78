"""Logins do not go by users that are older than broker.session.timeout.ms: an old password ends with its change."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from chronik.broker.api import served_apis
from chronik.broker.dispatch import Dispatcher
from chronik.broker.first_users import credential_of
from chronik.broker.session import Stage
from chronik.broker.settings.access import STANDARD
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramDeletion
from chronik.metadata.commands.change_delegation_token import ChangeDelegationToken
from chronik.metadata.commands.create_delegation_token import CreateDelegationToken
from chronik.metadata.errors import NotController
from chronik.wire.error_codes import ErrorCode
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import SHA_256, salted_password
from tests.broker.harness import Closed
from tests.broker.hostile import World, run
from tests.broker.sasl.logging_in import ALICE, Stranger, make_world

Change = Callable[[], Awaitable[object]]


class Behind:
    """A store without a lease. `read` first fetches the cluster's decisions; if that is impossible, it fails."""

    def __init__(self, store: Any, learns: Change | None) -> None:
        self._store, self._learns = store, learns
        self.read_count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def current(self) -> None:
        return None

    async def read(self) -> Any:
        self.read_count += 1
        if self._learns is None:
            raise NotController(None)
        await self._learns()
        return self._store.image


async def nothing() -> None:
    pass


def told(
    test: Callable[[World, Behind], Awaitable[None]], learns: Callable[[World], Change] | None, **more: Any
) -> None:
    async def story() -> None:
        world = await make_world(authorizer_class_name=STANDARD, super_users="User:root", **more)
        store = Behind(world.node.store, learns(world) if learns is not None else None)
        services = replace(world.node.services, store=cast(Any, store))
        world.node.dispatcher = Dispatcher(services, served_apis())
        await test(world, store)
        await world.node.stop()

    run(story())


def deleted(world: World) -> Change:
    async def change() -> None:
        gone = ScramDeletion(name="carol", mechanism=SHA_256.number)
        await world.node.store.submit(AlterScramCredentials(deletions=[gone], upsertions=[]))

    return change


def changed(world: World) -> Change:
    async def change() -> None:
        salted = salted_password(SHA_256, "another", b"salt", 4096)
        made = credential_of("carol", SHA_256, b"salt", 4096, salted)
        await world.node.store.submit(AlterScramCredentials(deletions=[], upsertions=[made]))

    return change


async def log_in(user: Stranger, name: str = "carol", password: str = "pw") -> int:
    """The error code at the end of a login, by default with the password that was right once."""
    login = ScramLogin(SHA_256, name, password, "clientnonce")
    await user.handshake(SHA_256.name)
    challenge = await user.token(login.first())
    final = login.answer(challenge.auth_bytes)
    return (await user.token(cast(bytes, final))).error_code


def test_a_login_is_judged_by_users_that_the_quorum_has_confirmed() -> None:
    """The node had created its challenge from older metadata."""

    async def story(world: World, store: Behind) -> None:
        user = Stranger(world)
        assert await log_in(user) == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert user.session.stage is not Stage.AUTHENTICATED
        assert store.read_count == 1

    told(story, deleted)


@pytest.mark.parametrize("password", ["pw", "another"])
def test_a_login_whose_password_was_set_meanwhile_begins_again(password: str) -> None:
    """The client has computed its proof with the salt of the old password, so even the new one looks wrong. A refusal
    would be final for the client; after a lost connection it tries again, and gets a true answer."""

    async def story(world: World, store: Behind) -> None:
        user = Stranger(world)
        with pytest.raises(Closed):
            await log_in(user, password=password)
        assert user.session.stage is not Stage.AUTHENTICATED
        right = password == "another"
        expected = ErrorCode.NONE if right else ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await log_in(Stranger(world), password=password) == expected
        assert store.read_count == 1

    told(story, changed)


def test_a_login_by_bare_tokens_is_judged_alike() -> None:
    """Clients before Kafka 1.0 send them, and any client may."""

    async def story(world: World, store: Behind) -> None:
        user, login = Stranger(world), ScramLogin(SHA_256, "carol", "pw", "clientnonce")
        await user.handshake(SHA_256.name, version=0)
        final = login.answer(await user.bare(login.first()))
        with pytest.raises(Closed):
            await user.bare(cast(bytes, final))
        assert user.session.stage is not Stage.AUTHENTICATED
        assert store.read_count == 1

    told(story, deleted)


def test_a_login_that_is_still_right_is_accepted() -> None:
    async def story(world: World, store: Behind) -> None:
        for _ in range(2):  # the second one without asking again
            assert await log_in(Stranger(world)) == 0
        assert store.read_count == 1

    told(story, lambda _: nothing)


def test_without_the_quorum_the_connection_ends_without_a_login() -> None:
    """Another node has the quorum, maybe: the client goes there."""

    async def story(world: World, store: Behind) -> None:
        user = Stranger(world)
        with pytest.raises(Closed):
            await log_in(user)
        assert user.session.stage is not Stage.AUTHENTICATED
        assert store.read_count == 1

    told(story, None)


def test_super_users_and_passwords_of_the_configuration_do_not_wait() -> None:
    """An operator must be able to inspect a cluster without a quorum. PLAIN's users are not in the metadata."""

    async def story(world: World, store: Behind) -> None:
        made = credential_of("root", SHA_256, b"salt", 4096, salted_password(SHA_256, "pw", b"salt", 4096))
        await world.node.store.submit(AlterScramCredentials(deletions=[], upsertions=[made]))
        assert await log_in(Stranger(world), "root") == 0
        assert (await Stranger(world).log_in(ALICE)).error_code == 0
        assert store.read_count == 0

    told(story, None)


TOKEN_ID, TOKEN_KEY = "token", "key"
TOKEN_PASSWORD = base64.b64encode(hmac.digest(TOKEN_KEY.encode(), TOKEN_ID.encode(), "sha512")).decode()


def token_created(world: World) -> Change:
    async def change() -> None:
        command = CreateDelegationToken(
            token_id=TOKEN_ID,
            owner="User:root",
            requester="User:root",
            renewers=[],
            issue_ms=0,
            expiry_ms=1 << 60,
            max_ms=1 << 60,
        )
        await world.node.store.submit(command)

    return change


def token_removed(world: World) -> Change:
    async def change() -> None:
        await world.node.store.submit(
            ChangeDelegationToken(token_id=TOKEN_ID, requester="User:root", now_ms=0, period_ms=-1, renews=False)
        )

    return change


@pytest.mark.parametrize(
    ("before", "learns", "error"),
    [
        (token_created, lambda _: nothing, ErrorCode.NONE),
        (token_created, token_removed, ErrorCode.SASL_AUTHENTICATION_FAILED),
        (lambda _: nothing, token_created, ErrorCode.NONE),
        (lambda _: nothing, lambda _: nothing, ErrorCode.SASL_AUTHENTICATION_FAILED),
    ],
)
def test_a_token_is_judged_by_what_the_quorum_has_confirmed_also_of_a_super_user(
    before: Callable[[World], Change], learns: Callable[[World], Change], error: ErrorCode
) -> None:
    """A token is made to be taken back. One that the node did not know at its challenge is as good as any other."""

    async def story(world: World, store: Behind) -> None:
        await before(world)()
        user, login = Stranger(world), ScramLogin(SHA_256, TOKEN_ID, TOKEN_PASSWORD, "clientnonce", has_token=True)
        await user.handshake(SHA_256.name)
        final = login.answer((await user.token(login.first())).auth_bytes)
        assert (await user.token(cast(bytes, final))).error_code == error
        assert (user.session.stage is Stage.AUTHENTICATED) is (error is ErrorCode.NONE)
        assert store.read_count == 1

    told(story, learns, delegation_token_secret_key=TOKEN_KEY)


def test_without_the_quorum_no_token_logs_in() -> None:
    async def story(world: World, store: Behind) -> None:
        await token_created(world)()
        user, login = Stranger(world), ScramLogin(SHA_256, TOKEN_ID, TOKEN_PASSWORD, "clientnonce", has_token=True)
        await user.handshake(SHA_256.name)
        final = login.answer((await user.token(login.first())).auth_bytes)
        with pytest.raises(Closed):
            await user.token(cast(bytes, final))
        assert user.session.stage is not Stage.AUTHENTICATED

    told(story, None, delegation_token_secret_key=TOKEN_KEY)
