"""How a client connects, from Kafka's client.properties: the protocol, TLS and the login.

`ClientSecurity.of` reads the keys of Kafka's clients: security.protocol, ssl.*, sasl.mechanism and sasl.jaas.config. It
ignores other keys. `secured_client` creates a client from them. `cryptography` is loaded only if TLS is used. No error
and no repr shows a secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError
from chronik.runtime.tls import TlsClient
from chronik.wire.oauthbearer import OAUTHBEARER

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.peer.password_login import PasswordLogin
    from chronik.peer.token_login import TokenLogin, TokenSource
    from chronik.runtime.interfaces import Runtime
    from chronik.wire.sasl import Mechanism

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
HIDDEN: Final = "[hidden]"
ANONYMOUS: Final = "User:ANONYMOUS"


class BadProperties(ClientError):
    """User error: an invalid key of client.properties. `value` is the part of it that may be shown."""

    def __init__(self, key: str, value: str, reason: str) -> None:
        super().__init__(key, value, reason)
        self.key, self.value, self.reason = key, value, reason

    def __str__(self) -> str:
        return f"{self.key}={self.value}: {self.reason}" if self.value else f"{self.key}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    user: str
    password: str = field(repr=False)
    has_token: bool = False  # user and password are a delegation token's id and HMAC

    def one_login(self, drawn: bytes) -> Mechanism:
        """For a synchronous client, whose login may block. `drawn` are wire.sasl_clients.NONCE_CHARS random bytes."""
        from chronik.wire.sasl_clients import mechanism_of

        return mechanism_of(self.mechanism, self.user, self.password, drawn, has_token=self.has_token)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    security_protocol: str = PLAINTEXT
    tls: TlsClient | None = None
    credentials: Credentials | None = None
    token_source: TokenSource | None = None  # for OAUTHBEARER, instead of credentials

    @classmethod
    def of(cls, properties: Mapping[str, str], read: Callable[[str], bytes] | None = None) -> ClientSecurity:
        """`read` returns the bytes of a file. Raises BadProperties."""
        protocol = properties.get("security.protocol", PLAINTEXT).strip().upper()
        if protocol not in PROTOCOLS:
            raise BadProperties("security.protocol", protocol, f"allowed: {', '.join(PROTOCOLS)}")
        by_token = protocol.startswith("SASL") and properties.get(MECHANISM, "").strip().upper() == OAUTHBEARER
        return cls(
            protocol,
            _tls(properties, read) if protocol.endswith("SSL") else None,
            _credentials(properties) if protocol.startswith("SASL") and not by_token else None,
            _token_source(properties) if by_token else None,
        )

    @classmethod
    def load(cls, path: str) -> ClientSecurity:
        """Reads a file in Java's properties syntax. Raises BadProperties."""
        return cls.of(read_properties(path))

    @property
    def principal(self) -> str:
        """The principal that brokers see, unless their rules map a certificate's name to another one."""
        if self.credentials is not None:
            return f"User:{self.credentials.user}"
        if self.tls is not None and self.tls.identity is not None:
            return f"User:{self.tls.identity.subject}"
        return ANONYMOUS

    def login(self, runtime: Runtime) -> PasswordLogin | TokenLogin | None:
        """For a ClusterClient; None if the client does not log in. Close it at the end. Raises BadProperties."""
        if self.token_source is not None:
            return _token_login(runtime, self.token_source)
        known = self.credentials
        return None if known is None else _password_login(runtime, known)


NO_SECURITY: Final = ClientSecurity()


def read_properties(path: str) -> dict[str, str]:
    """The keys and values of a file in Java's properties syntax. Raises BadProperties."""
    from chronik.broker.errors import BadSetting
    from chronik.broker.settings.properties import parse_properties
    from chronik.runtime.real_disk import RealDisk

    try:
        text = RealDisk().read_file(path).decode("utf-8", "replace")
    except OSError as error:
        raise BadProperties(path, "", f"cannot read the file: {error.strerror or error}") from error
    try:
        return parse_properties(text)
    except BadSetting as fault:  # BadSetting shows the value, which may be a secret
        raise BadProperties(path, "", f"{fault.key}: {fault.reason}") from None


@asynccontextmanager
async def secured_client(
    runtime: Runtime, bootstrap: str, security: ClientSecurity, *, client_id: str
) -> AsyncIterator[ClusterClient]:
    """A client whose connections are secured and logged in according to `security`."""
    from chronik.client.routing import ClusterClient
    from chronik.peer.connections import no_login

    login = security.login(runtime)
    try:
        made = ClusterClient(runtime, bootstrap, client_id=client_id, tls=security.tls, login=login or no_login)
        async with made as cluster:
            yield cluster
    finally:
        if login is not None:
            login.close()


def _tls(properties: Mapping[str, str], read: Callable[[str], bytes] | None) -> TlsClient:
    from chronik.runtime.real_disk import RealDisk
    from chronik.security.errors import BadKey
    from chronik.security.tls_keys import client_tls

    try:
        return client_tls(properties.get, read or RealDisk().read_file)
    except BadKey as fault:
        raise BadProperties(fault.key, fault.value, fault.reason) from fault


def _password_login(runtime: Runtime, known: Credentials) -> PasswordLogin:
    from chronik.peer.password_login import PasswordLogin

    return PasswordLogin(runtime, known.mechanism, known.user, known.password, has_token=known.has_token)


def _token_source(properties: Mapping[str, str]) -> TokenSource:
    from chronik.catalogue.jaas import parse_jaas
    from chronik.catalogue.values import InvalidValue
    from chronik.security.errors import BadKey
    from chronik.security.token_source import token_source

    text = properties.get(JAAS, "").strip()
    try:
        return token_source(properties.get, parse_jaas(text).options if text else {})
    except InvalidValue as fault:
        raise BadProperties(JAAS, HIDDEN, str(fault)) from None
    except BadKey as fault:
        raise BadProperties(fault.key, fault.value, fault.reason) from None


def _token_login(runtime: Runtime, source: TokenSource) -> TokenLogin:
    from chronik.security.errors import BadKey
    from chronik.security.token_source import token_login

    try:
        return token_login(runtime, source)
    except BadKey as fault:
        raise BadProperties(fault.key, fault.value, fault.reason) from None


def _credentials(properties: Mapping[str, str]) -> Credentials:
    from chronik.catalogue.jaas import parse_jaas
    from chronik.catalogue.values import InvalidValue
    from chronik.wire.sasl_clients import BY_PASSWORD, MECHANISMS
    from chronik.wire.scram import KINDS

    mechanism = properties.get(MECHANISM, "").strip().upper()
    if mechanism not in BY_PASSWORD:
        raise BadProperties(MECHANISM, mechanism, f"write one of {', '.join(MECHANISMS)}")
    try:
        jaas = parse_jaas(properties.get(JAAS, ""))
    except InvalidValue as fault:
        raise BadProperties(JAAS, HIDDEN, str(fault)) from None
    if jaas.own is None:
        raise BadProperties(JAAS, HIDDEN, 'write username="..." and password="..." into it')
    has_token = jaas.options.get("tokenauth", "").lower() == "true"
    if has_token and mechanism not in KINDS:
        raise BadProperties(MECHANISM, mechanism, f"delegation tokens log in by {' or '.join(KINDS)}")
    return Credentials(mechanism, *jaas.own, has_token=has_token)
