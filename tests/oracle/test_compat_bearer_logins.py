"""Logins by OAUTHBEARER, byte by byte: Kafka 4.3.1 and Chronik verify the same tokens with the same file of keys.

Both get the same conversations, and their responses are compared: frames, and the end of the connection. Lifetimes
depend on when a server was asked, so they are compared by range. Where Chronik differs on purpose, the test says why.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chronik.broker.compatibility import DIFFERENCES
from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from chronik.wire.compiler import decode
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tests.broker.sasl.tokens import NAMES, claims_of, jwk_of, key_set, part, token_of
from tests.oracle.kafka_server import KafkaServer
from tests.oracle.test_compat_logins import GROUPS, HELLO, Connection, Said, handshake, token

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.xdist_group("compat")]

PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="a" user_admin="a" user_alice="secret";'
)
BEARER_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
REAUTH_MS = 60_000
BEARER = "OAUTHBEARER"


def settings_of(main: int, strict: int, keys: Path) -> dict[str, str]:
    listeners = f"MAIN://127.0.0.1:{main},STRICT://127.0.0.1:{strict}"
    made = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "MAIN:SASL_PLAINTEXT,STRICT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "MAIN",
        "sasl.enabled.mechanisms": f"PLAIN,{BEARER}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "listener.name.strict.oauthbearer.sasl.oauthbearer.expected.issuer": "https://idp.example",
        "listener.name.strict.sasl.oauthbearer.expected.audience": "kafka,streams",
        "listener.name.strict.sasl.oauthbearer.clock.skew.seconds": "0",
        "listener.name.strict.oauthbearer.connections.max.reauth.ms": str(REAUTH_MS),
        "connection.failed.authentication.delay.ms": "20",
    }
    for name in ("main", "strict"):
        made[f"listener.name.{name}.plain.sasl.jaas.config"] = PLAIN_LOGIN
        made[f"listener.name.{name}.oauthbearer.sasl.jaas.config"] = BEARER_LOGIN
        made[f"listener.name.{name}.oauthbearer.sasl.server.callback.handler.class"] = VALIDATOR
    return made


class KafkaWithTokens(KafkaServer):
    strict_port = 0

    def __init__(self, folder: Path, keys: Path) -> None:
        super().__init__(folder)
        self._keys = keys

    def _properties(self, controller_port: int) -> str:
        [self.strict_port] = free_ports(1)
        made = settings_of(self.port, self.strict_port, self._keys)
        made["listeners"] += f",CONTROLLER://127.0.0.1:{controller_port}"
        self._settings = made
        return super()._properties(controller_port)

    def _java(self, *words: str) -> list[str]:
        java, *rest = super()._java(*words)
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._keys.as_uri()}", *rest]

    def _awaited_ports(self) -> tuple[int, ...]:
        return (self.port, self.strict_port)


class Ports(NamedTuple):
    main: int
    strict: int


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ports, Ports]]:
    folder: Path = tmp_path_factory.mktemp("bearer")
    keys = folder / "keys.json"
    unfit = (jwk_of("rsa-enc", use="enc"), jwk_of("rsa-384", alg="RS384"), jwk_of("short"))
    keys.write_bytes(key_set(*NAMES, more=unfit))
    main, strict = free_ports(2)
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaWithTokens(folder / "kafka", keys))
        stack.enter_context(Cluster(settings=settings_of(main, strict, keys)))
        yield Ports(kafka.port, kafka.strict_port), Ports(main, strict)


def said_first(token_: str, *, header: str = "n,,", pairs: str = "") -> Said:
    return token(f"{header}\x01auth=Bearer {token_}\x01{pairs}\x01".encode())


def heard(port: int, said: list[Said]) -> list[Any]:
    """Stops at the end of the connection. Of a lifetime, only its presence is returned."""
    found: list[Any] = []
    with Connection(port) as connection:
        for each in said:
            answer = connection.say(each)
            if answer is None:
                return [*found, "closed"]
            if isinstance(each, tuple) and isinstance(each[0], SaslAuthenticateRequest):
                read = decode(SaslAuthenticateResponse, each[1], answer[1 if each[1] > 1 else 0 :])
                found.append(
                    (read.error_code, read.error_message, bytes(read.auth_bytes), read.session_lifetime_ms > 0)
                )
            else:
                found.append("answered" if each is HELLO or each == handshake(BEARER) else answer)
    return found


def tokens(now_s: int, make: Callable[..., str] = token_of) -> dict[str, str]:
    good = make(now_s)
    head, payload, signature = good.split(".")
    return {
        "good": good,
        **{f"by {name}": make(now_s, key=name) for name in NAMES},
        **{f"by rsa, {name}": make(now_s, algorithm=name) for name in ("RS384", "RS512", "PS256", "PS384", "PS512")},
        "no key id": make(now_s, headers={"kid": None}),
        "unknown key id": make(now_s, headers={"kid": "other"}),
        "another key": make(now_s, key="rsa-unknown", headers={"kid": "rsa"}),
        "a key for encryption": make(now_s, key="rsa-enc"),
        "a key for this algorithm": make(now_s, key="rsa-384", algorithm="RS384"),
        "a key that is too short": make(now_s, key="short"),
        "a critical header": make(now_s, headers={"crit": ["x"], "x": 1}),
        "none": f"{part({'alg': 'none'})}.{payload}.",
        "none with a signature": f"{part({'alg': 'none'})}.{payload}.{signature}",
        "spoilt signature": f"{head}.{payload}.{signature[:-8]}AAAAAAAA",
        "spoilt payload": f"{head}.{part(claims_of(now_s, sub='admin'))}.{signature}",
        "no signature": f"{head}.{payload}.",
        "two parts": f"{head}.{payload}",
        "five parts": f"{good}.x.y",
        "no JWT": "abc",
        "no exp": make(now_s, exp=None),
        "no iat": make(now_s, iat=None),
        "no sub": make(now_s, sub=None),
        "no scope": make(now_s, scope=None),
        "scopes": make(now_s, scope=["a", "b"]),
        "scope twice": make(now_s, scope=["a", "a"]),
        "no scopes": make(now_s, scope=[]),
        "an empty scope": make(now_s, scope=""),
        "an empty sub": make(now_s, sub=""),
        "a sub of spaces": make(now_s, sub="  "),
        "a sub with spaces around": make(now_s, sub=" alice "),
        "a sub with a comma": make(now_s, sub="a,b=c"),
        "expired": make(now_s, iat=now_s - 7200, exp=now_s - 3600),
        "expired, within the skew": make(now_s, iat=now_s - 7200, exp=now_s - 10),
        "issued later": make(now_s, iat=now_s + 1800),
        "expires before it is issued": make(now_s, iat=now_s + 3700),
        "valid later": make(now_s, nbf=now_s + 1800),
        "valid later, within the skew": make(now_s, nbf=now_s + 10),
        "a number for a sub": make(now_s, sub=7),
        "an exp that is text": make(now_s, exp="never"),
        "an iat that is text": make(now_s, iat=str(now_s)),
        "a negative exp": make(now_s, exp=-1, iat=-2),
        "an audience that is a number": make(now_s, aud=7),
        "a scope that is a number": make(now_s, scope=7),
        "a fraction": make(now_s, exp=now_s + 3600.5),
        "an audience": make(now_s, aud="kafka"),
        "an issuer": make(now_s, iss="https://idp.example"),
    }


NAMED = list(tokens(0, lambda now_s, **changes: "a.b.c"))  # keys are made when the first test needs one


@pytest.mark.parametrize("name", NAMED)
def test_a_token_is_judged_alike(servers: tuple[Ports, Ports], name: str) -> None:
    said: list[Said] = [handshake(BEARER), said_first(tokens(int(time.time()))[name]), token(b"\x01"), GROUPS]
    kafka, chronik = (heard(ports.main, said) for ports in servers)
    assert chronik == kafka


STRICT = {
    "all right": {"iss": "https://idp.example", "aud": "kafka"},
    "one of several": {"iss": "https://idp.example", "aud": ["x", "streams"]},
    "no audience": {"iss": "https://idp.example"},
    "another audience": {"iss": "https://idp.example", "aud": "other"},
    "no issuer": {"aud": "kafka"},
    "another issuer": {"iss": "https://idp.example/", "aud": "kafka"},
    "expired a moment ago": {"iss": "https://idp.example", "aud": "kafka", "exp": -1},
}


@pytest.mark.parametrize("name", STRICT)
def test_issuer_and_audience_are_judged_alike(servers: tuple[Ports, Ports], name: str) -> None:
    now_s = int(time.time())
    changes: dict[str, Any] = STRICT[name] | ({"exp": now_s - 1, "iat": now_s - 9} if "exp" in STRICT[name] else {})
    said: list[Said] = [handshake(BEARER), said_first(token_of(now_s, **changes)), token(b"\x01"), GROUPS]
    kafka, chronik = (heard(ports.strict, said) for ports in servers)
    assert chronik == kafka


def conversations(good: str = "GOOD", bad: str = "BAD") -> dict[str, list[Said]]:
    first = f"auth=Bearer {good}\x01"
    raw = {
        "nothing": b"",
        "an acknowledgement first": b"\x01",
        "no GS2 header": f"\x01{first}\x01".encode(),
        "channel binding not offered": f"y,,\x01{first}\x01".encode(),
        "channel binding": f"p=tls-unique,,\x01{first}\x01".encode(),
        "no separator": f"n,,{first}\x01".encode(),
        "one separator at the end": f"n,,\x01{first}".encode(),
        "three separators at the end": f"n,,\x01{first}\x01\x01".encode(),
        "no pairs": b"n,,\x01\x01",
        "no auth": b"n,,\x01a=b\x01\x01",
        "another scheme in upper case": f"n,,\x01auth=BEARER {good}\x01\x01".encode(),
        "many spaces": f"n,,\x01auth=Bearer   {good}\x01\x01".encode(),
        "no space": f"n,,\x01auth=Bearer{good}\x01\x01".encode(),
        "a space behind": f"n,,\x01auth=Bearer {good} \x01\x01".encode(),
        "a key with digits": f"n,,\x01{first}a1=b\x01\x01".encode(),
        "an empty value": f"n,,\x01{first}a=\x01\x01".encode(),
        "a value with a null": f"n,,\x01{first}a=\0\x01\x01".encode(),
        "a value beyond ASCII": f"n,,\x01{first}a=ä\x01\x01".encode(),
        "extensions": f"n,,\x01{first}host=h\x01traceId=1=2\x01\x01".encode(),
        "extensions first": f"n,,\x01host=h\x01{first}\x01".encode(),
        "auth twice": f"n,,\x01auth=Bearer {bad}\x01{first}\x01".encode(),
        "its own authzid": f"n,a=alice,\x01{first}\x01".encode(),
        "another authzid": f"n,a=bob,\x01{first}\x01".encode(),
        "an empty authzid": f"n,a=,\x01{first}\x01".encode(),
        "an authzid without a name": f"n,alice,\x01{first}\x01".encode(),
        "an authzid with a bad escape": f"n,a=al=41ce,\x01{first}\x01".encode(),
        "another authzid and a bad token": f"n,a=bob,\x01auth=Bearer {bad}\x01\x01".encode(),
        "PLAIN": b"\0alice\0secret",
    }
    made: dict[str, list[Said]] = {
        name: [handshake(BEARER), token(data), token(b"\x01"), GROUPS] for name, data in raw.items()
    }
    made |= {
        f"{name} after a bad token": [handshake(BEARER), said_first(bad), token(data), GROUPS]
        for name, data in {"a good one": f"n,,\x01{first}\x01".encode(), "nothing": b"", "PLAIN": b"\0a\0b"}.items()
    }
    made["a bad token twice"] = [handshake(BEARER), said_first(bad), said_first(bad), token(b"\x01"), GROUPS]
    made["a request after a bad token"] = [handshake(BEARER), said_first(bad), GROUPS]
    made |= {
        f"v{version}": [handshake(BEARER), token(f"n,,\x01{first}\x01".encode(), version), GROUPS]
        for version in (0, 1, 2)
    }
    made |= {
        f"a bad token in v{version}": [
            handshake(BEARER),
            token(f"n,,\x01auth=Bearer {bad}\x01\x01".encode(), version),
            token(b"\x01", version),
            GROUPS,
        ]
        for version in (0, 1, 2)
    }
    made["bare"] = [handshake(BEARER, 0), f"n,,\x01{first}\x01".encode(), GROUPS]
    made["bare and bad"] = [handshake(BEARER, 0), f"n,,\x01auth=Bearer {bad}\x01\x01".encode(), b"\x01", GROUPS]
    return made


@pytest.mark.parametrize("name", list(conversations()))
def test_kafka_and_chronik_say_the_same(servers: tuple[Ports, Ports], name: str) -> None:
    now_s = int(time.time())
    said = conversations(token_of(now_s), token_of(now_s, key="rsa-unknown", headers={"kid": "rsa"}))[name]
    kafka, chronik = (heard(ports.main, said) for ports in servers)
    assert chronik == kafka


def test_what_kafka_fails_on_is_answered_here(servers: tuple[Ports, Ports]) -> None:
    """Kafka 4.3.1 fails on its own error message, or on a scope, and closes the connection without an answer."""
    assert "bearer-unanswered" in DIFFERENCES
    of_scopes = said_first(token_of(int(time.time()), scope=["a", 7]))
    for first in (token(b"n,,\x01auth=Basic abc\x01\x01"), of_scopes):
        said: list[Said] = [handshake(BEARER), first, token(b"\x01")]
        kafka, chronik = (heard(ports.main, said) for ports in servers)
        assert kafka[1:] == ["closed"]
        assert [answer[0] for answer in chronik[1:] if answer != "closed"][-1] == 58


def test_only_kafka_uses_a_key_for_an_algorithm_that_it_does_not_name(servers: tuple[Ports, Ports]) -> None:
    assert "bearer-key-algorithm" in DIFFERENCES
    said: list[Said] = [handshake(BEARER), said_first(token_of(int(time.time()), key="rsa-384")), token(b"\x01")]
    kafka, chronik = (heard(ports.main, said) for ports in servers)
    assert (kafka[1][2], chronik[1][2]) == (b"", b'{"status":"invalid_token"}')


@pytest.mark.parametrize("authzid", ["alice", " alice ", "bob"])
def test_a_name_is_taken_alike_from_a_token(servers: tuple[Ports, Ports], authzid: str) -> None:
    """The authorization id is compared with the name, so the answer shows the name."""
    first = said_first(token_of(int(time.time()), sub=" alice "), header=f"n,a={authzid},")
    kafka, chronik = (heard(ports.main, [handshake(BEARER), first, GROUPS]) for ports in servers)
    assert chronik == kafka


def lifetime_ms(connection: Connection, first: Said) -> int:
    assert connection.say(handshake(BEARER)) is not None
    answer = decode(SaslAuthenticateResponse, 2, (connection.say(first) or b"")[1:])
    assert answer.error_code == 0
    return answer.session_lifetime_ms


def test_a_login_ends_with_its_token_or_with_the_setting(servers: tuple[Ports, Ports]) -> None:
    """KIP-368: the client gets the shorter of the two, and logs in again before it ends."""
    for ports in servers:
        now_s = int(time.time())
        known: dict[str, Any] = {"iss": "https://idp.example", "aud": "kafka"}
        with Connection(ports.main) as connection:
            assert 3_500_000 < lifetime_ms(connection, said_first(token_of(now_s))) <= 3_600_000
        with Connection(ports.strict) as connection:
            assert lifetime_ms(connection, said_first(token_of(now_s, **known))) == REAUTH_MS
        with Connection(ports.strict) as connection:
            short = said_first(token_of(now_s, exp=now_s + 40, **known))
            assert 0 < lifetime_ms(connection, short) <= 40_000
            assert 0 < lifetime_ms(connection, short) <= 40_000, "renewed on the same connection"
            assert connection.say(GROUPS) is not None


RENEWALS = {
    "another user": {"sub": "bob"},
    "a token that has expired": {"iat": -9000, "exp": -5000},
}


@pytest.mark.parametrize("name", RENEWALS)
def test_renewals_fail_alike(servers: tuple[Ports, Ports], name: str) -> None:
    now_s = int(time.time())
    changes = {key: now_s + value if isinstance(value, int) else value for key, value in RENEWALS[name].items()}
    said: list[Said] = [handshake(BEARER), said_first(token_of(now_s)), GROUPS]
    said += [handshake(BEARER), said_first(token_of(now_s, **changes)), token(b"\x01"), GROUPS]
    kafka, chronik = (heard(ports.main, said) for ports in servers)
    assert chronik == kafka


def test_a_login_that_ended_with_its_token_serves_nothing(servers: tuple[Ports, Ports]) -> None:
    """Asked until it is so."""
    for ports in servers:
        with Connection(ports.main) as connection:
            now_s = int(time.time())
            assert lifetime_ms(connection, said_first(token_of(now_s, exp=now_s + 2))) > 0
            while connection.say(GROUPS) is not None:
                pass
