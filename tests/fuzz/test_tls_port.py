"""Mutated bytes for the TLS port: hellos, the rest of a handshake, ciphertext. Whatever comes, one connection ends."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from random import Random
from typing import Any, cast

import pytest

from chronik.runtime.tls import ClientAuth, TlsClient, TlsServer
from chronik.runtime.tls_contexts import client_context, server_context
from chronik.runtime.tls_handshakes import Handshakes, ServerLayer
from chronik.security.stores import pem_identity
from chronik.testing.certificates import Authority
from tests.fuzz.mutations import mutate

CA = Authority()
ROUNDS = 50
STAGES = ("hello", "finished", "data")


class Socket(asyncio.Transport):
    """What the layer has of the event loop: keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 1) if name == "peername" else default

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Heard(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


class Visit:
    """One client, by hand, and the server's layer."""

    def __init__(self, handshakes: Handshakes, context: ssl.SSLContext, client: ssl.SSLContext) -> None:
        self.socket, self.heard = Socket(), Heard()
        self.layer = ServerLayer(lambda: self.heard, lambda: context, handshakes, "SSL")
        self.layer.connection_made(self.socket)
        self.arriving, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client.wrap_bio(self.arriving, self.leaving, server_hostname="localhost")

    def next_of_client(self) -> bytes:
        self.arriving.write(bytes(self.socket.sent))
        self.socket.sent.clear()
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.leaving.read()

    async def feed(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self.socket.is_closed:
            room = cast(memoryview, self.layer.get_buffer(-1))
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self.layer.buffer_updated(count)
            view = view[count:]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def end(self) -> None:
        self.layer.connection_lost(None)


@pytest.mark.parametrize("stage", STAGES)
def test_garbage_ends_one_connection_and_nothing_else(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    """No exception escapes to the event loop, nothing unverified reaches the protocol, the next client is served."""
    random = Random(7)
    tls = TlsServer(pem_identity(CA.server().store_pem, None), CA.pem, ClientAuth.REQUIRED)

    own = TlsClient(pem_identity(CA.client("alice").store_pem, None), CA.pem)

    async def work() -> None:
        context, client, handshakes = server_context(tls), client_context(own), Handshakes()
        for _ in range(ROUNDS):
            visit = Visit(handshakes, context, client)
            hello = visit.next_of_client()
            if stage == "hello":
                await visit.feed(mutate(random, hello, random.randbytes(300)))
            else:
                await visit.feed(hello)
                finished = visit.next_of_client()
                if stage == "finished":
                    await visit.feed(mutate(random, finished, hello))
                else:
                    await visit.feed(finished)
                    visit.tls.write(b"x" * 200)
                    await visit.feed(mutate(random, visit.leaving.read(), hello))
            assert visit.heard.data in (b"", b"x" * 200)
            visit.end()
        good = Visit(handshakes, context, client)
        await good.feed(good.next_of_client())
        await good.feed(good.next_of_client())
        good.tls.write(b"served")
        await good.feed(good.leaving.read())
        assert good.heard.data == b"served"
        good.end()
        assert not handshakes._under_way
        assert not handshakes._waiting

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(work())
