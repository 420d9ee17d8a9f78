"""Parses Kafka's sasl.oauthbearer.* keys into the token source of a client or a node.

The keys are those of KIP-768 and KIP-1139; the older form in sasl.jaas.config is supported too. Opens nothing:
`text(key)` returns the value of a key or None. Raises BadKey, which never shows a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from chronik.peer.http import TIMEOUT_MS, Url, allowed_url
from chronik.peer.token_login import TokenLogin, TokenSource
from chronik.security.errors import BadKey
from chronik.wire.oauthbearer import bearer_first

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Runtime
    from chronik.runtime.tls import TlsClient

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a key
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a key
SCOPE: Final = "sasl.oauthbearer.scope"
READ_TIMEOUT: Final = "sasl.login.read.timeout.ms"
JAAS: Final = "sasl.jaas.config"
TRUST: Final = (
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
EXTENSION_PREFIX: Final = "extension_"

Text = Callable[[str], str | None]
Read = Callable[[str], bytes]


def token_source(text: Text, options: Mapping[str, str]) -> TokenSource:
    """`options` are those of sasl.jaas.config. Raises BadKey."""
    extensions = {
        name.removeprefix(EXTENSION_PREFIX): value
        for name, value in options.items()
        if name.startswith(EXTENSION_PREFIX)
    }
    try:
        bearer_first("token", extensions=extensions)
    except ValueError as fault:
        raise BadKey(JAAS, "[hidden]", str(fault)) from None
    address = (text(TOKEN_URL) or "").strip()
    if not address:
        raise BadKey(TOKEN_URL, "", "OAUTHBEARER needs the address of a token endpoint, or file:///PATH of a token")
    path = file_of(TOKEN_URL, address)
    if path is not None:
        return TokenSource(path=path, extensions=extensions)
    url = url_of(TOKEN_URL, address)
    client_id = text(CLIENT_ID) or options.get("clientId", "")
    secret = text(CLIENT_SECRET) or options.get("clientSecret", "")
    if not client_id or not secret:
        missing = CLIENT_SECRET if client_id else CLIENT_ID
        raise BadKey(missing, "", "the token endpoint asks for the id and the secret of a client")
    return TokenSource(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=text(SCOPE) or options.get("scope", ""),
        trust=trust_of(text, options),
        extensions=extensions,
        timeout_ms=_timeout_ms(text),
    )


def file_of(key: str, address: str) -> str | None:
    """The path of a file: URL; None for another one. Raises BadKey."""
    if not address.lower().startswith("file:"):
        return None
    parts = urlsplit(address)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or "\0" in path or parts.query or parts.fragment:
        raise BadKey(key, address, "write file:///PATH with the whole path")
    return path


def url_of(key: str, address: str) -> Url:
    """Raises BadKey."""
    try:
        return allowed_url(address)
    except ValueError as reason:
        shown = "[hidden]" if "@" in address else address.partition("?")[0]
        raise BadKey(key, shown, str(reason)) from None


def trust_of(text: Text, options: Mapping[str, str]) -> dict[str, str]:
    """A trust store in sasl.jaas.config overrides that of the configuration; without one, the system's is used."""
    own = {key: options[key] for key in TRUST if key in options}
    return own or {key: found for key in TRUST if (found := text(key)) is not None}


def tls_of(url: Url, trust: Mapping[str, str], read: Read) -> TlsClient | None:
    """An identity provider's host is always verified, and this node's own certificate is not sent to it."""
    if url.scheme != "https":
        return None
    from chronik.security.tls_keys import client_tls

    return client_tls(trust.get, read)


def token_login(runtime: Runtime, source: TokenSource) -> TokenLogin:
    """Raises BadKey if the trust store is unusable."""

    def tls() -> TlsClient | None:
        return None if source.url is None else tls_of(source.url, source.trust, runtime.disk.read_file)

    tls()
    return TokenLogin(runtime, source, tls)


def _timeout_ms(text: Text) -> int:
    given = (text(READ_TIMEOUT) or "").strip()
    try:
        timeout_ms = int(given) if given else TIMEOUT_MS
    except ValueError:
        timeout_ms = 0
    if timeout_ms <= 0:
        raise BadKey(READ_TIMEOUT, given, "write a number of milliseconds, 1 or more")
    return timeout_ms
