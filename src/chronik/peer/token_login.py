"""Logs in with OAUTHBEARER: a `Login` for connections of clients and nodes that fetches tokens on demand.

A token comes from a file, which is read again after changes, or from a token endpoint by the client credentials grant
(RFC 6749). It is cached until RENEWED_AT of its lifetime has passed; concurrent connections share one request. Nothing
here verifies a token: the broker does. No repr and no error shows a secret.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, urlencode

from chronik.peer.http import TIMEOUT_MS, Url, post
from chronik.wire.oauthbearer import OAUTHBEARER, BearerLogin, bearer_first
from chronik.wire.peer_errors import LoginFailed

if TYPE_CHECKING:
    from chronik.peer.addresses import Address
    from chronik.runtime.interfaces import Runtime
    from chronik.runtime.tls import TlsClient

RENEWED_AT: Final = 0.8  # share of a token's lifetime, like sasl.login.refresh.window.factor
FILE_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TokenSource:
    """The source of tokens: `path` of a file, or the endpoint at `url`."""

    path: str = ""
    url: Url | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    trust: Mapping[str, str] = field(default_factory=dict, repr=False)  # ssl.truststore.*; empty: the system's
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_ms: int = TIMEOUT_MS

    def __str__(self) -> str:
        return self.path if self.url is None else self.url.shown


class TokenLogin:
    """Close it at the end."""

    mechanism = OAUTHBEARER

    def __init__(self, runtime: Runtime, source: TokenSource, tls: Callable[[], TlsClient | None]) -> None:
        """`tls` is called for each endpoint request, because its files may have changed."""
        self._runtime, self._source, self._tls = runtime, source, tls
        self._kept = ""  # the latest token
        self._renewed_ns = 0  # when the next one is due
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"TokenLogin({self._source})"

    def __call__(self, address: Address) -> _TokenMechanism:
        return _TokenMechanism(self)

    def close(self) -> None:
        """Nothing stays open between logins."""

    async def first(self) -> bytes:
        """The client's first message. Raises LoginFailed, or Unreachable if the endpoint does not answer."""
        async with self._turn:
            token = await self._token()
        try:
            return bearer_first(token, extensions=self._source.extensions)
        except ValueError as fault:
            raise LoginFailed(f"cannot log in with a token of {self._source}: {fault}") from None

    async def _token(self) -> str:
        source = self._source
        if source.url is None:
            return self._of_file()
        clock = self._runtime.clock
        if self._kept and clock.monotonic_ns() < self._renewed_ns:
            return self._kept
        asked_ns = clock.monotonic_ns()
        body = await post(
            self._runtime.network, source.url, self._tls(), _headers(source), _form(source), source.timeout_ms
        )
        self._kept, lifetime_s = read_token_answer(body, str(source))
        self._renewed_ns = asked_ns + int(lifetime_s * RENEWED_AT * 1_000_000_000)
        return self._kept

    def _of_file(self) -> str:
        """Read for each login: it is small, and its owner replaces it before it expires."""
        path = self._source.path
        try:
            data = self._runtime.disk.read_file(path)
            return data[:FILE_BYTES_MAX].decode("ascii").strip()
        except OSError as error:
            raise LoginFailed(f"cannot read the token in {path}: {error.strerror or error}") from None
        except UnicodeDecodeError:
            raise LoginFailed(f"cannot log in with the token in {path}: it is not text") from None


class _TokenMechanism:
    """One login. The token is fetched when the broker has accepted the mechanism."""

    name = OAUTHBEARER

    def __init__(self, login: TokenLogin) -> None:
        self._login = login
        self._mechanism: BearerLogin | None = None  # set once there is a token

    def first(self) -> Awaitable[bytes]:
        return self._first()

    async def _first(self) -> bytes:
        self._mechanism = BearerLogin(await self._login.first())
        return self._mechanism.first()

    def answer(self, challenge: bytes) -> bytes | None:
        assert self._mechanism is not None, "a broker only answers the first message"
        return self._mechanism.answer(challenge)


def read_token_answer(body: bytes, source: str) -> tuple[str, float]:
    """The token and its lifetime in seconds, from an endpoint's response. Raises LoginFailed."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    token = answer.get("access_token") if isinstance(answer, dict) else None
    if not isinstance(token, str) or not token:
        raise LoginFailed(f"{source} answers without an access_token")
    lifetime = answer.get("expires_in", 0)
    is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool)
    return token, min(max(float(lifetime), 0.0), 1e6) if is_number and lifetime == lifetime else 0.0


def _headers(source: TokenSource) -> dict[str, str]:
    """RFC 6749 2.3.1: id and secret are form-encoded before they are joined."""
    pair = f"{quote_plus(source.client_id)}:{quote_plus(source.client_secret)}"
    return {
        "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _form(source: TokenSource) -> bytes:
    fields = {"grant_type": "client_credentials", **({"scope": source.scope} if source.scope else {})}
    return urlencode(fields).encode()
