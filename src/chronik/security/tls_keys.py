"""Parses Kafka's ssl.* keys into the TLS settings of a listener or a client. Refuses what Kafka refuses.

Reads nothing itself: `text(key)` returns the value of a key or None, `read(path)` the bytes of a file. Raises BadKey,
which names the key and the path, and never shows a secret. This module imports `cryptography`: import it only where TLS
is configured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from chronik.runtime.tls import PROTOCOLS, ClientAuth, Identity, TlsClient, TlsServer
from chronik.security import stores
from chronik.security.cipher_suites import BadSuites, Suites, choose
from chronik.security.errors import BadKey

T = TypeVar("T")
Text = Callable[[str], str | None]
Read = Callable[[str], bytes]

PEM: Final = "PEM"
STORE_TYPES: Final = ("JKS", "PKCS12", PEM)
HIDDEN: Final = "[hidden]"
FILES: Final = ("ssl.keystore.location", "ssl.truststore.location")


def server_tls(text: Text, read: Read) -> TlsServer:
    """Raises BadKey."""
    text = _set(text)
    identity = _key_store(text, read)
    if identity is None:
        raise BadKey("ssl.keystore.location", "", "a listener with TLS needs a certificate: set ssl.keystore.location")
    auth = _client_auth(text("ssl.client.auth"))
    trust = _trust_store(text, read)
    if auth is not ClientAuth.NONE and not trust:
        raise BadKey("ssl.client.auth", auth, "clients' certificates need a trust store: set ssl.truststore.location")
    suites = _suites(text)
    return TlsServer(identity, trust, auth, suites.protocols, suites.openssl)


def _client_auth(value: str | None) -> ClientAuth:
    try:
        return ClientAuth((value or ClientAuth.NONE).strip())
    except ValueError:
        raise BadKey("ssl.client.auth", value or "", f"allowed: {', '.join(ClientAuth)}") from None


def client_tls(text: Text, read: Read) -> TlsClient:
    """Raises BadKey."""
    algorithm = text("ssl.endpoint.identification.algorithm")
    text = _set(text)
    if algorithm is not None and algorithm.strip().lower() not in ("", "https"):
        raise BadKey("ssl.endpoint.identification.algorithm", algorithm, "allowed: https, or nothing for no check")
    checks_host = algorithm is None or bool(algorithm.strip())
    suites = _suites(text)
    return TlsClient(_key_store(text, read), _trust_store(text, read), checks_host, suites.protocols, suites.openssl)


def _set(text: Text) -> Text:
    """Kafka treats an empty value of these keys as unset."""

    def value(key: str) -> str | None:
        found = text(key)
        return found if found is not None and found.strip() else None

    return value


def _key_store(text: Text, read: Read) -> Identity | None:
    kind, path = _store_type(text, "ssl.keystore.type"), text("ssl.keystore.location")
    password, key_password = text("ssl.keystore.password"), text("ssl.key.password")
    key, chain = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain")
    needless = "a PEM store has no password of its own: remove it; ssl.key.password decrypts the private key"
    if key is not None:
        if kind != PEM:
            raise BadKey("ssl.keystore.key", HIDDEN, f"only for ssl.keystore.type=PEM, which is {kind}")
        if chain is None:
            raise BadKey("ssl.keystore.key", HIDDEN, "ssl.keystore.certificate.chain is missing")
        if path is not None:
            raise BadKey("ssl.keystore.location", path, "ssl.keystore.key is set as well: set one of them")
        if password is not None:
            raise BadKey("ssl.keystore.password", HIDDEN, needless)
        return _loaded("ssl.keystore.key", HIDDEN, lambda: stores.pem_pair(chain, key, key_password))
    if chain is not None:
        raise BadKey("ssl.keystore.certificate.chain", HIDDEN, "ssl.keystore.key is missing")
    if path is None:
        if password is not None:
            raise BadKey("ssl.keystore.password", HIDDEN, "ssl.keystore.location is missing")
        return None
    if kind == PEM:
        if password is not None:
            raise BadKey("ssl.keystore.password", HIDDEN, needless)
        held = _text_of("ssl.keystore.location", path, read)
        return _loaded("ssl.keystore.location", path, lambda: stores.pem_identity(held, key_password))
    if password is None:
        raise BadKey("ssl.keystore.location", path, "ssl.keystore.password is missing")
    data = _bytes_of("ssl.keystore.location", path, read)
    return _loaded("ssl.keystore.location", path, lambda: stores.pkcs12_identity(data, password, path))


def _trust_store(text: Text, read: Read) -> str:
    """The certificates as PEM; empty without a trust store."""
    kind, path = _store_type(text, "ssl.truststore.type"), text("ssl.truststore.location")
    password, inline = text("ssl.truststore.password"), text("ssl.truststore.certificates")
    needless = "a PEM trust store has no password: remove it"
    if inline is not None:
        if kind != PEM:
            raise BadKey("ssl.truststore.certificates", HIDDEN, f"only for ssl.truststore.type=PEM, which is {kind}")
        if path is not None:
            raise BadKey("ssl.truststore.location", path, "ssl.truststore.certificates is set as well: set one of them")
        if password is not None:
            raise BadKey("ssl.truststore.password", HIDDEN, needless)
        return stores.certificates_pem(
            _loaded("ssl.truststore.certificates", HIDDEN, lambda: stores.pem_certificates(inline))
        )
    if path is None:
        if password is not None:
            raise BadKey("ssl.truststore.password", HIDDEN, "ssl.truststore.location is missing")
        return ""
    if kind == PEM:
        if password is not None:
            raise BadKey("ssl.truststore.password", HIDDEN, needless)
        held = _text_of("ssl.truststore.location", path, read)
        return stores.certificates_pem(_loaded("ssl.truststore.location", path, lambda: stores.pem_certificates(held)))
    data = _bytes_of("ssl.truststore.location", path, read)
    return stores.certificates_pem(
        _loaded("ssl.truststore.location", path, lambda: stores.pkcs12_certificates(data, password, path))
    )


def _store_type(text: Text, key: str) -> str:
    kind = (text(key) or STORE_TYPES[0]).strip().upper()
    if kind not in STORE_TYPES:
        raise BadKey(key, kind, f"allowed: {', '.join(STORE_TYPES)}")
    return kind


def _suites(text: Text) -> Suites:
    protocols = _list(text("ssl.enabled.protocols")) or PROTOCOLS
    for each in protocols:
        if each not in PROTOCOLS:
            raise BadKey("ssl.enabled.protocols", ",".join(protocols), f"allowed: {', '.join(PROTOCOLS)}")
    names = _list(text("ssl.cipher.suites"))
    try:
        return choose(names, protocols)
    except BadSuites as fault:
        raise BadKey("ssl.cipher.suites", ",".join(names), str(fault)) from None


def _list(value: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in (value or "").split(",") if each.strip())


def _loaded(key: str, shown: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except stores.BadStore as fault:
        raise BadKey(key, shown, str(fault)) from None


def _bytes_of(key: str, path: str, read: Read) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise BadKey(key, path, f"cannot read the file: {error.strerror or error}") from error


def _text_of(key: str, path: str, read: Read) -> str:
    return _bytes_of(key, path, read).decode("utf-8", "replace")
