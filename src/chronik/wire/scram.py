"""SCRAM (RFC 5802) without a connection: its messages as text, and the values that both sides compute.

    client-first    n,,n=user,r=CLIENT-NONCE
    server-first    r=CLIENT-NONCE+SERVER-NONCE,s=SALT,i=ITERATIONS
    client-final    c=biws,r=CLIENT-NONCE+SERVER-NONCE,p=PROOF
    server-final    v=SIGNATURE

As in Kafka, passwords are UTF-8 without SASLprep, and channel binding is not offered. An invalid message raises
BadScramMessage, whose text never quotes the message, because that may contain a secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384  # Kafka's bound for stored credentials; more would slow clients down
TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 - an extension of Kafka's: the user is the id of a delegation token
NO_BINDING: Final = b"n,,"
# Kafka's user names are unbounded; matching longer messages would take milliseconds.
MESSAGE_BYTES_MAX: Final = 16 * 1024

_NAME = r"(?:[^\x00=,]|=2C|=3D)+"
_VALUE = r"[^\x00,]+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)?"
_MORE = rf"(?:,[A-Za-z]+={_VALUE})*"
_client_first = re.compile(
    rf"(?P<binding>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_NAME}),r=(?P<nonce>{_NONCE})(?P<more>{_MORE}))"
)
_server_first = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+){_MORE}"
)
_client_final = re.compile(rf"(?P<bare>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_MORE}),p=(?P<proof>{_BASE64})")
_server_final = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_MORE}")


class BadScramMessage(Exception):
    """The bytes are not the expected message."""


class ScramKind(NamedTuple):
    name: str  # as in sasl.enabled.mechanisms
    number: int  # in AlterUserScramCredentials
    digest: str  # hashlib's name
    size_bytes: int


SHA_256: Final = ScramKind("SCRAM-SHA-256", 1, "sha256", 32)
SHA_512: Final = ScramKind("SCRAM-SHA-512", 2, "sha512", 64)
KINDS: Final = {kind.name: kind for kind in (SHA_256, SHA_512)}
KIND_OF: Final = {kind.number: kind for kind in KINDS.values()}


class Keys(NamedTuple):
    """The part of a password that a server stores: enough to verify a client and to prove itself, not to log in."""

    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return "Keys([hidden])"


# --- computations


def salted_password(kind: ScramKind, password: str, salt: bytes, iterations: int) -> bytes:
    """Deliberately slow, taking milliseconds: compute it off the event loop."""
    return hashlib.pbkdf2_hmac(kind.digest, password.encode(), salt, iterations)


def keys_of(kind: ScramKind, salted: bytes) -> Keys:
    return Keys(hashlib.new(kind.digest, _client_key(kind, salted)).digest(), _server_key(kind, salted))


def client_proof(kind: ScramKind, salted: bytes, auth_message: bytes) -> bytes:
    key = _client_key(kind, salted)
    stored_key = hashlib.new(kind.digest, key).digest()
    return _xor(key, hmac.digest(stored_key, auth_message, kind.digest))


def is_proof(kind: ScramKind, keys: Keys, auth_message: bytes, proof: bytes) -> bool:
    """Whether the proof was computed with the password."""
    signature = hmac.digest(keys.stored_key, auth_message, kind.digest)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(kind.digest, client_key).digest(), keys.stored_key)


def server_signature(kind: ScramKind, keys: Keys, auth_message: bytes) -> bytes:
    return hmac.digest(keys.server_key, auth_message, kind.digest)


def signature_by_salted(kind: ScramKind, salted: bytes, auth_message: bytes) -> bytes:
    """The server's signature, computed by a client for verification."""
    return hmac.digest(_server_key(kind, salted), auth_message, kind.digest)


def _client_key(kind: ScramKind, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", kind.digest)


def _server_key(kind: ScramKind, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", kind.digest)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


# --- messages


class ClientFirst(NamedTuple):
    user: str
    authzid: str  # "" if the client requests no other identity
    nonce: str
    extensions: dict[str, str]
    binding: bytes  # the GS2 header
    bare: bytes


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    binding: bytes
    nonce: str
    bare: bytes  # without the proof
    proof: bytes

    def __repr__(self) -> str:
        return "ClientFinal([hidden])"


def read_client_first(data: bytes) -> ClientFirst:
    found = _matched(_client_first, data, "client-first")
    more = [item.partition("=") for item in found["more"].split(",")[1:]]
    return ClientFirst(
        _unescaped(found["user"]),
        _unescaped(found["authzid"] or ""),
        found["nonce"],
        {name: value for name, _, value in more},
        found["binding"].encode(),
        found["bare"].encode(),
    )


def read_server_first(data: bytes) -> ServerFirst:
    found = _matched(_server_first, data, "server-first")
    return ServerFirst(found["nonce"], _decoded(found["salt"]), int(found["iterations"][:10]))


def read_client_final(data: bytes) -> ClientFinal:
    found = _matched(_client_final, data, "client-final")
    return ClientFinal(_decoded(found["binding"]), found["nonce"], found["bare"].encode(), _decoded(found["proof"]))


def read_server_final(data: bytes) -> bytes:
    """The server's signature. If the server refuses, raises BadScramMessage with its error."""
    found = _matched(_server_final, data, "server-final")
    if found["error"] is not None:
        raise BadScramMessage(f"the broker refuses: {found['error']!r}")
    return _decoded(found["signature"])


def client_first_bare(user: str, nonce: str, *, has_token: bool = False) -> bytes:
    """`has_token`: the user is the id of a delegation token."""
    extension = f",{TOKEN_AUTH}=true" if has_token else ""
    return f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{extension}".encode()


def server_first(nonce: str, salt: bytes, iterations: int) -> bytes:
    return f"r={nonce},s={_encoded(salt)},i={iterations}".encode()


def client_final_bare(nonce: str) -> bytes:
    return f"c={_encoded(NO_BINDING)},r={nonce}".encode()


def with_proof(bare: bytes, proof: bytes) -> bytes:
    return bare + f",p={_encoded(proof)}".encode()


def server_final(signature: bytes) -> bytes:
    return f"v={_encoded(signature)}".encode()


def _matched(pattern: re.Pattern[str], data: bytes, name: str) -> re.Match[str]:
    try:
        found = pattern.fullmatch(data.decode()) if len(data) <= MESSAGE_BYTES_MAX else None
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise BadScramMessage(f"{len(data)} bytes are not a {name} message of SCRAM")
    return found


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:  # excluded by the patterns
        raise BadScramMessage("not base64") from None
