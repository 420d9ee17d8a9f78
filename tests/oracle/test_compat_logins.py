"""Logins, byte by byte: Chronik's responses before, during and after a login are those of Kafka 4.3.1.

A conversation is a list of frames. Both servers get the same frames, and their responses are compared: frames, and the
end of the connection. Where Chronik differs on purpose, the test says why.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chronik.broker.compatibility import DIFFERENCES
from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from chronik.wire.compiler import decode, encode
from chronik.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.init_producer_id import InitProducerIdRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from chronik.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from chronik.wire.notation import Request
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import KINDS, salted_password
from tests.broker.hostile import frame
from tests.oracle.kafka_server import KafkaServer

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.xdist_group("compat")]

PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="a" user_admin="a" user_alice="secret" user_bob="geheim";'
)
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
# The answer of a server is waited for however long it takes.
ANSWER_S_MAX = 60
REAUTH_MS = 3000


def settings_of(main: int, short: int) -> dict[str, str]:
    listeners = f"MAIN://127.0.0.1:{main},SHORT://127.0.0.1:{short}"
    made = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "MAIN:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "MAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.server.max.receive.size": "100000",
        "connection.failed.authentication.delay.ms": "20",
    }
    for name in ("main", "short"):
        made[f"listener.name.{name}.plain.sasl.jaas.config"] = PLAIN_LOGIN
        for kind in KINDS:
            made[f"listener.name.{name}.{kind.lower()}.sasl.jaas.config"] = SCRAM_LOGIN
    for mechanism in ("plain", *(kind.lower() for kind in KINDS)):
        made[f"listener.name.short.{mechanism}.connections.max.reauth.ms"] = str(REAUTH_MS)
    return made


class KafkaWithLogins(KafkaServer):
    short_port = 0

    def _properties(self, controller_port: int) -> str:
        [self.short_port] = free_ports(1)
        made = settings_of(self.port, self.short_port)
        made["listeners"] += f",CONTROLLER://127.0.0.1:{controller_port}"
        self._settings = made
        return super()._properties(controller_port)

    def _awaited_ports(self) -> tuple[int, ...]:
        return (self.port, self.short_port)


class Ports(NamedTuple):
    main: int
    short: int


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ports, Ports]]:
    folder: Path = tmp_path_factory.mktemp("logins")
    main, short = free_ports(2)
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaWithLogins(folder / "kafka"))
        stack.enter_context(Cluster(settings=settings_of(main, short)))
        made = Ports(kafka.port, kafka.short_port), Ports(main, short)
        for ports in made:
            set_users(ports.main)
        yield made


class Connection:
    """Sends frames, and receives frames and the end."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
        self._number = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    def say(self, what: Said) -> bytes | None:
        """The response without its correlation id, or None for the end of the connection."""
        self._number += 1
        data = struct.pack(">i", len(what)) + what if isinstance(what, bytes) else frame(*what, self._number)
        try:
            self._socket.sendall(data)
            size = self._read(4)
            heard = self._read(int.from_bytes(size, "big")) if size else None
        except (ConnectionResetError, BrokenPipeError):
            heard = None
        if heard is None or isinstance(what, bytes):
            return heard
        assert heard[:4] == self._number.to_bytes(4, "big")
        return heard[4:]

    def send_raw(self, data: bytes) -> bool:
        """Whether the connection ends without a word."""
        try:
            self._socket.sendall(data)
            return not self._socket.recv(1)
        except (ConnectionResetError, BrokenPipeError):
            return True

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                return b""
            data += more
        return data


Said = bytes | tuple[Request, int]
HELLO = (ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
GROUPS = (ListGroupsRequest(), 0)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Said:
    return SaslHandshakeRequest(mechanism=mechanism), version


def token(data: bytes, version: int = 2) -> Said:
    return SaslAuthenticateRequest(auth_bytes=data), version


ALICE = token(b"\0alice\0secret")


def heard(port: int, said: Sequence[Said]) -> list[Any]:
    """Stops at the end of the connection; "answered" for what differs between any two servers."""
    found: list[Any] = []
    with Connection(port) as connection:
        for each in said:
            answer = connection.say(each)
            if answer is None:
                return [*found, "closed"]
            if isinstance(each, tuple) and isinstance(each[0], SaslHandshakeRequest):
                read = decode(SaslHandshakeResponse, each[1], answer)
                found.append((read.error_code, sorted(read.mechanisms)))
            else:
                found.append("answered" if each is HELLO else answer)
    return found


PLAIN_FAILURES = {
    "wrong password": b"\0alice\0wrong",
    "unknown user": b"\0mallory\0secret",
    "no user": b"\0\0secret",
    "no password": b"\0alice\0",
    "no user and no password": b"\0\0",
    "another authorization id": b"bob\0alice\0secret",
    "another authorization id and a wrong password": b"bob\0alice\0wrong",
    "two tokens": b"alice\0secret",
    "four tokens": b"\0alice\0secret\0",
    "five tokens": b"\0a\0b\0c\0d",
    "nothing": b"",
}
SCRAM_FAILURES = {
    "binding not offered": b"y,,n=carol,r=abc",
    "binding wanted": b"p=tls-unique,,n=carol,r=abc",
    "no token of this id": b"n,,n=carol,r=abc,tokenauth=true",
    "not SCRAM": b"\0alice\0secret",
    "another authorization id": b"n,a=bob,n=carol,r=abc",
}
CONVERSATIONS: dict[str, list[Said]] = {
    "ApiVersions twice": [HELLO, HELLO],
    "ApiVersions, then a request": [HELLO, GROUPS],
    "a request first": [GROUPS],
    "SaslAuthenticate first": [ALICE],
    "SaslAuthenticate after ApiVersions": [HELLO, ALICE],
    "a frame of nothing": [b""],
    "an unknown mechanism": [handshake("GSSAPI"), ALICE],
    "an unknown mechanism of v0": [handshake("DIGEST-MD5", 0), ALICE],
    "a mechanism in small letters": [handshake("plain"), ALICE],
    "two handshakes": [handshake(), handshake()],
    "a good login": [HELLO, handshake(), ALICE, GROUPS],
    "a login without ApiVersions": [handshake(), ALICE, GROUPS],
    "a login with its own authorization id": [handshake(), token(b"alice\0alice\0secret"), GROUPS],
    "a login, then ApiVersions": [handshake(), ALICE, HELLO, HELLO],
    "a login, then a handshake": [handshake(), ALICE, handshake(), GROUPS],
    "a login, then another mechanism": [handshake(), ALICE, handshake("X"), GROUPS],
    "a login, then SaslAuthenticate": [handshake(), ALICE, ALICE, GROUPS],
    "bare tokens": [handshake(version=0), b"\0alice\0secret", GROUPS],
    "a bare token that is wrong": [handshake(version=0), b"\0alice\0wrong", GROUPS],
    "ApiVersions in a login": [handshake(), HELLO],
    "ListGroups in a login": [handshake(), GROUPS],
    "Heartbeat in a login": [handshake(), (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4), ALICE],
    "InitProducerId in a login": [
        handshake(),
        (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4),
        ALICE,
    ],
    "a mechanism that the user has no credential for": [handshake("SCRAM-SHA-256"), token(b"\0alice\0secret")],
}
CONVERSATIONS |= {
    f"SaslAuthenticate v{version}": [handshake(), token(b"\0alice\0secret", version)] for version in (0, 1, 2)
}
CONVERSATIONS |= {
    f"PLAIN v{version}, {name}": [handshake(), token(data, version), GROUPS]
    for name, data in PLAIN_FAILURES.items()
    for version in (0, 1, 2)
}
CONVERSATIONS |= {
    f"{kind}, {name}": [handshake(kind), token(data), GROUPS] for name, data in SCRAM_FAILURES.items() for kind in KINDS
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_kafka_and_chronik_say_the_same(servers: tuple[Ports, Ports], name: str) -> None:
    kafka, chronik = servers
    said = CONVERSATIONS[name]
    expected = heard(kafka.main, said)
    if name == "ApiVersions in a login":  # each lists its own APIs, and the error comes first
        expected = [expected[0], "answered"]
    assert heard(chronik.main, said) == expected


def test_a_large_frame_of_a_stranger_ends_the_connection(servers: tuple[Ports, Ports]) -> None:
    for ports in servers:
        for size in (100_001, -1, 2**31 - 1):
            with Connection(ports.main) as connection:
                assert connection.send_raw(struct.pack(">i", size) + b"\0\x12\0\0")


# --- SCRAM


def upsertion(name: str, mechanism: int = 1, iterations: int = 4096, password: str = "pw") -> ScramCredentialUpsertion:
    kind = next((kind for kind in KINDS.values() if kind.number == mechanism), KINDS["SCRAM-SHA-256"])
    salted = salted_password(kind, password, b"salt", max(1, min(iterations, 20_000)))
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def altering(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> Said:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    ), 0


def describing(*names: str) -> Said:
    users = [UserName(name=name) for name in names]
    return DescribeUserScramCredentialsRequest(users=users or None), 0


def as_admin(port: int, *said: Said) -> list[bytes]:
    with Connection(port) as connection:
        for each in (handshake(), token(b"\0admin\0a")):
            assert connection.say(each) is not None
        answers = [connection.say(each) for each in said]
    assert None not in answers
    return [answer[1:] for answer in answers if answer is not None]  # after the header's tags


def set_users(port: int) -> None:
    for answer in as_admin(port, *(altering(upsertion("carol", kind.number)) for kind in KINDS.values())):
        assert [user.error_code for user in decode(AlterUserScramCredentialsResponse, 0, answer).results] == [0]
    with Connection(port) as connection:  # brokers of Kafka learn of it a moment later
        connection.say(handshake())
        connection.say(token(b"\0admin\0a"))
        while (
            decode(DescribeUserScramCredentialsResponse, 0, (connection.say(describing("carol")) or b"")[1:])
            .results[0]
            .error_code
        ):
            pass


def scram_heard(port: int, kind: str, user: str, password: str, spoil: Callable[[bytes], bytes]) -> list[Any]:
    """The server's messages, without random values."""
    login = ScramLogin(KINDS[kind], user, password, "clientnonce")
    found: list[Any] = []
    with Connection(port) as connection:
        connection.say(handshake(kind))
        answer = connection.say(token(login.first()))
        assert answer is not None
        challenge = decode(SaslAuthenticateResponse, 2, answer[1:])
        if challenge.error_code:
            return [answer]
        nonce = bytes(challenge.auth_bytes).split(b",")[0]
        assert len(nonce) > len("r=clientnonce")  # Kafka's own part is a number in base 36, mostly of 25 digits
        found.append(encode(challenge, 2).replace(nonce, b"r=NONCE").partition(b"r=NONCE")[2])
        proof = login.answer(bytes(challenge.auth_bytes))
        assert isinstance(proof, bytes)
        answer = connection.say(token(spoil(proof)))
        final = decode(SaslAuthenticateResponse, 2, (answer or b"")[1:])
        if not final.error_code:
            assert login.answer(bytes(final.auth_bytes)) is None, "the server knows the password"
            final.auth_bytes = b""
        found.append(encode(final, 2))
        found.append(connection.say(GROUPS))
    return found


def untouched(proof: bytes) -> bytes:
    return proof


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("password", "spoil"),
    [
        ("pw", untouched),
        ("wrong", untouched),
        ("pw", lambda proof: proof.replace(b"r=clientnonce", b"r=xlientnonce")),
        ("pw", lambda proof: proof.replace(b",p=", b"x,p=")),
        ("pw", lambda proof: proof[: proof.index(b",p=")] + b",p=" + b"AAAA" + proof[proof.index(b",p=") + 7 :]),
        ("pw", lambda proof: proof[: proof.index(b",p=")]),
        ("pw", lambda proof: b""),
    ],
)
def test_scram_ends_alike(
    servers: tuple[Ports, Ports], kind: str, password: str, spoil: Callable[[bytes], bytes]
) -> None:
    kafka, chronik = (scram_heard(ports.main, kind, "carol", password, spoil) for ports in servers)
    assert kafka == chronik


@pytest.mark.parametrize("kind", KINDS)
def test_only_kafka_tells_whether_a_scram_user_exists(servers: tuple[Ports, Ports], kind: str) -> None:
    """An unknown user fails at the first message of Kafka, and where a wrong password fails here."""
    assert "unknown-scram-users" in DIFFERENCES
    kafka, chronik = (scram_heard(ports.main, kind, "mallory", "pw", untouched) for ports in servers)
    wrong = scram_heard(servers[1].main, kind, "carol", "wrong", untouched)
    assert (len(kafka), len(chronik), len(wrong)) == (1, 3, 3)
    assert chronik[1:] == wrong[1:]
    assert kafka[0][1:] == chronik[1]


DELETE_1, DELETE_2 = (ScramCredentialDeletion(name="nobody", mechanism=number) for number in (1, 2))
ALTERATIONS: dict[str, Said] = {
    "too few": altering(upsertion("u", iterations=4095)),
    "too many": altering(upsertion("u", iterations=16_385)),
    "no name": altering(upsertion("")),
    "unknown mechanism": altering(upsertion("u", 3)),
    "mechanism 0": altering(upsertion("u", 0)),
    "twice": altering(upsertion("u"), upsertion("u")),
    "twice deleted": altering(DELETE_1, DELETE_1),
    "deleted and set": altering(DELETE_1, upsertion("nobody")),
    "deleted, with another mechanism set": altering(DELETE_2, upsertion("nobody")),
    "deleting nobody": altering(DELETE_1),
    "deleting without a name": altering(ScramCredentialDeletion(name="", mechanism=1)),
    "deleting an unknown mechanism": altering(ScramCredentialDeletion(name="u", mechanism=9)),
    "nothing": altering(),
    "one good, one bad": altering(upsertion("v"), upsertion("u", iterations=1)),
    "describe one": describing("carol"),
    "describe nobody": describing("nobody"),
    "describe twice": describing("carol", "carol"),
    "describe an empty name": describing(""),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_credentials_are_altered_and_described_alike(servers: tuple[Ports, Ports], name: str) -> None:
    kafka, chronik = (as_admin(ports.main, ALTERATIONS[name])[0] for ports in servers)
    asked = ALTERATIONS[name][0]
    kind: Any = (
        AlterUserScramCredentialsResponse
        if isinstance(asked, AlterUserScramCredentialsRequest)
        else DescribeUserScramCredentialsResponse
    )
    assert by_name(decode(kind, 0, chronik)) == by_name(decode(kind, 0, kafka))


def test_two_mechanisms_of_a_user_are_two_credentials_here(servers: tuple[Ports, Ports]) -> None:
    """As KIP-554 says, and as kafka-configs.sh sends them. Kafka 4.3.1 refuses a user that is named twice."""
    assert "two-scram-mechanisms" in DIFFERENCES
    asked = altering(upsertion("w", 1), upsertion("w", 2))
    errors = []
    for ports in servers:
        [answer] = as_admin(ports.main, asked)
        errors.append([result.error_code for result in decode(AlterUserScramCredentialsResponse, 0, answer).results])
    assert errors == [[92], [0]]


def by_name(response: Any) -> Any:
    response.results.sort(key=lambda result: result.user)  # Kafka's order is that of a hash map
    for result in response.results:
        if isinstance(result, DescribeUserScramCredentialsResult):
            result.credential_infos.sort(key=lambda info: info.mechanism)  # and so is this one
    return response


# --- the end of a login, and its renewal


def test_a_renewed_login_is_answered_alike(servers: tuple[Ports, Ports]) -> None:
    said: list[Said] = [handshake(), ALICE, GROUPS, handshake(), ALICE, GROUPS]
    kafka, chronik = (heard(ports.short, said) for ports in servers)
    assert kafka == chronik
    lifetime = decode(SaslAuthenticateResponse, 2, chronik[1][1:]).session_lifetime_ms
    assert lifetime == REAUTH_MS


@pytest.mark.parametrize(
    "renewal",
    [
        [handshake(), token(b"\0bob\0geheim"), GROUPS],
        [handshake(), token(b"\0alice\0wrong"), GROUPS],
        [handshake("SCRAM-SHA-256"), token(b"n,,n=carol,r=abc"), GROUPS],
        [handshake("X"), GROUPS],
        [handshake(), GROUPS],
        [handshake(), HELLO],
        [handshake(), ALICE, handshake(), GROUPS],
        [handshake(version=0), b"\0alice\0secret", GROUPS],
        [ALICE, GROUPS],
    ],
)
def test_renewals_fail_alike(servers: tuple[Ports, Ports], renewal: list[Said]) -> None:
    said = [handshake(), ALICE, *renewal]
    kafka, chronik = (heard(ports.short, said) for ports in servers)
    assert kafka == chronik


@pytest.mark.parametrize("version", [0, 1])
def test_a_request_after_the_end_of_a_login_ends_the_connection(servers: tuple[Ports, Ports], version: int) -> None:
    """Repeated until it happens: a login also ends for clients that do not know lifetimes."""
    for ports in servers:
        with Connection(ports.short) as connection:
            connection.say(handshake())
            assert connection.say(token(b"\0alice\0secret", version)) is not None
            while connection.say(GROUPS) is not None:
                pass
