"""A node's status page, read from its admin listener over the client's network."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, cast

from chronik.client.addresses import Address
from chronik.runtime.errors import TlsFailed
from chronik.runtime.secured_network import SecuredNetwork

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Network

ANSWER_BYTES_MAX: Final = 64 << 20  # metrics of ten thousand topics take a few megabytes
TIMEOUT_S: Final = 3.0
ADMIN_PORT_ABOVE: Final = 552  # the default admin port is the client port plus this


async def status(
    network: Network, address: Address, *, cluster_id: str | None, node_id: int, timeout_s: float = TIMEOUT_S
) -> dict[str, Any] | None:
    """The page, or None: no answer, or the answer of another node. An admin listener is often on loopback, so the same
    address on another machine may belong to a node of another cluster. `cluster_id` is None if unknown."""
    body = await page_text(network, address, "/status", timeout_s)
    try:
        page = _document(body) if body is not None else None
    except ValueError:
        return None
    if page is None:
        return None
    is_ours = cluster_id is None or page.get("cluster_id") == cluster_id
    return page if is_ours and page.get("node_id") == node_id else None


async def page_text(network: Network, address: Address, path: str, timeout_s: float = TIMEOUT_S) -> bytes | None:
    """The body of a page of an admin listener; None if there is no answer or something else answers."""
    try:
        try:
            return _body(await _get(network, address, path, timeout_s))
        except TlsFailed:
            if not isinstance(network, SecuredNetwork):
                raise
            return _body(await _get(network.plain, address, path, timeout_s))  # an admin listener may have no TLS
    except (OSError, TimeoutError, ValueError):
        return None


async def why_not_kafka(network: Network, address: Address, timeout_s: float = TIMEOUT_S) -> str | None:
    """An error message for an address that speaks HTTP, as admin listeners do; None if it does not."""
    try:
        answer = await _get(network, address, "/status", timeout_s)
    except (OSError, TimeoutError, ValueError):
        return None
    if not answer.startswith(b"HTTP/"):
        return None
    try:
        node_id = _document(_body(answer)).get("node_id")
    except ValueError:
        node_id = None
    if node_id is None:
        return f"{address} speaks HTTP, not the Kafka protocol: give the address of a broker's client listener"
    return (
        f"{address} is the admin listener of node {node_id}: give its client listener, "
        f"whose port is {address.port - ADMIN_PORT_ABOVE} unless configured otherwise"
    )


async def _get(network: Network, address: Address, path: str, timeout_s: float) -> bytes:
    async with asyncio.timeout(timeout_s):
        transport, protocol = await network.connect(*address, _Answer)
        try:
            transport.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            return await cast(_Answer, protocol).whole
        finally:
            transport.close()


def _body(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise ValueError("no such page here")
    return body


def _document(body: bytes) -> dict[str, Any]:
    page = json.loads(body)
    if not isinstance(page, dict):
        raise ValueError("no status here")
    return page


class _Answer(asyncio.Protocol):
    """Collects data until the other side closes the connection."""

    def __init__(self) -> None:
        self.whole: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > ANSWER_BYTES_MAX and not self.whole.done():
            self.whole.set_exception(ValueError(f"a page of more than {ANSWER_BYTES_MAX} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.whole.done():
            self.whole.set_result(self._data)
