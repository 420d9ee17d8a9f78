"""How a client reaches a cluster, from Kafka's client.properties: the protocol, TLS and the login.

`ClientSecurity.of` takes the keys of Kafka's clients: security.protocol, ssl.*, sasl.mechanism and sasl.jaas.config. It
leaves other keys alone. `cryptography` is loaded only if TLS is asked for. No error and no repr shows a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError
from chronik.runtime.tls import TlsClient
from chronik.wire.oauthbearer import OAUTHBEARER

if TYPE_CHECKING:
    from chronik.peer.password_login import PasswordLogin
    from chronik.peer.token_login import TokenLogin, TokenSource
    from chronik.runtime.interfaces import Runtime

PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"


class BadProperties(ClientError):
    """The user's: a key of client.properties that cannot be used."""


@dataclass(frozen=True, slots=True)
class Credentials:
    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    security_protocol: str = PLAINTEXT
    tls: TlsClient | None = None
    credentials: Credentials | None = None
    token_source: TokenSource | None = None  # for OAUTHBEARER, instead of credentials

    @classmethod
    def of(cls, properties: Mapping[str, str], read: Callable[[str], bytes] | None = None) -> ClientSecurity:
        """`read` gives the bytes of a file. Raises BadProperties."""
        protocol = properties.get("security.protocol", PLAINTEXT).strip().upper()
        if protocol not in PROTOCOLS:
            raise BadProperties(f"security.protocol={protocol}: allowed: {', '.join(PROTOCOLS)}")
        by_token = protocol.startswith("SASL") and properties.get(MECHANISM, "").strip().upper() == OAUTHBEARER
        return cls(
            protocol,
            _tls(properties, read) if protocol.endswith("SSL") else None,
            _credentials(properties) if protocol.startswith("SASL") and not by_token else None,
            _token_source(properties) if by_token else None,
        )

    @classmethod
    def load(cls, path: str) -> ClientSecurity:
        """Of a file in Java's properties syntax. Raises BadProperties."""
        from chronik.broker.settings.properties import parse_properties
        from chronik.runtime.real_disk import RealDisk

        try:
            text = RealDisk().read_file(path).decode("utf-8", "replace")
        except OSError as error:
            raise BadProperties(f"cannot read {path}: {error.strerror or error}") from error
        return cls.of(parse_properties(text))

    def login(self, runtime: Runtime) -> PasswordLogin | TokenLogin | None:
        """For a ClusterClient; None if the client does not log in. Close it at the end. Raises BadProperties."""
        from chronik.peer.password_login import PasswordLogin

        if self.token_source is not None:
            return _token_login(runtime, self.token_source)
        known = self.credentials
        return None if known is None else PasswordLogin(runtime, known.mechanism, known.user, known.password)


NO_SECURITY: Final = ClientSecurity()


def _tls(properties: Mapping[str, str], read: Callable[[str], bytes] | None) -> TlsClient:
    from chronik.runtime.real_disk import RealDisk
    from chronik.security.errors import BadKey
    from chronik.security.tls_keys import client_tls

    try:
        return client_tls(properties.get, read or RealDisk().read_file)
    except BadKey as fault:
        raise BadProperties(str(fault)) from fault


def _token_source(properties: Mapping[str, str]) -> TokenSource:
    from chronik.catalogue.jaas import parse_jaas
    from chronik.catalogue.values import InvalidValue
    from chronik.security.errors import BadKey
    from chronik.security.token_source import token_source

    text = properties.get(JAAS, "").strip()
    try:
        return token_source(properties.get, parse_jaas(text).options if text else {})
    except InvalidValue as fault:
        raise BadProperties(f"{JAAS}: {fault}") from None
    except BadKey as fault:
        raise BadProperties(str(fault)) from None


def _token_login(runtime: Runtime, source: TokenSource) -> TokenLogin:
    from chronik.security.errors import BadKey
    from chronik.security.token_source import token_login

    try:
        return token_login(runtime, source)
    except BadKey as fault:
        raise BadProperties(str(fault)) from None


def _credentials(properties: Mapping[str, str]) -> Credentials:
    from chronik.catalogue.jaas import parse_jaas
    from chronik.catalogue.values import InvalidValue
    from chronik.wire.sasl_clients import MECHANISMS

    mechanism = properties.get(MECHANISM, "").strip().upper()
    if mechanism not in MECHANISMS:
        raise BadProperties(f"{MECHANISM}={mechanism}: write one of {', '.join(MECHANISMS)}")
    try:
        jaas = parse_jaas(properties.get(JAAS, ""))
    except InvalidValue as fault:
        raise BadProperties(f"{JAAS}: {fault}") from None
    if jaas.own is None:
        raise BadProperties(f'{JAAS}: write username="..." and password="..." into it')
    return Credentials(mechanism, *jaas.own)
