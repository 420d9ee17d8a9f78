"""HTTP requests of a node or a client, over its own network: keys of an identity provider, and tokens.

One request per connection, a deadline for the whole request, and a bound on the response. Redirects are followed only
within the same scheme, host and port, and only for GET. `AnswerReader` is the pure part: it parses a response.
`allowed_url` defines which URLs may be used: https anywhere, http only on this machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import urljoin, urlsplit

from chronik.wire.errors import Malformed
from chronik.wire.peer_errors import Unreachable

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Network
    from chronik.runtime.tls import TlsClient

BODY_BYTES_MAX: Final = 1 << 20
HEAD_BYTES_MAX: Final = 64 << 10
TIMEOUT_MS: Final = 10_000
REDIRECTS_MAX: Final = 3
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_status_line = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?")
_field = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n]*?)[ \t]*")
_chunk = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[^\r\n]*)?")
_target = re.compile(r"[!-~]*")  # no space, no control character: a path cannot end the request line


class Url(NamedTuple):
    scheme: str
    host: str
    port: int
    target: str  # path and query

    @property
    def shown(self) -> str:
        """Without the query, which may contain a secret."""
        return f"{self.scheme}://{self.host}:{self.port}{self.target.partition('?')[0]}"


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]  # lower-case name: value; the last one if repeated
    body: bytes


def allowed_url(text: str) -> Url:
    """Raises ValueError with a reason for the operator."""
    if _target.fullmatch(text) is None:
        raise ValueError("it has spaces or characters beyond ASCII")
    parts = urlsplit(text)
    host = parts.hostname or ""
    if parts.scheme not in ("https", "http") or not host:
        raise ValueError("write https://HOST/PATH")
    if parts.scheme == "http" and host not in LOOPBACK:
        raise ValueError("http does not protect what is sent: use https; http is allowed on this machine only")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise ValueError("leave user, password and fragment out of the address")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Url(parts.scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


async def get(network: Network, url: Url, tls: TlsClient | None, timeout_ms: int = TIMEOUT_MS) -> bytes:
    """The body of a 200. Raises Unreachable."""
    for _ in range(REDIRECTS_MAX + 1):
        answer = await _ask(network, url, tls, timeout_ms, _request("GET", url, {}, b""))
        if answer.status not in (301, 302, 303, 307, 308):
            return _good(url, answer)
        url = _redirected(url, answer)
    raise Unreachable(f"{url.shown} redirects more than {REDIRECTS_MAX} times")


async def post(
    network: Network,
    url: Url,
    tls: TlsClient | None,
    headers: Mapping[str, str],
    body: bytes,
    timeout_ms: int = TIMEOUT_MS,
) -> bytes:
    """The body of a 200. A redirect is an error: the posted data is for this URL only. Raises Unreachable."""
    return _good(url, await _ask(network, url, tls, timeout_ms, _request("POST", url, headers, body)))


async def _ask(network: Network, url: Url, tls: TlsClient | None, timeout_ms: int, request: bytes) -> HttpAnswer:
    is_secured = url.scheme == "https"
    if is_secured and tls is None:
        raise Unreachable(f"{url.shown} needs TLS")
    transport = None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            transport, protocol = await network.connect(url.host, url.port, _Exchange, tls if is_secured else None)
            transport.write(request)
            return await cast(_Exchange, protocol).answered
    except TimeoutError:
        raise Unreachable(f"{url.shown} did not answer within {timeout_ms} ms") from None
    except Malformed as fault:
        raise Unreachable(f"{url.shown} does not answer as a web server does: {fault}") from None
    except OSError as error:
        raise Unreachable(f"{url.shown}: {error.strerror or error}") from error
    finally:
        if transport is not None:
            transport.abort()


def _request(method: str, url: Url, headers: Mapping[str, str], body: bytes) -> bytes:
    host = f"[{url.host}]" if ":" in url.host else url.host
    fields = {
        "Host": f"{host}:{url.port}",
        "Accept": "application/json",
        "Connection": "close",
        **headers,
        **({"Content-Length": str(len(body))} if method == "POST" else {}),
    }
    lines = [f"{method} {url.target} HTTP/1.1", *(f"{name}: {text}" for name, text in fields.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + body


def _good(url: Url, answer: HttpAnswer) -> bytes:
    if answer.status != 200:
        raise Unreachable(f"{url.shown} answers with status {answer.status}")
    return answer.body


def _redirected(url: Url, answer: HttpAnswer) -> Url:
    location = answer.headers.get("location", "")
    try:
        there = allowed_url(urljoin(f"{url.scheme}://{url.host}:{url.port}{url.target}", location))
    except ValueError as reason:
        raise Unreachable(f"{url.shown} redirects to an address that cannot be used: {reason}") from None
    if there[:3] != url[:3]:
        raise Unreachable(f"{url.shown} redirects to {there.host}:{there.port}: only its own host is followed")
    return there


class AnswerReader:
    """Parses bytes into one response. Raises Malformed. Memory is bounded by HEAD_BYTES_MAX and `body_bytes_max`."""

    def __init__(self, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._body_bytes_max = body_bytes_max
        self._data = bytearray()
        self._body = bytearray()
        self._step: Callable[[], bool] = self._read_head
        self._left_bytes: int | None = None  # remaining bytes of the body or chunk; None: unknown
        self._is_until_end = False  # the body ends with the connection
        self._status = 0
        self._headers: dict[str, str] = {}
        self.answer: HttpAnswer | None = None

    def feed(self, data: bytes) -> None:
        """Bytes after the response are ignored: the connection is closed then."""
        if self.answer is None:
            self._data += data
            while self._step():
                pass

    def end(self) -> None:
        """The other side has closed the connection."""
        if self.answer is not None:
            return
        if self._is_until_end:
            self._finish()
        else:
            raise self._malformed("the connection ended before the answer")

    def _line(self) -> bytes | None:
        """The next line; None until it is complete."""
        at = self._data.find(b"\n")
        if at < 0 or at > HEAD_BYTES_MAX:
            if len(self._data) > HEAD_BYTES_MAX:
                raise self._malformed(f"a line of more than {HEAD_BYTES_MAX} bytes")
            return None
        line = bytes(self._data[:at]).removesuffix(b"\r")
        del self._data[: at + 1]
        return line

    def _read_head(self) -> bool:
        at = self._data.find(b"\r\n\r\n")
        if at < 0 or at > HEAD_BYTES_MAX:
            if len(self._data) > HEAD_BYTES_MAX:
                raise self._malformed(f"headers of more than {HEAD_BYTES_MAX} bytes")
            return False
        first, *lines = bytes(self._data[:at]).split(b"\r\n")
        del self._data[: at + 4]
        status = _status_line.fullmatch(first)
        if status is None:
            raise self._malformed("no HTTP/1.1 status line")
        self._status, self._headers = int(status[1]), {}
        for line in lines:
            field = _field.fullmatch(line)
            if field is None:
                raise self._malformed("a header is not NAME: VALUE")
            self._headers[field[1].decode().lower()] = field[2].decode("latin-1")
        if 100 <= self._status < 200:
            return True  # an interim response; the final one follows
        self._choose_body()
        return True

    def _choose_body(self) -> None:
        coding = self._headers.get("transfer-encoding", "").lower()
        length = self._headers.get("content-length")
        self._step = self._read_body
        if coding == "chunked":
            self._step = self._read_chunk_size
        elif coding:
            raise self._malformed("a transfer encoding other than chunked")
        elif self._status in (204, 304):
            self._left_bytes = 0
        elif length is not None:
            if not (length.isascii() and length.isdigit()) or len(length) > 10:
                raise self._malformed("a Content-Length that is not a number")
            self._left_bytes = int(length)
            self._require_room(self._left_bytes)
        else:
            self._is_until_end = True

    def _read_body(self) -> bool:
        taken = len(self._data) if self._left_bytes is None else min(len(self._data), self._left_bytes)
        self._require_room(taken)
        self._body += self._data[:taken]
        del self._data[:taken]
        if self._left_bytes is not None:
            self._left_bytes -= taken
            if not self._left_bytes:
                self._finish()
        return False

    def _read_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = _chunk.fullmatch(line)
        if size is None:
            raise self._malformed("the size of a chunk is not a number")
        self._left_bytes = int(size[1], 16)
        self._require_room(self._left_bytes)
        self._step = self._read_chunk if self._left_bytes else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        assert self._left_bytes is not None
        if len(self._data) < self._left_bytes + 2:
            return False
        self._body += self._data[: self._left_bytes]
        if self._data[self._left_bytes : self._left_bytes + 2] != b"\r\n":
            raise self._malformed("a chunk is longer than its size")
        del self._data[: self._left_bytes + 2]
        self._step = self._read_chunk_size
        return True

    def _read_trailer(self) -> bool:
        line = self._line()
        if line == b"":
            self._finish()
        return line is not None

    def _finish(self) -> None:
        self.answer = HttpAnswer(self._status, self._headers, bytes(self._body))
        self._data.clear()

    def _require_room(self, size_bytes: int) -> None:
        if len(self._body) + size_bytes > self._body_bytes_max:
            raise self._malformed(f"a body of more than {self._body_bytes_max} bytes")

    def _malformed(self, reason: str) -> Malformed:
        return Malformed("HTTP answer", len(self._body), reason)


class _Exchange(asyncio.Protocol):
    def __init__(self) -> None:
        self.answered: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
        self._reader = AnswerReader()

    def data_received(self, data: bytes) -> None:
        self._read(lambda: self._reader.feed(data))

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not self.answered.done():
            self.answered.set_exception(exc)
            self.answered.exception()  # read it here: the caller may be gone
            return
        self._read(self._reader.end)

    def _read(self, step: Callable[[], None]) -> None:
        if self.answered.done():
            return
        try:
            step()
        except Malformed as fault:
            self.answered.set_exception(fault)
            self.answered.exception()  # read it here: the caller may be gone
        else:
            if self._reader.answer is not None:
                self.answered.set_result(self._reader.answer)
