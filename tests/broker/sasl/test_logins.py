"""Logins on a whole node: what is served at each stage, how logins fail, end and are renewed. In virtual time.

tests/oracle/test_compat_logins.py says the same to a real Kafka, byte by byte.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from chronik.broker.session import Principal, Session, Stage
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramDeletion
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import KINDS
from tests.broker.harness import Closed
from tests.broker.hostile import Peer as HostilePeer
from tests.broker.hostile import World, frame, run
from tests.broker.sasl.logging_in import ALICE, BOB, Stranger, make_world

HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED
SHORT = {"connections_max_reauth_ms": 10_000}


def told(test: Callable[[World], Awaitable[None]], **settings: object) -> None:
    async def story() -> None:
        world = await make_world(**settings)
        await test(world)
        await world.node.stop()

    run(story())


def now_s() -> float:
    return asyncio.get_running_loop().time()


def test_a_user_logs_in_and_is_served() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        assert (await user.ask(HELLO, ApiVersionsResponse, 3)).error_code == 0
        offered = await user.handshake()
        assert (offered.error_code, offered.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
        answer = await user.token(ALICE)
        assert (answer.error_code, answer.error_message, answer.auth_bytes) == (0, "", b"")
        assert answer.session_lifetime_ms == 0
        assert user.session.principal == Principal("User", "alice")
        assert (await user.groups()).error_code == 0
        assert world.node.metrics.logins == 1

    told(story)


@pytest.mark.parametrize("kind", KINDS)
def test_a_scram_user_logs_in(kind: str) -> None:
    async def story(world: World) -> None:
        user, login = Stranger(world), ScramLogin(KINDS[kind], "carol", "pw", "clientnonce")
        await user.handshake(kind)
        challenge = await user.token(login.first())
        assert (challenge.error_code, challenge.session_lifetime_ms) == (0, 0)
        proof = login.answer(bytes(challenge.auth_bytes))
        assert isinstance(proof, bytes)
        final = await user.token(proof)
        assert login.answer(bytes(final.auth_bytes)) is None
        assert user.session.principal == Principal("User", "carol")

    told(story)


def test_a_credential_that_is_removed_lets_nobody_in() -> None:
    async def story(world: World) -> None:
        gone = ScramDeletion(name="carol", mechanism=2)
        await world.node.store.submit(AlterScramCredentials(deletions=[gone], upsertions=[]))
        user, login = Stranger(world), ScramLogin(KINDS["SCRAM-SHA-512"], "carol", "pw", "clientnonce")
        await user.handshake("SCRAM-SHA-512")
        proof = login.answer(bytes((await user.token(login.first())).auth_bytes))
        assert isinstance(proof, bytes)
        assert (await user.token(proof)).error_code == FAILED

    told(story)


def test_a_failed_login_is_answered_late_and_ends_the_connection() -> None:
    """Guessing takes time, and one guess a connection."""

    async def story(world: World) -> None:
        user = Stranger(world)
        await user.handshake()
        since = now_s()
        answer = await user.token(b"\0alice\0wrong")
        assert (answer.error_code, answer.error_message) == (
            FAILED,
            "Authentication failed: Invalid username or password",
        )
        assert 0.1 <= now_s() - since < 0.2
        assert user.is_closed
        assert (world.node.metrics.logins, world.node.metrics.logins_refused) == (0, 1)

    told(story)


def test_requests_behind_a_failed_login_are_not_served() -> None:
    """They were sent with it, before the answer: a client that does not wait gains nothing."""

    async def story(world: World) -> None:
        hostile = HostilePeer(world.node)
        frames = [
            frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1),
            frame(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2, 2),
            frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 3),
            frame(SaslAuthenticateRequest(auth_bytes=ALICE), 2, 4),
            frame(MetadataRequest(topics=None), 12, 5),
        ]
        hostile.send(b"".join(frames))
        await hostile.lost
        assert hostile.correlation_ids() == [1, 2]

    told(story)


def test_requests_behind_a_good_login_are_served() -> None:
    async def story(world: World) -> None:
        eager = HostilePeer(world.node)
        eager.send(
            frame(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1)
            + frame(SaslAuthenticateRequest(auth_bytes=ALICE), 2, 2)
            + frame(MetadataRequest(topics=None), 12, 3)
        )
        await asyncio.sleep(1)
        assert eager.correlation_ids() == [1, 2, 3]

    told(story)


@pytest.mark.parametrize("version", [0, 1])
def test_an_unknown_mechanism_is_answered_with_the_known_ones(version: int) -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        answer = await user.handshake("GSSAPI", version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert user.is_closed

    told(story)


def test_what_is_not_served_before_a_login_ends_the_connection() -> None:
    async def story(world: World) -> None:
        for first in (MetadataRequest(topics=None), HEARTBEAT, SaslAuthenticateRequest(auth_bytes=ALICE)):
            user = Stranger(world)
            with pytest.raises(Closed):
                await user.ask(first, HeartbeatResponse, 1)
        greeted = Stranger(world)
        await greeted.ask(HELLO, ApiVersionsResponse, 3)
        with pytest.raises(Closed):
            await greeted.ask(HELLO, ApiVersionsResponse, 3)
        large = Stranger(world)
        large.client.send((524_289).to_bytes(4, "big"))
        assert large.is_closed

    told(story)


def test_a_request_within_a_login_gets_an_error_and_ends_the_connection() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.handshake()
        answer = await user.ask(HEARTBEAT, HeartbeatResponse, 4)
        assert (answer.error_code, user.is_closed) == (ErrorCode.ILLEGAL_SASL_STATE, True)
        other = Stranger(world)
        await other.handshake()
        with pytest.raises(Closed):  # its response has no error for the whole
            await other.ask(MetadataRequest(topics=None), MetadataResponse, 1)

    told(story)


def test_bare_tokens_follow_a_handshake_of_version_0() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        assert (await user.handshake(version=0)).error_code == 0
        assert await user.bare(ALICE) == b""
        assert (await user.groups()).error_code == 0
        wrong = Stranger(world)
        await wrong.handshake(version=0)
        since = now_s()
        with pytest.raises(Closed):
            await wrong.bare(b"\0alice\0wrong")
        assert now_s() - since >= 0.1

    told(story)


def test_a_second_login_is_refused_where_logins_do_not_end() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.log_in()
        again = await user.handshake()
        assert (again.error_code, again.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        late = await user.token(BOB)
        assert late.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert (await user.groups()).error_code == 0
        assert user.session.principal.name == "alice"

    told(story)


# --- the end of a login, and its renewal


def test_a_login_ends_at_its_time() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        assert (await user.log_in()).session_lifetime_ms == 10_000
        await asyncio.sleep(9.9)
        assert (await user.groups()).error_code == 0
        await asyncio.sleep(0.2)
        with pytest.raises(Closed):
            await user.groups()

    told(story, **SHORT)


def test_a_login_is_renewed_before_its_end_and_after() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.log_in()
        await asyncio.sleep(9)
        assert (await user.log_in()).session_lifetime_ms == 10_000
        await asyncio.sleep(9)
        assert (await user.groups()).error_code == 0
        await asyncio.sleep(5)
        assert (await user.log_in()).error_code == 0
        assert (await user.groups()).error_code == 0

    told(story, **SHORT)


def test_a_renewal_keeps_the_user_and_the_mechanism() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.log_in()
        answer = await user.log_in(BOB)
        told_ = "Cannot change principals during re-authentication from User.alice: User.bob"
        assert (answer.error_code, answer.error_message, user.is_closed) == (FAILED, told_, True)
        other = Stranger(world)
        await other.log_in()
        assert (await other.handshake("SCRAM-SHA-256")).error_code == 0
        with pytest.raises(Closed):
            await other.token(b"n,,n=carol,r=abc")

    told(story, **SHORT)


def test_a_login_is_renewed_once_a_second_at_most() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.log_in()
        await user.log_in()
        assert (await user.handshake()).error_code == ErrorCode.ILLEGAL_SASL_STATE
        await asyncio.sleep(1)
        assert (await user.log_in()).error_code == 0

    told(story, **SHORT)


def test_nothing_is_served_during_a_renewal() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        await user.log_in()
        await user.handshake()
        answer = await user.groups()
        assert (answer.error_code, user.is_closed) == (ErrorCode.ILLEGAL_SASL_STATE, True)

    told(story, **SHORT)


# --- logging, and proof that the tests notice errors


def test_log_lines_name_the_user_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        for _ in range(12):
            await Stranger(world).log_in(b"\0ali\nce\0swordfish")
        for spoilt in (b"swordfish", b"\0alice\0swordfish\0swordfish"):
            await Stranger(world).log_in(spoilt)

    with caplog.at_level(logging.DEBUG):
        told(story)
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert "login from 127.0.0.1 refused: login by 'PLAIN' on SASL_PLAINTEXT of user 'ali\\nce'" in lines[0]
    assert "(10 times so far)" in lines[1]
    assert len(lines) == 3
    assert "swordfish" not in caplog.text


def test_a_stage_that_is_skipped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a handshake counted as a login, the tests above would fail; this test proves it."""

    def skipping(self: Session, *, is_bare: bool = False) -> None:
        self.logged_in(Principal("User", "alice"))

    monkeypatch.setattr(Session, "begin_handshake", skipping)
    for test in (
        test_a_failed_login_is_answered_late_and_ends_the_connection,
        test_a_request_within_a_login_gets_an_error_and_ends_the_connection,
        test_requests_behind_a_failed_login_are_not_served,
        test_bare_tokens_follow_a_handshake_of_version_0,
    ):
        with pytest.raises((AssertionError, Closed, pytest.fail.Exception)):
            test()


def test_the_stages_of_a_session_are_those_of_its_login() -> None:
    async def story(world: World) -> None:
        user = Stranger(world)
        stages = [user.session.stage]
        for step in (user.ask(HELLO, ApiVersionsResponse, 3), user.handshake(), user.token(ALICE)):
            await step
            stages.append(user.session.stage)
        assert stages == [Stage.FRESH, Stage.GREETED, Stage.IN_HANDSHAKE, Stage.AUTHENTICATED]

    told(story)
