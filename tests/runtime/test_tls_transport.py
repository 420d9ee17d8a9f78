"""TLS on real sockets: bytes and order, back-pressure, explained refusals, new certificates, rate-limited
handshakes."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
import uvloop

from chronik.runtime.errors import TlsFailed
from chronik.runtime.real_network import RealListener, RealNetwork
from chronik.runtime.tls import ClientAuth, TlsClient, TlsServer
from chronik.runtime.tls_contexts import server_context
from chronik.runtime.tls_handshakes import UNDER_WAY_MAX, Handshakes, ServerLayer
from chronik.runtime.tls_transport import HANDSHAKE, HELLO_BYTES_MAX, RECORD_BYTES, TlsTransport
from chronik.security.stores import pem_identity
from chronik.testing.certificates import Authority, Certified

CA, FOREIGN = Authority(), Authority("Foreign")
HOST = "127.0.0.1"
LARGE = bytes(range(256)) * 4096 * 3  # 3 MiB


def server(made: Certified | None = None, auth: ClientAuth = ClientAuth.NONE) -> TlsServer:
    return TlsServer(pem_identity((made or CA.server()).store_pem, None), CA.pem, auth)


def client(made: Certified | None = None, authority: Authority = CA) -> TlsClient:
    return TlsClient(pem_identity(made.store_pem, None) if made is not None else None, authority.pem)


class End(asyncio.Protocol):
    """Records received data."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.data = bytearray()
        self.made: asyncio.Future[TlsTransport] = loop.create_future()
        self.lost: asyncio.Future[Exception | None] = loop.create_future()
        self.writable: list[bool] = []
        self._waiting: tuple[int, asyncio.Future[None]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(cast(TlsTransport, transport))

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self._waiting is not None and len(self.data) >= self._waiting[0] and not self._waiting[1].done():
            self._waiting[1].set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)

    def pause_writing(self) -> None:
        self.writable.append(False)

    def resume_writing(self) -> None:
        self.writable.append(True)

    async def has(self, size_bytes: int) -> bytes:
        if len(self.data) < size_bytes:
            self._waiting = size_bytes, asyncio.get_running_loop().create_future()
            await self._waiting[1]
        return bytes(self.data)


class BufferedEnd(asyncio.BufferedProtocol):
    """Reads into its own memory, 100,000 bytes at a time, so that records are split."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray(100_000))
        self.end = End()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.end.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.end.data_received(bytes(self._room[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        self.end.connection_lost(exc)


class Meeting:
    """A listener, and the ends that it made, in order."""

    def __init__(self, network: RealNetwork, tls: TlsServer) -> None:
        self.network, self.tls = network, tls
        self.ends: asyncio.Queue[Any] = asyncio.Queue()
        self.listener: RealListener
        self.make: Callable[[], Any] = End

    def accept(self) -> Any:
        end = self.make()
        self.ends.put_nowait(end)
        return end

    async def connect(self, tls: TlsClient | None) -> End:
        _, protocol = await self.network.connect(HOST, self.listener.port, End, tls)
        return cast(End, protocol)


@asynccontextmanager
async def meeting(tls: TlsServer) -> AsyncIterator[Meeting]:
    met = Meeting(RealNetwork(), tls)
    met.listener = await met.network.listen(HOST, 0, met.accept, tls)
    try:
        yield met
    finally:
        met.listener.close()


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    """On both event loops: clients and tests may use either."""

    def bounded(work: Awaitable[None]) -> None:
        async def within() -> None:
            async with asyncio.timeout(60):
                await work

        request.param(within())

    return bounded


def test_bytes_arrive_in_order_whatever_their_size(run: Any) -> None:
    async def work() -> None:
        async with meeting(server()) as met:
            met.make = BufferedEnd
            near = await met.connect(client())
            far = (await met.ends.get()).end
            transport = await near.made
            transport.write(b"small")
            transport.writelines([b"head", LARGE, b"", b"tail"])
            assert await far.has(9 + len(LARGE) + 4) == b"smallhead" + LARGE + b"tail"
            (await far.made).writelines([LARGE[:100], memoryview(LARGE)])
            assert await near.has(100 + len(LARGE)) == LARGE[:100] + LARGE
            transport.close()
            assert await far.lost is None

    run(work())


def test_a_large_answer_fills_its_records(run: Any) -> None:
    """Each record costs a call of OpenSSL and 22 bytes, so a header must not get a separate one."""
    sizes: list[int] = []

    async def work() -> None:
        async with meeting(server()) as met:
            near = await met.connect(client())
            transport = await near.made
            layer = transport._layer
            write = layer._tls.write  # type: ignore[union-attr]
            layer._tls = type("Counting", (), {"write": lambda _, data: (sizes.append(len(data)), write(data))[1]})()  # type: ignore[assignment]
            layer.encrypt([b"h" * 100, bytes(3 * RECORD_BYTES), b"t" * 50])
            near.made.result().raw.abort()

    run(work())
    assert sizes == [RECORD_BYTES, RECORD_BYTES, RECORD_BYTES, 150]


def test_a_paused_reader_stops_the_writer_and_loses_nothing(run: Any) -> None:
    """Back-pressure must reach through both buffers: the memory of a broker is bounded by it."""

    async def work() -> None:
        async with meeting(server()) as met:
            near = await met.connect(client())
            far = await met.ends.get()
            (await far.made).pause_reading()
            transport = await near.made
            sent = 0
            while not near.writable:
                transport.write(LARGE)
                sent += len(LARGE)
                await asyncio.sleep(0)
            assert transport.get_write_buffer_size() > 0
            (await far.made).resume_reading()
            assert len(await far.has(sent)) == sent
            assert near.writable[-1] is True
            transport.abort()

    run(work())


def test_a_certificate_says_who_is_there(run: Any) -> None:
    async def work() -> None:
        async with meeting(server(auth=ClientAuth.REQUESTED)) as met:
            known = await met.connect(client(CA.client("alice")))
            assert (await (await met.ends.get()).made).get_extra_info("tls_subject") == "CN=alice"
            assert known.made.result().get_extra_info("tls_subject") == "CN=broker"
            unknown = await met.connect(client())
            assert (await (await met.ends.get()).made).get_extra_info("tls_subject") is None
            for end in (known, unknown):
                end.made.result().abort()

    run(work())


@pytest.mark.parametrize(
    ("presents", "reason"),
    [
        (lambda: None, "presents no certificate"),
        (lambda: FOREIGN.client("alice"), "unable to get local issuer certificate"),
        (lambda: CA.client("alice", days=-2), "certificate has expired"),
    ],
    ids=["none", "foreign", "expired"],
)
def test_a_client_that_proves_nothing_is_refused_in_words(
    run: Any, caplog: pytest.LogCaptureFixture, presents: Callable[[], Certified | None], reason: str
) -> None:
    async def work() -> None:
        async with meeting(server(auth=ClientAuth.REQUIRED)) as met:
            try:
                end = await met.connect(client(presents()))
                assert isinstance(await end.lost, OSError)  # in TLS 1.3 a client learns of it after its handshake
            except TlsFailed:
                pass
            assert met.ends.empty(), "no protocol is made for it"

    with caplog.at_level(logging.WARNING, "chronik.tls"):
        run(work())
    [line] = [record.getMessage() for record in caplog.records]
    assert reason in line
    assert HOST in line


@pytest.mark.parametrize(
    ("offers", "tls", "reason"),
    [
        (lambda: FOREIGN.server(), client(), "its certificate is not accepted"),
        (lambda: CA.server(days=-2), client(), "certificate has expired"),
        (lambda: CA.server(hosts=["elsewhere.example"]), client(), "IP address mismatch"),
    ],
    ids=["foreign", "expired", "other host"],
)
def test_a_server_that_is_not_what_it_should_be_is_refused(
    run: Any, offers: Callable[[], Certified], tls: TlsClient, reason: str
) -> None:
    async def work() -> None:
        async with meeting(server(offers())) as met:
            with pytest.raises(TlsFailed, match=reason) as refused:
                await met.connect(tls)
            assert f"{HOST}:{met.listener.port}" in str(refused.value)

    run(work())


def test_plaintext_on_a_tls_port_is_called_that(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with meeting(server()) as met:
            _, near = await met.network.connect(HOST, met.listener.port, End)
            cast(End, near).made.result().write(b"\0\0\0\x10 a Kafka request")
            await cast(End, near).lost

    with caplog.at_level(logging.WARNING, "chronik.tls"):
        run(work())
    assert "does not speak TLS: set security.protocol=SSL" in caplog.text


def test_a_flood_of_failures_is_two_lines(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with meeting(server()) as met:
            for _ in range(50):
                _, near = await met.network.connect(HOST, met.listener.port, End)
                cast(End, near).made.result().write(b"GET / HTTP/1.0\r\n\r\n")
                await cast(End, near).lost
            met.network.handshakes.failures._tell("it", "it does not speak TLS: set security.protocol=SSL")
            assert met.network.handshakes.failures.count == 50

    with caplog.at_level(logging.WARNING, "chronik.tls"):
        run(work())
    assert len([record for record in caplog.records if "failed" in record.getMessage()]) <= 2


def test_new_certificates_count_for_new_connections_and_old_ones_go_on(run: Any) -> None:
    async def work() -> None:
        async with meeting(server()) as met:
            before = await met.connect(client())
            far = await met.ends.get()
            met.listener.secure_with(server(FOREIGN.server("renewed")))
            after = await met.connect(client(authority=FOREIGN))
            assert after.made.result().get_extra_info("tls_subject") == "CN=renewed"
            before.made.result().write(b"still here")
            assert await far.has(10) == b"still here"
            for end in (before, after):
                end.made.result().abort()

    run(work())


def test_handshakes_that_stall_do_not_keep_others_out(run: Any) -> None:
    """Clients that begin a handshake and fall silent must not block all others for ten seconds."""

    async def work() -> None:
        async with meeting(server()) as met:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            stalled = []
            for _ in range(2 * UNDER_WAY_MAX):
                arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
                with pytest.raises(ssl.SSLWantReadError):
                    context.wrap_bio(arriving, leaving).do_handshake()
                _, near = await met.network.connect(HOST, met.listener.port, End)
                cast(End, near).made.result().write(leaving.read())
                stalled.append(cast(End, near))
            good = await met.connect(client())
            assert (await met.ends.get()).made.done()
            good.made.result().abort()
            for each in stalled:
                each.made.result().abort()

    run(work())


def test_connections_that_never_begin_their_handshake_take_a_bounded_number_of_descriptors(run: Any) -> None:
    """Any client can open them, and no other limit counts them: a node without descriptors cannot write records."""

    async def work() -> None:
        async with meeting(server()) as met:
            met.network.handshakes = met.listener._secured._handshakes = Handshakes(open_max=3)  # type: ignore[union-attr]
            silent = [cast(End, (await met.network.connect(HOST, met.listener.port, End))[1]) for _ in range(10)]
            for each in silent[:7]:  # in the order in which they came
                await each.lost
            assert not any(each.lost.done() for each in silent[7:])
            good = await met.connect(client())
            assert (await met.ends.get()).made.done()
            await silent[7].lost
            for each in (good, *silent[8:]):
                each.made.result().abort()

    run(work())


def test_a_hello_that_waits_for_its_turn_is_bounded(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Thousands may wait, and each would keep all that its peer has sent at once."""
    accepted: list[bool] = []

    async def work() -> None:
        for size_bytes in (HELLO_BYTES_MAX, HELLO_BYTES_MAX + 1):
            handshakes = Handshakes()
            layer = ServerLayer(End, lambda: server_context(server()), handshakes, "here")
            near, far = socket.socketpair()
            with near:
                transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: layer, far)  # noqa: B023
                layer.get_buffer(-1)[:size_bytes] = bytes([HANDSHAKE]) * size_bytes  # arrives in one piece
                layer.buffer_updated(size_bytes)
                accepted.append(not layer.is_over)
                transport.abort()

    with caplog.at_level(logging.WARNING, "chronik.tls"):
        run(work())
    assert accepted == [True, False]
    assert f"its handshake has more than {HELLO_BYTES_MAX} bytes" in caplog.text
