"""The place of a login in a connection, shown with a toy mechanism: what travels when, and how a login fails."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.notation import Versions
from chronik.wire.peer import Peer, PeerState
from chronik.wire.peer_errors import Closed, LoginFailed, Refused, Unsupported
from chronik.wire.sasl import LOGIN_STEPS_MAX
from tests.wire.brokers import api_versions, asked, joined, reply

LOGIN_APIS = {17: SaslHandshakeRequest.versions, 36: SaslAuthenticateRequest.versions}
SERVED = LOGIN_APIS | {16: ListGroupsRequest.versions}
UNSUPPORTED_MECHANISM, AUTHENTICATION_FAILED = 33, 58


class Doubling:
    """Answers every challenge with itself twice, until the broker says "welcome"."""

    name = "DOUBLING"

    def __init__(self) -> None:
        self.challenges: list[bytes] = []

    def first(self) -> bytes:
        return b"hello"

    def answer(self, challenge: bytes) -> bytes | None:
        self.challenges.append(challenge)
        if challenge == b"forged":
            raise LoginFailed("the server's signature is wrong")
        return None if challenge == b"welcome" else challenge * 2


def fresh(served: dict[int, Versions] | None = SERVED) -> tuple[Peer, Doubling]:
    mechanism = Doubling()
    return Peer("broker:9092", "test", served=served, mechanism=mechanism), mechanism


def offered(*mechanisms: str, error_code: int = 0) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def said(token: bytes, error_code: int = 0, message: str | None = None, **named: Any) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error_code, error_message=message, auth_bytes=token, **named)


def test_a_login_follows_the_versions_and_comes_before_every_request() -> None:
    """ApiVersions, SaslHandshake, then SaslAuthenticate until the mechanism is done. No other request may be sent."""
    peer, mechanism = fresh(served=None)
    assert [type(each.request).__name__ for each in asked(joined(peer.begin()))] == ["ApiVersionsRequest"]
    peer.feed(reply(api_versions(SERVED), 4, 0))
    [handshake] = asked(joined(peer.take_outgoing()))
    assert (handshake.request, handshake.version) == (SaslHandshakeRequest(mechanism="DOUBLING"), 1)
    assert peer.state is PeerState.MECHANISM
    peer.feed(reply(offered("PLAIN", "DOUBLING"), 1, 1))
    [first] = asked(joined(peer.take_outgoing()))
    assert (first.request, first.version) == (SaslAuthenticateRequest(auth_bytes=b"hello"), 2)
    peer.feed(reply(said(b"ab"), 2, 2))
    [second] = asked(joined(peer.take_outgoing()))
    assert second.request == SaslAuthenticateRequest(auth_bytes=b"abab")
    with pytest.raises(Closed, match="before it is ready"):
        peer.send(ListGroupsRequest(), ListGroupsResponse)
    peer.feed(reply(said(b"welcome", session_lifetime_ms=60_000), 2, 3))
    assert (peer.is_ready, peer.take_outgoing(), peer.session_lifetime_ms) == (True, [], 60_000)
    assert mechanism.challenges == [b"ab", b"welcome"]
    peer.send(ListGroupsRequest(), ListGroupsResponse)


def test_versions_that_are_known_beforehand_are_not_asked_before_a_login() -> None:
    """Nodes of one release know each other's versions."""
    peer, _ = fresh()
    [first] = asked(joined(peer.begin()))
    assert isinstance(first.request, SaslHandshakeRequest)


def test_a_refused_mechanism_names_those_that_are_offered() -> None:
    """The commonest mistake is a listener with another mechanism."""
    peer, _ = fresh()
    peer.begin()
    refusal = reply(offered("PLAIN", "SCRAM-SHA-512", error_code=UNSUPPORTED_MECHANISM), 1, 0)
    with pytest.raises(Refused, match=r"broker:9092 does not accept .*DOUBLING: .*it offers PLAIN, SCRAM-SHA-512"):
        peer.feed(refusal)


def test_refused_credentials_carry_the_brokers_words() -> None:
    """And its error code, which is not retriable: asking again would lock the account."""
    peer, _ = fresh()
    peer.begin()
    peer.feed(reply(offered("DOUBLING"), 1, 0))
    refusal = reply(said(b"", AUTHENTICATION_FAILED, "no such user"), 2, 1)
    with pytest.raises(Refused, match=r"cannot log in at broker:9092 .*no such user") as caught:
        peer.feed(refusal)
    assert (caught.value.kafka_error, caught.value.retriable) == (AUTHENTICATION_FAILED, False)


def test_a_broker_that_cannot_prove_itself_is_not_trusted() -> None:
    """SCRAM's client verifies the server's signature; a request to a broker that fails it must not be sent."""
    peer, _ = fresh()
    peer.begin()
    peer.feed(reply(offered("DOUBLING"), 1, 0))
    with pytest.raises(LoginFailed, match=r"cannot log in at broker:9092 .*the server's signature is wrong"):
        peer.feed(reply(said(b"forged"), 2, 1))
    assert not peer.is_ready


def test_a_login_that_does_not_end_is_given_up() -> None:
    """A hostile broker could keep a node busy forever."""
    peer, _ = fresh()
    peer.begin()
    peer.feed(reply(offered("DOUBLING"), 1, 0))
    for number in range(1, LOGIN_STEPS_MAX):
        peer.feed(reply(said(b"x"), 2, number))
    with pytest.raises(LoginFailed, match=f"within {LOGIN_STEPS_MAX} steps"):
        peer.feed(reply(said(b"x"), 2, LOGIN_STEPS_MAX))


@pytest.mark.parametrize(
    ("served", "missing"), [({16: Versions(0, 5)}, "SaslHandshake"), ({17: Versions(0, 0)}, "SaslHandshake 0")]
)
def test_a_listener_without_login_is_said_before_a_secret_leaves(served: dict[int, Versions], missing: str) -> None:
    """Version 0 of SaslHandshake is followed by tokens without frames, which nothing here can read."""
    peer, mechanism = fresh(served=None)
    peer.begin()
    with pytest.raises(Unsupported, match=missing):
        peer.feed(reply(api_versions(served), 4, 0))
    assert mechanism.challenges == []


def test_the_mechanism_is_let_go_of_when_it_is_not_needed() -> None:
    """It holds a secret, and a connection lives for weeks."""
    peer, _ = fresh()
    peer.begin()
    peer.feed(reply(offered("DOUBLING"), 1, 0))
    peer.feed(reply(said(b"welcome"), 2, 1))
    assert peer._mechanism is None
    peer, _ = fresh()
    peer.begin()
    peer.end(Closed("x"))
    assert peer._mechanism is None
