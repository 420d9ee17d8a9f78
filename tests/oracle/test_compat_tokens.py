"""Delegation tokens: Chronik's responses in every error and state are those of Kafka 4.3.1.

Both servers get the same conversation. Ids, secrets and moments are drawn by the server: secrets are recomputed from
the ids, ids are numbered, and moments become distances. Everything else is compared field by field, in every version.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from chronik.broker.compatibility import DIFFERENCES
from chronik.broker.settings.access import STANDARD
from chronik.testing import Cluster
from chronik.testing.ports import free_ports
from chronik.wire.compiler import decode
from chronik.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from chronik.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from chronik.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from chronik.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from chronik.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from chronik.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from chronik.wire.notation import Request, Response, Struct
from chronik.wire.sasl_clients import ScramLogin
from chronik.wire.scram import KINDS
from tests.oracle.kafka_server import KafkaServer
from tests.oracle.test_compat_logins import Connection, handshake, settings_of, token

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.xdist_group("compat")]

KEY = "a key that both servers share"
MINUTE_MS, DAY_MS = 60_000, 24 * 60 * 60 * 1000
NEAR_MS = 5 * MINUTE_MS  # by which a distance from now may differ: a slow machine takes time
PRINCIPALS = ("admin", "alice", "bob")
PASSWORDS = {"admin": "a", "alice": "secret", "bob": "geheim"}
FLEXIBLE = {38: 2, 39: 2, 40: 2, 41: 2, 30: 2}


def made_settings(main: int, plain: int, *, has_key: bool) -> dict[str, str]:
    """The second listener of the logins' servers has no logins here."""
    made = settings_of(main, plain)
    made["listener.security.protocol.map"] = "MAIN:SASL_PLAINTEXT,SHORT:PLAINTEXT,CONTROLLER:PLAINTEXT"
    made = {key: value for key, value in made.items() if not key.startswith("listener.name.short.")}
    made |= {"authorizer.class.name": STANDARD, "super.users": "User:admin;User:ANONYMOUS"}
    return made | ({"delegation.token.secret.key": KEY} if has_key else {})


class KafkaWithTokens(KafkaServer):
    plain_port = 0
    has_key = True

    def _properties(self, controller_port: int) -> str:
        [self.plain_port] = free_ports(1)
        made = made_settings(self.port, self.plain_port, has_key=self.has_key)
        made["listeners"] += f",CONTROLLER://127.0.0.1:{controller_port}"
        self._settings = made
        return super()._properties(controller_port)

    def _awaited_ports(self) -> tuple[int, ...]:
        return (self.port, self.plain_port)


class KafkaWithoutTokens(KafkaWithTokens):
    has_key = False


Ports = tuple[int, int]


def pair(kind: type[KafkaWithTokens], folder: Any, stack: ExitStack) -> tuple[Ports, Ports]:
    main, plain = free_ports(2)
    kafka = stack.enter_context(kind(folder))
    stack.enter_context(Cluster(settings=made_settings(main, plain, has_key=kind.has_key)))
    return (kafka.port, kafka.plain_port), (main, plain)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ports, Ports]]:
    with ExitStack() as stack:
        yield pair(KafkaWithTokens, tmp_path_factory.mktemp("tokens"), stack)


class Caller:
    """One connection, with or without a user. Requests of every API have the same form of header."""

    def __init__(self, port: int, user: str | None = None) -> None:
        self.connection = Connection(port)
        if user is not None:
            self.connection.say(handshake())
            answer = self.connection.say(token(f"\0{user}\0{PASSWORDS[user]}".encode()))
            assert answer is not None
            assert not decode(SaslAuthenticateResponse, 2, answer[1:]).error_code

    def ask(self, request: Request, response: type[Response], version: int) -> Any:
        answer = self.connection.say((request, version))
        assert answer is not None, f"{request} v{version} ends the connection"
        return decode(response, version, answer[1 if version >= FLEXIBLE[request.api_key] else 0 :])


class Told:
    """One server's responses. Its tokens are numbered in the order of their creation."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.lines: list[Any] = []
        self.callers = {name: Caller(ports[0], name) for name in PRINCIPALS}
        self.callers["nobody"] = Caller(ports[1])
        self.ids: list[str] = []
        self.secrets: list[bytes] = []
        self.version: int | None = None  # None: the last

    def note(self, what: str, response: Any) -> None:
        self.lines.append((what, self._shown(response)))

    def create(self, who: str, owner: str | None = None, **more: Any) -> None:
        renewers = more.pop("renewers", ())
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else "User",
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=more.pop("lifetime_ms", -1),
        )
        version = self._version(3)
        made = self.callers[who].ask(request, CreateDelegationTokenResponse, version)
        if not made.error_code:
            self.ids.append(made.token_id)
            self.secrets.append(bytes(made.hmac))
            assert made.hmac == hmac.digest(KEY.encode(), made.token_id.encode(), "sha512")
            self._await(made.token_id, made.expiry_timestamp_ms)
        self.note(f"{who} creates v{version} for {owner} {renewers}", made)

    def _await(self, token_id: str, expiry_ms: int | None) -> None:
        """Kafka's brokers and even its controller learn of a change a moment later: until then a token that was removed
        can be renewed. None: the token is gone."""
        request = DescribeDelegationTokenRequest(owners=None)
        while True:
            found = self.callers["admin"].ask(request, DescribeDelegationTokenResponse, 3).tokens
            if {each.token_id: each.expiry_timestamp for each in found}.get(token_id) == expiry_ms:
                return

    def renew(self, who: str, number: int | bytes, period_ms: int) -> None:
        secret = number if isinstance(number, bytes) else self.secrets[number]
        request = RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period_ms)
        version = self._version(2)
        response = self.callers[who].ask(request, RenewDelegationTokenResponse, version)
        if not response.error_code:
            self._await(self.ids[self.secrets.index(secret)], response.expiry_timestamp_ms)
        self.note(f"{who} renews v{version} {number!r} {period_ms}", response)

    def expire(self, who: str, number: int | bytes, period_ms: int) -> None:
        secret = number if isinstance(number, bytes) else self.secrets[number]
        request = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period_ms)
        version = self._version(2)
        response = self.callers[who].ask(request, ExpireDelegationTokenResponse, version)
        if not response.error_code:
            is_gone = period_ms < 0
            self._await(self.ids[self.secrets.index(secret)], None if is_gone else response.expiry_timestamp_ms)
        self.note(f"{who} expires v{version} {number!r} {period_ms}", response)

    def describe(self, who: str, owners: Sequence[str] | None = None) -> None:
        asked = None
        if owners is not None:
            asked = [DescribeDelegationTokenOwner(principal_type="User", principal_name=each) for each in owners]
        version = self._version(3)
        request = DescribeDelegationTokenRequest(owners=asked)
        response = self.callers[who].ask(request, DescribeDelegationTokenResponse, version)
        response.tokens = [each for each in response.tokens if each.token_id in self.ids]  # not of other tests
        response.tokens.sort(key=lambda each: self.ids.index(each.token_id))
        self.note(f"{who} describes v{version} {owners}", response)

    def log_in(self, number: int, kind: str) -> str:
        """As a separate caller."""
        while True:
            connection = Connection(self.ports[0])
            connection.say(handshake(kind))
            password = base64.b64encode(self.secrets[number]).decode()
            login = ScramLogin(KINDS[kind], self.ids[number], password, "n" * 32, has_token=True)
            answer = connection.say(token(login.first()))
            assert answer is not None
            challenge = decode(SaslAuthenticateResponse, 2, answer[1:])
            if not challenge.error_code:
                break
        proof = login.answer(bytes(challenge.auth_bytes))
        assert isinstance(proof, bytes)
        answer = connection.say(token(proof))
        assert answer is not None
        final = decode(SaslAuthenticateResponse, 2, answer[1:])
        assert login.answer(bytes(final.auth_bytes)) is None
        lifetime_days = round(final.session_lifetime_ms / DAY_MS)
        self.lines.append((f"login {kind}", final.error_code, final.error_message, lifetime_days))
        name = f"token {number} by {kind}"
        self.callers[name] = Caller.__new__(Caller)
        self.callers[name].connection = connection
        return name

    def _version(self, last: int) -> int:
        return last if self.version is None else min(self.version, last)

    def _shown(self, value: Any, name: str = "") -> Any:
        if isinstance(value, Struct):
            return {each: self._shown(getattr(value, each), each) for each in type(value).__annotations__}
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if name == "token_id" and value:
            return self.ids.index(value)
        if name == "hmac" and value:
            return self.secrets.index(bytes(value))
        if "timestamp" in name and value > 0:
            return round((value - time.time() * 1000) / NEAR_MS)
        return bytes(value) if isinstance(value, memoryview) else value


def compare(servers: tuple[Ports, Ports], talk: Callable[[Told], None]) -> None:
    found = []
    for ports in servers:
        told = Told(ports)
        talk(told)
        found.append(told.lines)
    kafka, chronik = found
    assert chronik == kafka


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_unencrypted_connection_without_a_login_is_refused(servers: tuple[Ports, Ports], version: int) -> None:
    def talk(told: Told) -> None:
        told.version = version
        told.create("nobody")
        told.renew("nobody", b"x", -1)
        told.expire("nobody", b"x", -1)
        told.describe("nobody")

    compare(servers, talk)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_tokens_are_created_and_described_alike(servers: tuple[Ports, Ports], version: int) -> None:
    def talk(told: Told) -> None:
        told.version = version
        told.create("alice")
        told.create("alice", renewers=[("User", "bob"), ("User", "carol")])
        told.create("alice", renewers=[("Group", "bob")])
        told.create("alice", renewers=[("User", "x"), ("", "")])
        for lifetime_ms in (0, -5, 60 * MINUTE_MS, 3 * DAY_MS, 100 * DAY_MS, (1 << 63) - 1):
            told.create("bob", lifetime_ms=lifetime_ms)
        if version == 3:
            told.create("alice", "bob")
            told.create("alice", "alice")
            told.create("alice", "")
            told.create("alice", "bob", renewers=[("Group", "bob")])
            told.create("admin", "bob")
        count = len(told.ids)
        for who in PRINCIPALS:
            for owners in (None, [], ["alice"], ["bob"], ["carol"], ["nobody"], ["alice", "bob", "alice"]):
                told.describe(who, owners)
        for number in range(count):
            told.expire("bob" if number > 1 else "alice", number, -1)

    compare(servers, talk)


@pytest.mark.parametrize("version", [1, 2])
def test_tokens_are_renewed_and_expired_alike(servers: tuple[Ports, Ports], version: int) -> None:
    def talk(told: Told) -> None:
        told.version = version
        told.create("alice", renewers=[("User", "bob")])
        told.create("alice", lifetime_ms=3 * DAY_MS)
        for change in (told.renew, told.expire):
            change("alice", b"unknown", 1)
            change("alice", b"", 1)
            change("bob", 1, 2 * 60 * MINUTE_MS)
            change("admin", 1, 2 * 60 * MINUTE_MS)
            change("bob", 0, 2 * 60 * MINUTE_MS)
            change("alice", 0, 4 * 60 * MINUTE_MS)
            change("alice", 1, 5 * DAY_MS)
            change("alice", 1, 100 * DAY_MS)
        told.renew("alice", 0, 0)
        told.renew("alice", 0, -1)
        told.renew("alice", 0, (1 << 63) - 1)
        told.expire("alice", 0, -1)
        told.renew("alice", 0, -1)
        told.expire("alice", 0, -1)
        told.expire("alice", 1, -2)

    compare(servers, talk)


def test_an_expired_token_is_refused_in_the_same_order(servers: tuple[Ports, Ports]) -> None:
    def talk(told: Told) -> None:
        told.create("alice", lifetime_ms=1)
        told.create("alice")
        told.expire("alice", 1, 0)
        time.sleep(0.01)  # both have expired before this millisecond
        for number in (0, 1):
            told.renew("alice", number, -1)
            told.renew("bob", number, -1)
            told.expire("alice", number, MINUTE_MS)
            told.expire("bob", number, MINUTE_MS)
            told.expire("bob", number, -1)
            told.expire("alice", number, -1)
            told.renew("alice", number, -1)

    compare(servers, talk)


@pytest.mark.parametrize("kind", KINDS)
def test_who_logs_in_with_a_token_is_its_owner_and_gets_no_tokens(servers: tuple[Ports, Ports], kind: str) -> None:
    def talk(told: Told) -> None:
        told.create("alice", renewers=[("User", "bob")])
        name = told.log_in(0, kind)
        told.create(name)
        told.create(name, "bob")
        told.renew(name, 0, -1)
        told.expire(name, 0, -1)
        told.describe(name)
        told.expire("alice", 0, -1)

    compare(servers, talk)


def test_permissions_are_those_of_kafka(servers: tuple[Ports, Ports]) -> None:
    def talk(told: Told) -> None:
        told.create("alice")
        told.describe("bob")
        rules = [("User:bob", 13, 7, "User:alice"), ("User:bob", 14, 7, "User:alice")]
        allow(told, *rules[:1])
        told.create("bob", "alice")
        told.describe("bob")
        told.renew("bob", 1, -1)
        told.expire("alice", 1, -1)
        allow(told, *rules[1:])
        while True:  # a broker of Kafka learns of a rule a moment later
            told.describe("bob")
            if told.lines.pop()[1]["tokens"]:
                break
        told.describe("bob")
        told.describe("bob", ["alice"])
        told.describe("bob", ["bob"])
        told.create("alice")
        told.expire("alice", 0, -1)
        told.expire("alice", 2, -1)

    compare(servers, talk)


def allow(told: Told, *rules: tuple[str, int, int, str]) -> None:
    creations = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=3,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=3,
        )
        for principal, operation, kind, name in rules
    ]
    response = told.callers["admin"].ask(CreateAclsRequest(creations=creations), CreateAclsResponse, 3)
    assert {each.error_code for each in response.results} == {0}


def test_without_a_key_tokens_are_off_in_both(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ExitStack() as stack:
        servers = pair(KafkaWithoutTokens, tmp_path_factory.mktemp("off"), stack)

        def talk(told: Told) -> None:
            for version in (1, 2, 3):
                told.version = version
                for who in ("alice", "nobody"):
                    told.create(who)
                    told.create(who, renewers=[("Group", "g")])
                    told.renew(who, b"x", -1)
                    told.expire(who, b"x", -1)
                    told.describe(who)

        compare(servers, talk)


def test_a_right_to_create_tokens_makes_nobody_a_super_user_here(servers: tuple[Ports, Ports]) -> None:
    assert "tokens-of-super-users" in DIFFERENCES
    found = []
    for ports in servers:
        told = Told(ports)
        allow(told, ("User:bob", 13, 7, "User:admin"), ("User:bob", 13, 7, "Group:g"))
        errors = []
        for kind, name in (("User", "admin"), ("Group", "g")):
            request = CreateDelegationTokenRequest(
                owner_principal_type=kind, owner_principal_name=name, renewers=[], max_lifetime_ms=-1
            )
            errors.append(told.callers["bob"].ask(request, CreateDelegationTokenResponse, 3).error_code)
        found.append(errors)
    assert found == [[0, 0], [65, 67]]


def test_only_kafka_tells_whether_a_token_exists(servers: tuple[Ports, Ports]) -> None:
    assert "unknown-tokens" in DIFFERENCES
    found = []
    for port, _ in servers:
        connection = Connection(port)
        connection.say(handshake("SCRAM-SHA-512"))
        answer = connection.say(token(b"n,,n=nobody,r=abc,tokenauth=true"))
        assert answer is not None
        found.append(decode(SaslAuthenticateResponse, 2, answer[1:]).error_code)
    assert found == [58, 0]
