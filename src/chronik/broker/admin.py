"""The admin listener of a node: /metrics, /healthz, /readyz and /status over a minimal HTTP/1.1.

GET and HEAD only, no bodies, no thread, no framework. It serves as soon as the node begins to start, so that you can
see why a node is not ready. The size of a request, the number of connections and the idle time are limited. When all
connections are in use, the longest idle one is closed. A peer that does not speak HTTP is disconnected, and logged once
per address and cause. Requests never change the node's state.

A browser sends the page's host name in the Host header. So a page whose name resolves to this address (DNS rebinding)
is recognised by its name and refused, before anything is read.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, cast

from chronik.broker.errors import CannotStart
from chronik.broker.exposition import CONTENT_TYPE
from chronik.broker.pages import Pages, StartingPages
from chronik.broker.settings.listeners import ADMIN_ENDPOINT, PLAINTEXT, PROTOCOLS
from chronik.metadata.commands.register_broker import EndpointAt
from chronik.raft.refusals import Refusals
from chronik.runtime.interfaces import Listener

if TYPE_CHECKING:
    from chronik.broker.node_base import NodeBase

log = logging.getLogger("chronik.broker.admin")

HEAD_BYTES_MAX = 8 * 1024  # request line and headers; a common limit
CONNECTIONS_MAX = 64  # there are few scrapers, probes and operators
SILENT_SECONDS_MAX = 10  # between two requests, and for reading one request
SHOWN_BYTES = 40  # shown in the log of data that is not HTTP

PLAIN, JSON = "text/plain; charset=utf-8", "application/json"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    421: "Misdirected Request",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}
_request_line = re.compile(rb"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_has_body = re.compile(rb"^(?:content-length:[ \t]*0*[1-9]|transfer-encoding:)", re.IGNORECASE | re.MULTILINE)
_host = re.compile(rb"^host:[ \t]*([^\r\n]*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_host_name = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^:\[\]]*)(:[0-9]*)?")
_closes = re.compile(rb"^connection:.*\bclose\b", re.IGNORECASE | re.MULTILINE)


class Page(NamedTuple):
    code: int
    body: str
    content_type: str = PLAIN


class Admin:
    """One per node. `open` it before any other part of the node, `close` it with the other listeners."""

    def __init__(self, base: NodeBase) -> None:
        self.base = base
        self.listener: Listener | None = None
        self.connections: dict[AdminConnection, None] = {}  # the one without a request for longest is first
        self.refusals = Refusals(log)
        self._pages: Pages = StartingPages(base)

    def show(self, pages: Pages) -> None:
        """Serves these pages from now on."""
        self._pages = pages

    async def open(self) -> None:
        """A port in use stops the node only if the port was configured explicitly."""
        settings = self.base.settings
        address = settings.admin_listener
        if address is None:
            return
        try:
            tls = self.base.certificates.server(ADMIN_ENDPOINT)
            self.listener = await self.base.runtime.network.listen(*address, lambda: AdminConnection(self), tls)
            self.base.certificates.attach(ADMIN_ENDPOINT, self.listener)
        except OSError as fault:
            where = f"{address.host}:{address.port}"
            if settings.layers.is_set("chronik.admin.listener"):
                raise CannotStart(f"cannot listen on chronik.admin.listener={where}: {fault}") from fault
            log.warning("the admin listener cannot use %s: %s; set chronik.admin.listener, or `none`", where, fault)

    def endpoints(self) -> list[EndpointAt]:
        """The endpoint that the cluster's metadata contains, so that tools find every node's status."""
        if self.listener is None:
            return []
        protocol = PROTOCOLS.index("SSL" if self.base.certificates.server(ADMIN_ENDPOINT) else PLAINTEXT)
        return [
            EndpointAt(
                name=ADMIN_ENDPOINT, host=self.listener.host, port=self.listener.port, security_protocol=protocol
            )
        ]

    def serves(self, host: str) -> bool:
        """Whether a request may have this Host: an address, localhost, or a name of this node."""
        matched = _host_name.fullmatch(host)
        if matched is None:
            return False
        name = matched[1].strip("[]").lower().rstrip(".")
        settings = self.base.settings
        listeners = (*settings.listeners, *settings.advertised_listeners)
        own = [settings.machine.host_name, *settings.admin_hosts, *(listener.host for listener in listeners)]
        if settings.admin_listener is not None:
            own.append(settings.admin_listener.host)
        return name == "localhost" or _is_address(name) or name in [each.lower() for each in own if each]

    def make_room(self) -> bool:
        """Closes the connection that has been idle longest, so that a probe need not wait for idle ones."""
        idle = next((each for each in self.connections if not each.is_busy), None)
        if idle is not None:
            del self.connections[idle]
            idle.end()
        return idle is not None

    def close(self) -> None:
        if self.listener is not None:
            self.listener.close()
        for connection in list(self.connections):
            connection.end()

    async def page(self, path: str) -> Page:
        if path == "/metrics":
            return Page(200, await self._pages.metrics(), CONTENT_TYPE)
        if path == "/healthz":
            return _verdict("healthy", self.base.failure)
        if path == "/readyz":
            return _verdict("ready", self._pages.why_not_ready())
        if path == "/status":
            return Page(200, json.dumps(await self._pages.status()) + "\n", JSON)
        return Page(404, "there is /metrics, /healthz, /readyz and /status\n")


def _is_address(name: str) -> bool:
    """A web page cannot have an address as its host name."""
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _verdict(good: str, why_not: str | None) -> Page:
    return Page(200, f"{good}\n") if why_not is None else Page(503, f"not {good}: {why_not}\n")


class AdminConnection(asyncio.Protocol):
    """Serves requests one after the other. Pipelined requests wait."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._transport: asyncio.Transport | None = None
        self._peer = "?"
        self._unread = b""
        self.is_busy = False  # a request is being served
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not subclass it
        name = transport.get_extra_info("peername") or ("?", 0)
        self._peer = str(name[0])
        if len(self._admin.connections) >= CONNECTIONS_MAX and not self._admin.make_room():
            return self._refuse(503, f"{CONNECTIONS_MAX} requests are being answered already")
        return self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._admin.connections.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > HEAD_BYTES_MAX and self._transport is not None:
            if b"\r\n\r\n" not in self._unread[: HEAD_BYTES_MAX + 4] and not self.is_busy:
                return self._refuse(431, f"a request's head is at most {HEAD_BYTES_MAX} bytes")
            self._transport.pause_reading()
        return self._serve()

    def end(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wait(self) -> None:
        """Waits for the next request only."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._admin.connections.pop(self, None)
        self._admin.connections[self] = None
        self._deadline = asyncio.get_running_loop().call_later(SILENT_SECONDS_MAX, self.end)

    def _serve(self) -> None:
        head, found, rest = self._unread.partition(b"\r\n\r\n")
        if not found:
            # Do not wait for the rest of data that cannot become a request.
            if not self.is_busy and b"\n" in head and not _request_line.match(head):
                self._garbage(head)
            return None
        if self.is_busy or self._transport is None:
            return None
        line, _, headers = head.partition(b"\r\n")
        request = _request_line.fullmatch(line)
        if request is None:
            return self._garbage(line)
        self._unread = rest
        method, target = request[1].decode(), request[2].decode()
        keeps = request[3] == b"1" and not _closes.search(headers) and not _has_body.search(headers)
        hosts = _host.findall(headers)
        if len(hosts) > 1 or not all(self._admin.serves(each.decode("latin-1")) for each in hosts):
            shown = b", ".join(hosts)[:SHOWN_BYTES].decode("latin-1")
            return self._refuse(421, f"Host {shown!r} is not this node's: add it to chronik.admin.hosts")
        if method not in ("GET", "HEAD"):
            return self._refuse(405, f"{method} is not served here, only GET and HEAD")
        self.is_busy = True
        work = self._answer(target.partition("?")[0], with_body=method == "GET", keeps=keeps)
        self._admin.base.tasks.start(f"admin {method} for {self._peer}", work)
        return None

    async def _answer(self, path: str, *, with_body: bool, keeps: bool) -> None:
        page = await self._admin.page(path)
        self.is_busy = False
        self._send(page, with_body=with_body, keeps=keeps)
        if keeps and self._transport is not None:
            self._wait()
            if len(self._unread) <= HEAD_BYTES_MAX:
                self._transport.resume_reading()
            self._serve()

    def _garbage(self, head: bytes) -> None:
        self._refuse(400, f"this is no HTTP: {head[:SHOWN_BYTES]!r}")

    def _refuse(self, code: int, why: str) -> None:
        self._admin.refusals.note("request on the admin listener from", self._peer, why)
        self._send(Page(code, f"{why}\n"), with_body=True, keeps=False)

    def _send(self, page: Page, *, with_body: bool, keeps: bool) -> None:
        if self._transport is None:
            return
        body = page.body.encode()
        head = [
            f"HTTP/1.1 {page.code} {REASONS[page.code]}",
            f"Content-Type: {page.content_type}",
            f"Content-Length: {len(body)}",
            f"Connection: {'keep-alive' if keeps else 'close'}",
            *(["Allow: GET, HEAD"] if page.code == 405 else []),
        ]
        self._transport.write("\r\n".join(head).encode() + b"\r\n\r\n" + (body if with_body else b""))
        if not keeps:
            transport, self._transport = self._transport, None
            transport.close()
