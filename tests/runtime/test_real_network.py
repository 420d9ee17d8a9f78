"""The real network: port 0 tells its port, and a refused connection says where."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from chronik.runtime.real import real_runtime


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]


class Collect(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received.set_result(data)


def test_a_listener_on_port_0_is_reached_at_the_port_it_tells() -> None:
    """Tests and `chronik up` never use fixed ports."""

    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen("127.0.0.1", 0, Echo)
        transport, protocol = await network.connect(listener.host, listener.port, Collect)
        transport.write(b"hello")
        assert await protocol.received == b"hello"
        transport.close()
        listener.close()

    asyncio.run(run())


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["", "::"])
def test_every_interface_means_both_kinds_of_addresses_at_one_port(host: str) -> None:
    """As Java's [::] does. Each client keeps its own address: limits per address go by it."""

    async def run() -> None:
        network = real_runtime().network
        came: list[str] = []

        class Greeted(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                came.append(transport.get_extra_info("peername")[0])
                transport.close()

        listener = await network.listen(host, 0, Greeted)
        for at in ("127.0.0.1", "::1"):
            transport, _ = await network.connect(at, listener.port, asyncio.Protocol)
            transport.close()
        while len(came) < 2:
            await asyncio.sleep(0)
        assert sorted(came) == ["127.0.0.1", "::1"]
        with pytest.raises(OSError, match="in use"):
            await network.listen(host, listener.port, Greeted)
        listener.close()

    asyncio.run(run())


def test_a_refused_connection_names_host_and_port() -> None:
    """The words "connection refused" alone do not tell an operator which of nine addresses is wrong."""

    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen("127.0.0.1", 0, Echo)
        port = listener.port
        listener.close()
        await asyncio.sleep(0)
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            await network.connect("127.0.0.1", port, Collect)

    asyncio.run(run())


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    """What most often keeps a broker from starting is the last one, still running."""

    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen("127.0.0.1", 0, Echo)
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{listener.port}: .* choose another port"):
            await network.listen("127.0.0.1", listener.port, Echo)
        listener.close()

    asyncio.run(run())
