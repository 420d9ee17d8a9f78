"""TLS settings of a listener or a client, as values: certificates, private key, trust and rules. No I/O.

Everything is decrypted PEM text; `chronik.security` creates these values from Kafka's keys. The network creates
contexts from them (`tls_contexts`). Equal values have the same meaning, so contexts are cached by value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(StrEnum):
    """The values of ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate chain with its key. `subject` is the first certificate's, in Java's format."""

    chain_pem: str
    key_pem: str = field(repr=False)
    subject: str
    names: tuple[str, ...] = ()  # its subject alternative names, sorted
    not_after_ms: int = 0  # earliest expiry of the chain's certificates, in wall time


@dataclass(frozen=True, slots=True)
class TlsServer:
    """`ciphers` is OpenSSL's list for TLS 1.2; empty for its default."""

    identity: Identity
    trust_pem: str = ""  # authorities accepted for client certificates
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: str = ""


@dataclass(frozen=True, slots=True)
class TlsClient:
    """`identity` is presented if the server requests it. An empty `trust_pem` means the system's authorities."""

    identity: Identity | None = None
    trust_pem: str = ""
    checks_host: bool = True  # whether the server's certificate must match the host name
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: str = ""
