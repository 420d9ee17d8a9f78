"""The broker's side of PLAIN and SCRAM, message by message: which clients it accepts, and what it sends to others."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.broker.sasl.mechanism import Accepted, Challenge, LoginRefused
from chronik.broker.sasl.plain import PlainServer
from chronik.broker.sasl.scram import Known, ScramServer, pretended
from chronik.metadata.image import ScramCredential
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import KINDS, SHA_256, SHA_512, ScramKind, keys_of, read_server_first, salted_password

INVALID = "Authentication failed: Invalid username or password"
USERS = {"alice": "secret", "bob": "geheim"}
SECRET = b"of the cluster"


@pytest.mark.parametrize("message", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_accepts_a_user_with_its_password(message: bytes) -> None:
    assert PlainServer(USERS).step(message) == Accepted(b"", "alice")


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0wrong", INVALID),
        (b"\0alice\0secre", INVALID),
        (b"\0alice\0geheim", INVALID),
        (b"\0mallory\0secret", INVALID),
        (b"\0mallory\0.", INVALID),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (
            b"bob\0alice\0secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"alice\0secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0\xff", "Invalid SASL/PLAIN response: not UTF-8"),
    ],
)
def test_plain_refuses_in_kafkas_words(message: bytes, told: str) -> None:
    with pytest.raises(LoginRefused) as refused:
        PlainServer(USERS).step(message)
    assert refused.value.message == told


def credential(kind: ScramKind, password: str = "secret", salt: bytes = b"salt of alice") -> ScramCredential:
    keys = keys_of(kind, salted_password(kind, password, salt, 4096))
    return ScramCredential(salt, keys.stored_key, keys.server_key, 4096)


class Users:
    """alice, with one mechanism."""

    def __init__(self, kind: ScramKind = SHA_256) -> None:
        self.alice = credential(kind)

    def __call__(self, user: str) -> Known:
        return Known(self.alice if user == "alice" else None, self.alice, SECRET)


def server(kind: ScramKind = SHA_256, nonce: str = "servernonceservernonceserver") -> ScramServer:
    return ScramServer(kind, Users(kind), nonce)


def log_in(kind: ScramKind, user: str, password: str) -> Accepted:
    client, broker = ScramLogin(kind, user, password, "clientnonce"), server(kind)
    challenge = broker.step(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.answer(challenge.token)
    assert isinstance(proof, bytes)
    accepted = broker.step(proof)
    assert isinstance(accepted, Accepted)
    assert client.answer(accepted.token) is None, "the client believes the broker"
    return accepted


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_scram_accepts_who_knows_the_password(kind: ScramKind) -> None:
    assert log_in(kind, "alice", "secret").user == "alice"


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("user", ["alice", "mallory"])
def test_a_wrong_password_and_an_unknown_user_fail_at_the_same_message_with_the_same_words(
    kind: ScramKind, user: str
) -> None:
    """A client that tries names must not learn which of them exist."""
    with pytest.raises(LoginRefused) as refused:
        log_in(kind, user, "wrong")
    assert refused.value.message == (
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {kind.name}"
    )


def challenge_to(user: str, broker: ScramServer | None = None) -> tuple[bytes, int]:
    made = (broker or server()).step(b"n,,n=%s,r=abc" % user.encode())
    asked = read_server_first(made.token)
    return asked.salt, asked.iterations


def test_an_unknown_users_salt_looks_like_the_others_and_stays() -> None:
    salt, iterations = challenge_to("mallory")
    assert (len(salt), iterations) == (len(b"salt of alice"), 4096)
    assert challenge_to("mallory") == (salt, iterations)
    assert challenge_to("trudy")[0] != salt
    assert pretended(SHA_512, "mallory", Users()("mallory")).salt != salt


def test_a_made_up_salt_has_the_letters_of_kafkas_tools_where_the_others_have() -> None:
    look = ScramCredential(b"1dh4k2l4b0z9", b"", b"", 8192)
    made = pretended(SHA_256, "mallory", Known(None, look, SECRET))
    assert (made.salt.isalnum(), len(made.salt), made.iterations) == (True, 12, 8192)


def test_no_password_fits_a_made_up_credential() -> None:
    """Even for a client that computes the broker's made-up keys."""
    client, broker = ScramLogin(SHA_256, "mallory", "x", "clientnonce"), server()
    challenge = broker.step(client.first())
    made = broker._asked
    assert made is not None
    broker._asked = made._replace(credential=credential(SHA_256, "x", read_server_first(challenge.token).salt))
    proof = client.answer(challenge.token)
    assert isinstance(proof, bytes)
    with pytest.raises(LoginRefused):
        broker.step(proof)


@pytest.mark.parametrize(
    "first", [b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc", b"n,,n=alice,r=abc,tokenauth=true", b"", b"\0a\0b"]
)
def test_scram_refuses_what_it_does_not_offer(first: bytes) -> None:
    with pytest.raises(LoginRefused, match="invalid credentials with SASL mechanism SCRAM-SHA-256"):
        server().step(first)


def test_scram_refuses_another_authorization_id() -> None:
    with pytest.raises(LoginRefused, match="different from username"):
        server().step(b"n,a=bob,n=alice,r=abc")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"r=clientnonce", b"r=xlientnonce"),
        (b"server", b"serve"),
        (b"c=biws", b"c=" + base64.b64encode(b"n,a=alice,")),
        (b",p=", b"x,p="),
    ],
)
def test_a_final_message_with_another_nonce_or_binding_is_refused(before: bytes, after: bytes) -> None:
    """A proof from an intercepted login must not work again."""
    client, broker = ScramLogin(SHA_256, "alice", "secret", "clientnonce"), server()
    proof = client.answer(broker.step(client.first()).token)
    assert isinstance(proof, bytes)
    with pytest.raises(LoginRefused):
        broker.step(proof.replace(before, after, 1))


def test_a_proof_serves_once() -> None:
    client, broker = ScramLogin(SHA_256, "alice", "secret", "clientnonce"), server()
    proof = client.answer(broker.step(client.first()).token)
    assert isinstance(proof, bytes)
    again = server(nonce="another-nonce-of-the-broker-x")
    again.step(client.first())
    with pytest.raises(LoginRefused):
        again.step(proof)


@given(st.lists(st.binary(max_size=100), min_size=1, max_size=3))
def test_no_bytes_raise_anything_but_a_refusal(messages: list[bytes]) -> None:
    for mechanism in (PlainServer(USERS), server()):
        try:
            for message in messages:
                mechanism.step(message)
        except LoginRefused:
            continue


def test_nothing_secret_is_printed() -> None:
    known = Users()("alice")
    printed = repr((known, known.credential, server(), PlainServer(USERS)))
    assert "secret" not in printed
    assert "salt of" not in printed
