"""Simulated TCP: the guarantees for asyncio's protocols, and the faults that a world can inject."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from chronik.sim.loop import VirtualTime
from chronik.sim.network import SPLIT_ODDS, SimNetwork, Wires

PORT = 9000


class Heard(asyncio.Protocol):
    """Records all data; echoes nothing."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.data = b""
        self.pieces = 0
        self.lost: list[Exception | None] = []
        self.at_eof = False
        self.keeps_open = False
        self.may_write = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1

    def eof_received(self) -> bool:
        self.at_eof = True
        return self.keeps_open

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True


class Buffered(asyncio.BufferedProtocol):
    """Reads into a separate small buffer."""

    def __init__(self) -> None:
        self.buffer = bytearray(7)
        self.data = b""

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.data += self.buffer[:nbytes]


class Pair:
    """A connected client and server in separate processes."""

    def __init__(self, server: Callable[[], asyncio.BaseProtocol] = Heard, seed: int = 1) -> None:
        self.time = VirtualTime()
        self.wires = Wires(self.time, Random(seed))
        self.client_loop, self.server_loop = self.time.process("client"), self.time.process("server")
        self.client_network = SimNetwork(self.wires, "client", self.client_loop)
        self.server_network = SimNetwork(self.wires, "server", self.server_loop)
        self.accepted: list = []
        self.connected: list[Heard] = []

        def accept() -> asyncio.BaseProtocol:
            self.accepted.append(server())
            return self.accepted[-1]

        self.listening = self.server_loop.create_task(self.server_network.listen("server", PORT, accept))
        self.connecting = self.connect()
        self.run(100)

    def connect(self) -> asyncio.Task:
        async def connect() -> Heard:
            _, protocol = await self.client_network.connect("server", PORT, Heard)
            self.connected.append(protocol)  # type: ignore[arg-type]
            return protocol  # type: ignore[return-value]

        return self.client_loop.create_task(connect())

    def run(self, duration_ms: int) -> None:
        self.time.run_for(duration_ms)

    @property
    def client(self) -> Heard:
        return self.connected[0]

    @property
    def server(self) -> Heard:
        return self.accepted[0]

    def send(self, data: bytes) -> None:
        assert self.client.transport is not None
        self.client.transport.write(data)


def test_a_stream_arrives_whole_and_in_order() -> None:
    pair = Pair()
    sent = [b"%d," % number for number in range(2000)]
    for data in sent:
        pair.send(data)
    pair.run(100)
    assert pair.server.data == b"".join(sent)
    assert pair.server.pieces != len(sent), "packets are split now and then, as TCP may"


def test_a_buffered_protocol_gets_the_same_bytes() -> None:
    pair = Pair(server=Buffered)
    pair.send(b"0123456789" * 50)
    pair.run(100)
    assert pair.server.data == b"0123456789" * 50


def test_two_connections_do_not_wait_for_each_other() -> None:
    """Reordering exists between streams only; over many seeds both orders occur."""
    orders = set()
    for seed in range(20):
        pair = Pair(seed=seed)
        pair.connect()
        pair.run(100)
        moments: dict[int, int] = {}
        for number, server in enumerate(pair.accepted):
            server.data_received = _noting(moments, number, pair)
        pair.connected[0].transport.write(b"first")  # type: ignore[union-attr]
        pair.connected[1].transport.write(b"second")  # type: ignore[union-attr]
        pair.run(100)
        orders.add(moments[0] < moments[1])
    assert orders == {True, False}


def _noting(moments: dict[int, int], number: int, pair: Pair) -> Callable[[bytes], None]:
    return lambda data: moments.setdefault(number, pair.time.now_ns) and None


def test_a_reader_that_pauses_stops_the_writer_and_loses_nothing() -> None:
    pair = Pair()
    pair.server.transport.pause_reading()  # type: ignore[union-attr]
    data = bytes(range(256)) * 4096
    for at in range(0, len(data), 8192):
        pair.send(data[at : at + 8192])
    pair.run(100)
    assert pair.server.data == b""
    assert not pair.client.may_write
    assert pair.client.transport.get_write_buffer_size() > 0  # type: ignore[union-attr]
    pair.server.transport.resume_reading()  # type: ignore[union-attr]
    pair.run(1000)
    assert pair.server.data == data
    assert pair.client.may_write


def test_half_closing_leaves_the_other_way_open() -> None:
    pair = Pair()
    pair.server.keeps_open = True
    pair.send(b"question")
    pair.client.transport.write_eof()  # type: ignore[union-attr]
    pair.run(100)
    assert pair.server.at_eof
    assert pair.server.lost == pair.client.lost == []
    pair.server.transport.write(b"answer")  # type: ignore[union-attr]
    pair.run(100)
    assert pair.client.data == b"answer"


def test_closing_delivers_what_was_written_and_ends_both() -> None:
    pair = Pair()
    pair.send(b"last words")
    pair.client.transport.close()  # type: ignore[union-attr]
    pair.run(100)
    assert pair.server.data == b"last words"
    assert (pair.client.lost, pair.server.lost) == ([None], [None])


def test_aborting_resets_the_peer() -> None:
    pair = Pair()
    pair.client.transport.abort()  # type: ignore[union-attr]
    pair.run(100)
    assert pair.client.lost == [None]
    assert isinstance(pair.server.lost[0], ConnectionResetError)


def test_a_cut_delays_and_loses_nothing() -> None:
    pair = Pair()
    pair.wires.cut("client", "server")
    pair.send(b"through ")
    pair.run(5000)
    assert pair.server.data == b""
    pair.server.transport.write(b"the other way works")  # type: ignore[union-attr]
    pair.run(100)
    assert pair.client.data == b"the other way works"
    pair.wires.mend("client", "server")
    pair.send(b"at last")
    pair.run(1000)
    assert pair.server.data == b"through at last"


@pytest.mark.parametrize("seed", range(6))
def test_a_process_that_dies_ends_its_connections(seed: int) -> None:
    pair = Pair(seed=seed)
    pair.server_loop.kill()
    pair.wires.process_died("server")
    pair.run(100)
    assert len(pair.client.lost) == 1
    with pytest.raises(ConnectionRefusedError, match="server:9000"):
        _outcome(pair)


def test_a_machine_without_power_says_nothing_until_it_is_back() -> None:
    """Its peers wait; when it is back it knows nothing of them and says so."""
    pair = Pair()
    pair.server_loop.kill()
    pair.wires.power_lost("server")
    pair.send(b"hello?")
    pair.run(10_000)
    assert pair.client.lost == []
    pair.wires.power_returned("server")
    pair.run(2000)
    assert isinstance(pair.client.lost[0], ConnectionResetError)


def test_connecting_through_a_cut_waits_for_its_end() -> None:
    pair = Pair()
    pair.wires.cut("server", "client")
    connecting = pair.connect()
    pair.run(5000)
    assert not connecting.done()
    pair.wires.mend("server", "client")
    pair.run(3000)
    assert connecting.done()


def test_a_connection_that_is_reset_while_it_is_made_is_not_made() -> None:
    """As connect(2) has it. One that was made and told nothing would be waited for until the end of the world."""
    pair = Pair()
    pair.wires.cut("server", "client")
    connecting = pair.connect()
    pair.run(100)
    pair.wires.reset("client", "server")
    pair.wires.mend("server", "client")
    pair.run(3000)
    assert isinstance(connecting.exception(), ConnectionResetError)
    assert len(pair.connected) == 1


def test_a_paused_process_accepts_and_reads_nothing() -> None:
    """Its system does the handshake, as systems do."""
    pair = Pair()
    pair.server_loop.pause()
    connecting = pair.connect()
    pair.send(b"early")
    pair.run(1000)
    assert connecting.done()
    assert (len(pair.accepted), pair.server.data) == (1, b"")
    pair.server_loop.resume()
    pair.run(10)
    assert (len(pair.accepted), pair.server.data) == (2, b"early")


def _outcome(pair: Pair) -> Heard:
    connecting = pair.connect()
    pair.run(1000)
    return connecting.result()


def test_packets_are_split_by_the_draws_of_randrange() -> None:
    """A cheaper draw must be the same draw: every seed that was written down depends on it."""
    wires, expected = Wires(VirtualTime(), Random(7)), Random(7)
    drawn = [wires.splits() for _ in range(2000)]
    assert drawn == [expected.randrange(SPLIT_ODDS) == 0 for _ in range(2000)]
    assert any(drawn)
