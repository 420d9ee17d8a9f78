"""The handshake of two nodes, with and without a secret: what each side learns, and when."""

from __future__ import annotations

import pytest

from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import Hello
from chronik.raft.greeting import CHALLENGE, PROOF, Acceptor, Connector, proof

SECRET = b"sixteen bytes, or more"
NONCE, OTHER_NONCE = bytes(range(16)), bytes(range(16, 32))


def connector(secret: bytes = SECRET, nonce: bytes = NONCE) -> Connector:
    return Connector(Hello(1, 2, "", nonce), secret)


def acceptor(secret: bytes = SECRET, nonce: bytes = OTHER_NONCE) -> Acceptor:
    return Acceptor(2, secret, nonce, lambda hello: Hello(2, hello.sender, "cluster"))


def greet(one: Connector, two: Acceptor) -> list[bytes]:
    """Everything that the acceptor said."""
    said, to_two, heard = [], [one.begin()], []
    while to_two:
        heard = [answer for body in to_two for answer in two.take(body)]
        said += heard
        to_two = [answer for body in heard for answer in one.take(body)]
    return said


@pytest.mark.parametrize("secret", [b"", SECRET])
def test_two_nodes_that_agree_know_each_other(secret: bytes) -> None:
    one, two = connector(secret), acceptor(secret)
    greet(one, two)
    assert one.peer == Hello(2, 1, "cluster")
    assert two.peer == Hello(1, 2, "", NONCE)


def test_the_secret_is_never_sent() -> None:
    one, two = connector(), acceptor()
    said = [one.begin(), *two.take(one.begin())]
    said += one.take(said[-1])
    said += two.take(said[-1])
    assert not any(SECRET in each for each in said)
    assert len(said) == 5


@pytest.mark.parametrize(
    ("one", "two", "why"),
    [
        (connector(b"another secret, wrong"), acceptor(), "does not know this quorum's secret"),
        (connector(b""), acceptor(), "set chronik.quorum.secret on this node too"),
        (connector(), acceptor(b""), "set chronik.quorum.secret there too"),
    ],
)
def test_nodes_that_do_not_share_a_secret_do_not_go_on(one: Connector, two: Acceptor, why: str) -> None:
    with pytest.raises(MalformedMessage, match=why):
        greet(one, two)
    assert one.peer is None


def test_a_stranger_is_not_told_the_cluster_before_its_proof() -> None:
    """A port scan of the quorum's listener gives nothing that helps at the next one."""
    two = acceptor()
    (challenge,) = two.take(connector().begin())
    assert challenge == CHALLENGE + OTHER_NONCE
    for guess in (b"", PROOF, PROOF + bytes(32), connector().begin(), challenge):
        with pytest.raises(MalformedMessage):
            two.take(guess)
    assert two.peer is None


def test_a_recorded_proof_opens_no_second_connection() -> None:
    """The acceptor draws a nonce for each connection."""
    one, two = connector(), acceptor()
    recorded = [one.begin()]
    recorded += one.take(two.take(recorded[0])[0])
    two.take(recorded[1])
    assert two.peer is not None
    later = acceptor(nonce=bytes(16))
    later.take(recorded[0])
    with pytest.raises(MalformedMessage, match="does not know"):
        later.take(recorded[1])


def test_a_proof_sent_back_to_its_author_is_worth_nothing() -> None:
    """Otherwise a peer without the secret could make a node answer its own challenge."""
    mirrored = connector()
    sent = mirrored.take(CHALLENGE + NONCE)
    mirrored.take(Hello(2, 1, "cluster").encode())
    with pytest.raises(MalformedMessage, match="does not know"):
        mirrored.take(sent[0])
    assert mirrored.peer is None


def test_parts_of_a_proof_cannot_be_shifted() -> None:
    assert proof(SECRET, b"side", b"ab", b"c") != proof(SECRET, b"side", b"a", b"bc")
    assert proof(SECRET, b"side", b"ab") != proof(SECRET, b"edis", b"ab")


def test_a_second_challenge_is_refused() -> None:
    one = connector()
    one.take(CHALLENGE + NONCE)
    with pytest.raises(MalformedMessage):
        one.take(CHALLENGE + OTHER_NONCE)
