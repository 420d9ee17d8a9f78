"""What a listener or a client needs for TLS, as values: certificates, private key, trust and rules. No I/O.

Everything is PEM text and already decrypted; `chronik.security` makes these values from Kafka's keys. The network makes
contexts of them (`tls_contexts`). Two equal values mean the same, so contexts are kept by value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

PROTOCOLS = ("TLSv1.2", "TLSv1.3")


class ClientAuth(StrEnum):
    """By the words of ssl.client.auth."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate chain with its key. `subject` is the first certificate's, as Java writes it."""

    chain_pem: str
    key_pem: str = field(repr=False)
    subject: str
    names: tuple[str, ...] = ()  # its subject alternative names, sorted
    not_after_ms: int = 0  # wall time at which the first certificate of the chain to expire does so


@dataclass(frozen=True, slots=True)
class TlsServer:
    """`ciphers` is OpenSSL's list for TLS 1.2; empty for its default."""

    identity: Identity
    trust_pem: str = ""  # whose certificates clients may present
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: str = ""


@dataclass(frozen=True, slots=True)
class TlsClient:
    """`identity` is presented if the server asks for it. An empty `trust_pem` stands for the system's authorities."""

    identity: Identity | None = None
    trust_pem: str = ""
    checks_host: bool = True  # whether the server's certificate must name the host that is connected to
    protocols: tuple[str, ...] = PROTOCOLS
    ciphers: str = ""
