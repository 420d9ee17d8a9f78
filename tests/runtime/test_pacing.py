"""Connections within a machine are not paced; those to other machines keep the configured setting."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from chronik.runtime import pacing
from chronik.runtime.pacing import is_this_machine, send_at_once
from chronik.runtime.real import real_runtime

ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
HERE, ELSEWHERE = ("127.0.0.1", 9092), ("192.0.2.7", 9092)


class End:
    """A socket whose congestion control is set."""

    def __init__(self, name: bytes, refusal: OSError | None = None) -> None:
        self.name = name
        self._refusal = refusal

    def getsockopt(self, level: int, option: int, size_bytes: int) -> bytes:
        return self.name.ljust(size_bytes, b"\0")

    def setsockopt(self, level: int, option: int, name: bytes) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.name = name


def name_of(end: Any) -> str:
    told: bytes = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return told.rstrip(b"\0").decode()


@pytest.mark.parametrize(
    ("name", "address", "after"),
    [
        (b"bbr", HERE, b"reno"),
        (b"bbr", ("::1", 9092, 0, 0), b"reno"),
        (b"bbr", ELSEWHERE, b"bbr"),
        (b"bbr", ("0.0.0.0", 9092), b"bbr"),
        (b"bbr", ("::1234", 9092, 0, 0), b"bbr"),
        (b"cubic", HERE, b"cubic"),
    ],
)
def test_only_what_is_paced_on_the_way_to_this_machine_changes(name: bytes, address: Any, after: bytes) -> None:
    end = End(name)
    send_at_once(end, address)
    assert end.name == after


def test_a_machine_that_refuses_is_left_as_it_is() -> None:
    end = End(b"bbr", PermissionError())
    send_at_once(end, HERE)
    assert end.name == b"bbr"


def test_a_connection_that_is_lost_at_once_is_returned_as_one_that_is() -> None:
    """The connection is already closed when we see it; the caller learns of it as of any other lost connection."""

    class LetGo(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast("asyncio.Transport", transport).abort()

    async def run() -> None:
        network = real_runtime().network
        listener = await network.listen("127.0.0.1", 0, asyncio.Protocol)
        try:
            transport, _ = await asyncio.wait_for(network.connect("127.0.0.1", listener.port, LetGo), 10)
            assert transport.is_closing()
        finally:
            listener.close()

    asyncio.run(run())
    uvloop.run(run())


@pytest.mark.parametrize("address", [None, "", "/run/socket", ("localhost", 1), (None, 1)])
def test_an_address_of_another_kind_is_not_taken_for_this_machine(address: Any) -> None:
    assert not is_this_machine(address)


@pytest.mark.skipif(not ALLOWED.exists(), reason="this system has no choice of congestion control")
def test_both_ends_of_a_connection_on_loopback_send_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine's default is; the test assumes one with pacing."""
    with socket.socket() as fresh:
        default = name_of(fresh)
    others = [name for name in ALLOWED.read_text().split() if name != default]
    if not others:
        pytest.skip(f"this machine allows nothing but {default}")
    monkeypatch.setattr(pacing, "PACED", (default.encode(),))
    monkeypatch.setattr(pacing, "UNPACED", others[0].encode())

    async def run() -> None:
        accepted = asyncio.get_running_loop().create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.set_result(transport)

        network = real_runtime().network
        listener = await network.listen("127.0.0.1", 0, Accepting)
        transport, _ = await network.connect("127.0.0.1", listener.port, asyncio.Protocol)
        assert name_of(transport.get_extra_info("socket")) == others[0]
        theirs = await accepted
        assert name_of(theirs.get_extra_info("socket")) == others[0]
        transport.close()
        theirs.close()
        listener.close()

    asyncio.run(run())
    uvloop.run(run())
