"""A connection against a dispatcher that answers when the test says so: order, bounds, back-pressure, nothing lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from chronik.broker import limits
from chronik.broker.api import Later
from chronik.broker.awaited import Awaited
from chronik.broker.connection import ServerConnection
from chronik.broker.connections import Connections
from chronik.broker.dispatch import Answer, PartsLater
from chronik.broker.errors import Unanswerable
from chronik.broker.memory import MemoryBudget
from chronik.broker.quotas.client_quotas import ClientQuotas
from chronik.broker.session import FRAME_BYTES_MAX_BEFORE_LOGIN, SASL_AUTHENTICATE, SASL_HANDSHAKE, Principal
from chronik.broker.settings import Settings
from chronik.broker.turns import PIECES_PER_TURN, PIECES_QUEUED, REQUESTS_PER_VISIT, Turns
from chronik.runtime.tasks import Tasks
from chronik.sim.disk import SimDisk
from chronik.wire.framing import FIRST_GRANT_BYTES, SCRATCH_BYTES, make_scratch
from tests.broker.harness import MemoryNetwork, memory_runtime
from tests.broker.hostile import Peer, World, batch, frame, produce_request, run, turns

OTHER_KEY, FETCH_KEY = 3, 1


class StubNode:
    """What a connection needs of its node. Each request waits in `started` until the test answers it."""

    def __init__(self, budget_bytes: int = 1 << 30) -> None:
        self.runtime = memory_runtime(SimDisk(0))
        self.settings = Settings.default(node_id=1)
        self.memory = MemoryBudget(budget_bytes)
        self.scratch = make_scratch()
        self.sends = self.runtime.network.sends()
        self.awaited = Awaited()
        self.turns = Turns(self.runtime.clock)
        self.connections = Connections(self.runtime.clock, connections_max=3, idle_ms_max=-1, per_host_max=2)
        self.connections.are_served = True
        self.quotas = ClientQuotas(self.runtime.clock, self.settings)
        self.tasks = Tasks("stub")
        self.dispatcher = self
        self.started: list[asyncio.Future[Any]] = []
        self.answers_at_once: list[bytes] | None = None
        self.broken: BaseException | None = None
        self.runtime.network.factories.append(lambda: ServerConnection(self, "PLAINTEXT"))  # type: ignore[attr-defined, arg-type]

    def answer(self, data: memoryview, connection: ServerConnection) -> Answer:
        request = bytes(data[:10])
        if request[2:4] == b"!!":
            raise Unanswerable("not a request")
        correlation = request[4:8]
        if self.answers_at_once is not None:
            body = correlation + b"".join(self.answers_at_once)
            self.started.append(asyncio.get_running_loop().create_future())
            return [len(body).to_bytes(4, "big"), body]
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.started.append(future)
        if request[2:4] == b"\x00\x01":  # as a coroutine
            return self._later(future, correlation)
        return PartsLater(Later(future, asyncio.Future.result), self, correlation, 0)  # type: ignore[arg-type]

    def parts(self, body: bytes | None, correlation: bytes, since_ns: int = 0) -> list[bytes] | None:
        return None if body is None else [(4 + len(body)).to_bytes(4, "big"), correlation, body]

    async def _later(self, future: asyncio.Future[Any], correlation: bytes) -> list[bytes] | None:
        return self.parts(await future, correlation)

    def stop_broken(self, cause: BaseException) -> None:
        self.broken = cause


def request(correlation_id: int, size_bytes: int = 10, *, key: int = OTHER_KEY, version: int = 0) -> bytes:
    body = key.to_bytes(2, "big") + version.to_bytes(2, "big") + correlation_id.to_bytes(4, "big")
    return size_bytes.to_bytes(4, "big") + body.ljust(size_bytes, b"\0")


BAD = (10).to_bytes(4, "big") + b"\0\x03!!".ljust(10, b"\0")


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def runs() -> None:
        run(test())

    runs.__name__, runs.__doc__ = test.__name__, test.__doc__
    return runs


@in_a_loop
async def test_replies_leave_in_request_order_however_handlers_finish() -> None:
    """Clients match replies by position; one out of order is somebody else's data."""
    random = Random(0)
    for _ in range(50):
        node = StubNode()
        peer = Peer(node)  # type: ignore[arg-type]
        peer.send(b"".join(request(n, version=random.randrange(2)) for n in range(12)))
        for n in random.sample(range(12), 12):
            node.started[n].set_result(b"%d" % n if n % 5 else None)  # every fifth has no answer, as acks=0
            if random.random() < 0.5:
                await turns(3)
        await turns()
        assert peer.correlation_ids() == [n for n in range(12) if n % 5]
        assert [reply[4:] for reply in peer.frames()] == [b"%d" % n for n in range(12) if n % 5]
        assert node.memory.small_bytes == 0


@in_a_loop
async def test_nobody_is_answered_before_the_node_serves() -> None:
    """A client that asks a node before it is registered would learn of a cluster without brokers, and wait for long."""
    node = StubNode()
    node.connections.are_served = False
    early = Peer(node)  # type: ignore[arg-type]
    early.send(request(1))
    assert not early.node_reads, "nor is more read than the first that came"
    early.send(request(2))
    await turns()
    assert node.started == []
    node.connections.begin()
    await turns()
    late = Peer(node)  # type: ignore[arg-type]
    late.send(request(3))
    await turns()
    assert len(node.started) == 3
    for waiting in node.started:
        waiting.set_result(b"")
    await turns()
    assert (early.correlation_ids(), late.correlation_ids()) == ([1, 2], [3])


@in_a_loop
async def test_at_most_so_many_requests_are_under_way() -> None:
    """What has been read beyond the bound waits unstarted, and nothing more is read."""
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(b"".join(request(n) for n in range(1000)))
    await turns(50)
    assert len(node.started) == limits.IN_FLIGHT_REQUESTS_MAX
    assert not peer.node_reads
    done = 0
    while done < 1000:
        node.started[done].set_result(b"")
        done += 1
        if done % 7 == 0:
            await turns(3)
            assert len(node.started) - done <= limits.IN_FLIGHT_REQUESTS_MAX
        if done == len(node.started):
            await turns(3)
    await turns()
    assert peer.correlation_ids() == list(range(1000))
    assert peer.node_reads


@in_a_loop
async def test_a_read_full_of_requests_is_served_in_turns() -> None:
    """Or one client's 18,000 tiny requests keep everybody else waiting for as long as they take."""
    node = StubNode()
    node.answers_at_once = [b"x"]
    hostile, honest = Peer(node), Peer(node, "10.0.0.2")  # type: ignore[arg-type]
    hostile.send(b"".join(request(n) for n in range(5000)))
    assert len(node.started) == REQUESTS_PER_VISIT, "one callback starts so many and no more"
    honest.send(request(1))
    before = len(node.started)
    await turns(1)
    assert honest.correlation_ids() == [1]
    assert 0 < len(node.started) - before <= PIECES_QUEUED
    await turns(5000)
    assert hostile.correlation_ids() == list(range(5000))


@in_a_loop
async def test_all_connections_share_the_requests_of_a_turn() -> None:
    """Three hundred clients that send a hundred requests each: whoever comes behind them waits for a few milliseconds,
    not until each of them has had its share."""
    node = StubNode()
    node.connections = Connections(node.runtime.clock, connections_max=400, idle_ms_max=-1)
    node.connections.are_served = True
    node.answers_at_once = [b"x"]
    hostile = [Peer(node) for _ in range(300)]  # type: ignore[arg-type]
    for peer in hostile:
        peer.send(b"".join(request(n) for n in range(100)))
    assert len(node.started) <= PIECES_PER_TURN, "no more are started before the loop has looked around"
    while len(node.started) < 30_000:
        before = len(node.started)
        honest = Peer(node, "10.0.0.2")  # type: ignore[arg-type]
        await turns(1)
        assert 0 < len(node.started) - before <= PIECES_QUEUED
        before = len(node.started)
        honest.send(request(1))
        assert len(node.started) == before + 1, "half of each turn is for those who come"
        honest.hang_up()
    await turns(20)
    assert all(peer.correlation_ids() == list(range(100)) for peer in hostile)


@in_a_loop
async def test_bytes_in_flight_are_bounded_and_reading_goes_on_below_the_low_mark() -> None:
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    size_bytes = 8 << 20
    peer.send(b"".join(request(n, size_bytes) for n in range(12)))
    await turns()
    started = limits.IN_FLIGHT_BYTES_HIGH // size_bytes + 1
    assert len(node.started) == started
    assert not peer.node_reads
    for n in range(4):
        node.started[n].set_result(b"")
    await turns()
    assert len(node.started) == started, "between the marks nothing changes"
    assert not peer.node_reads
    for n in range(4, 6):
        node.started[n].set_result(b"")
    await turns()
    assert len(node.started) > started
    for _ in range(12):
        for future in node.started:
            if not future.done():
                future.set_result(b"")
        await turns()
    assert peer.correlation_ids() == list(range(12))
    assert node.memory.used_bytes == 0


@in_a_loop
async def test_a_peer_that_does_not_read_gets_no_more_requests_started() -> None:
    """The bytes that a request costs are bounded by one reply above the high mark."""
    node = StubNode()
    node.answers_at_once = [bytes(1 << 20)]
    peer = Peer(node)  # type: ignore[arg-type]
    peer.reads = False
    peer.send(b"".join(request(n) for n in range(2000)))
    await turns(200)
    assert peer.unread_bytes_most <= limits.UNSENT_BYTES_HIGH + (1 << 20) + 64
    assert not peer.node_reads
    for _ in range(2000):
        if len(peer.received) >= 2000 << 20 or len(node.started) == 40:
            break
        peer.read_everything()
        peer.reads = False
        await turns(2)
    assert len(node.started) >= 40, "it goes on as the peer reads"


@in_a_loop
async def test_finished_replies_behind_one_that_waits_are_bounded() -> None:
    """A long poll in front would otherwise let a client collect 128 large answers in our memory."""
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(0))
    node.answers_at_once = [bytes(1 << 20)]
    peer.send(b"".join(request(n) for n in range(1, 100)))
    await turns(50)
    assert len(node.started) - 1 <= limits.HELD_BYTES_MAX // (1 << 20) + 1
    node.started[0].set_result(b"")
    await turns(100)
    assert peer.correlation_ids() == list(range(100))


@in_a_loop
async def test_a_fetch_waits_until_nothing_is_ahead_of_it() -> None:
    """Its answer may be 55 MiB; one connection holds one."""
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(0) + request(1, key=FETCH_KEY) + request(2, key=FETCH_KEY) + request(3))
    assert len(node.started) == 1
    node.started[0].set_result(b"")
    await turns()
    assert len(node.started) == 2
    node.started[1].set_result(b"")
    await turns()
    assert len(node.started) == 4, "what is no fetch starts behind one"
    node.started[3].set_result(b"")
    node.started[2].set_result(b"")
    await turns()
    assert peer.correlation_ids() == [0, 1, 2, 3]
    assert peer.node_reads


def test_nothing_behind_a_bad_request_is_served_and_one_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The transport tells us of its end only later; until then the rest of the same read must not count."""

    async def test() -> None:
        node = StubNode()
        peer = Peer(node)  # type: ignore[arg-type]
        with caplog.at_level(logging.INFO):
            peer.send(request(0) + BAD * 3 + request(1) + BAD)
            await turns()
        assert peer.is_closed
        assert len(node.started) == 1
        assert len(caplog.records) == 1
        assert "not a request" in caplog.text
        node.started[0].set_result(b"late")
        await turns()
        assert peer.received == b""
        assert node.memory.small_bytes == 0

    run(test())


@in_a_loop
async def test_what_was_answered_before_a_bad_request_still_leaves() -> None:
    """Answers of one turn leave together at its end, and the connection ends before that."""
    node = StubNode()
    node.answers_at_once = []
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(0) + request(1))
    peer.send(BAD)
    assert peer.is_closed
    assert peer.correlation_ids() == [0, 1]


@in_a_loop
async def test_what_was_answered_before_the_peer_ended_its_side_still_leaves() -> None:
    """Answers of one turn leave together at its end, and the loop may hear of that end before."""
    node = StubNode()
    node.answers_at_once = []
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(0))
    assert peer.connection._transport is not None
    peer.connection.eof_received()
    peer.connection._transport.close()  # as asyncio and uvloop do
    await turns()
    assert peer.correlation_ids() == [0]


@pytest.mark.parametrize("version", [0, 1], ids=["a future", "a coroutine"])
def test_a_request_that_is_given_up_costs_its_connection(version: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever sent it would wait for ever, and all that it sends later would wait behind that."""

    async def test() -> None:
        node = StubNode()
        peer = Peer(node)  # type: ignore[arg-type]
        peer.send(request(0, version=version) + request(1))
        await turns()
        node.started[0].cancel()
        await turns()
        assert peer.is_closed
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        node.started[1].set_result(b"too late")
        await turns()
        assert (peer.correlation_ids(), node.memory.small_bytes) == ([], 0)

    run(test())


@in_a_loop
async def test_large_answers_do_not_overtake_small_ones() -> None:
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(b"".join(request(n) for n in range(6)))
    for n in range(6):
        node.started[n].set_result(b"x" * (60_000 if n % 2 else 10))
    await turns()
    assert peer.correlation_ids() == list(range(6))


@in_a_loop
async def test_who_hangs_up_in_the_middle_of_a_frame_leaves_no_memory_behind() -> None:
    """A frame may be 100 MiB, and a connection is part of a cycle that the collector may find much later."""
    node = StubNode()
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(1, SCRATCH_BYTES * 4)[:1000])
    assert peer.connection._reader.admitted_bytes == node.memory.used_bytes == FIRST_GRANT_BYTES
    peer.hang_up()
    await turns()
    assert peer.connection._reader._frame is None
    assert node.memory.used_bytes == 0


def test_a_handler_that_breaks_costs_its_own_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        node = StubNode()
        broken, other = Peer(node), Peer(node, "10.0.0.2")  # type: ignore[arg-type]
        broken.send(request(0) + request(1))
        other.send(request(7))
        node.started[1].set_exception(ZeroDivisionError("a bug"))
        node.started[2].set_result(b"fine")
        await turns()
        assert broken.is_closed
        assert broken.received == b""
        assert other.correlation_ids() == [7]
        assert len(caplog.records) == 1
        assert "ZeroDivisionError" in caplog.text

    run(test())


@in_a_loop
async def test_memory_is_granted_in_order_and_all_of_it_comes_back() -> None:
    size_bytes = SCRATCH_BYTES + 10
    node = StubNode(budget_bytes=int(2.5 * size_bytes))
    node.connections = Connections(node.runtime.clock, connections_max=10, idle_ms_max=-1)
    node.connections.are_served = True
    peers = [Peer(node) for _ in range(5)]  # type: ignore[arg-type]
    for n, peer in enumerate(peers):
        peer.send(request(n, size_bytes))
    await turns()
    assert len(node.started) == 2
    assert [peer.node_reads for peer in peers] == [True, True, False, False, False]
    node.started[0].set_result(b"")
    await turns()
    assert [peer.node_reads for peer in peers] == [True, True, True, False, False]
    peers[3].hang_up()  # while it waits
    node.started[1].set_result(b"")
    node.started[2].set_result(b"")
    await turns()
    node.started[3].set_result(b"")
    await turns()
    assert [peer.correlation_ids() for peer in peers] == [[0], [1], [2], [], [4]]
    assert node.memory.used_bytes == 0
    assert node.memory.small_bytes == 0


@in_a_loop
async def test_no_disconnect_at_any_moment_leaks_memory() -> None:
    """Half a frame, a frame that waits, requests under way or unstarted, replies held: everything comes back."""
    random = Random(1)
    node = StubNode(budget_bytes=3 * SCRATCH_BYTES)
    node.connections = Connections(node.runtime.clock, connections_max=1000, idle_ms_max=-1)
    for _ in range(300):
        peers = [Peer(node) for _ in range(3)]  # type: ignore[arg-type]
        for peer in peers:
            sizes = [random.choice((10, 1000, SCRATCH_BYTES, SCRATCH_BYTES + 1, 3 * SCRATCH_BYTES)) for _ in range(4)]
            data = b"".join(request(n, size, version=random.randrange(2)) for n, size in enumerate(sizes))
            peer.send(data[: random.randint(0, len(data))])
        await turns(random.randrange(3))
        for future in random.sample(node.started, len(node.started) // 2):
            if not future.done():
                future.set_result(b"answer")
        for peer in peers:
            peer.hang_up()
        await turns(3)
        for future in node.started:
            if not future.done():
                future.set_result(b"answer")
        node.started.clear()
        await turns(5)
        assert (node.memory.used_bytes, node.memory.small_bytes, len(node.connections)) == (0, 0, 0)


@in_a_loop
async def test_a_request_holds_its_memory_until_its_handler_is_done() -> None:
    """Hanging up must not make room: the handler still has the bytes, and a client could repeat it for ever."""
    node = StubNode(budget_bytes=SCRATCH_BYTES * 2)
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(request(0, SCRATCH_BYTES + 1) + request(1, 100, version=1))
    peer.hang_up()
    await turns()
    assert (node.memory.used_bytes, node.memory.small_bytes) == (SCRATCH_BYTES + 1, 100)
    node.started[0].set_result(b"")
    node.started[1].set_result(b"")
    await turns()
    assert (node.memory.used_bytes, node.memory.small_bytes) == (0, 0)


@in_a_loop
async def test_small_requests_wait_too_when_the_budget_is_spent() -> None:
    """A connection goes on with one request at a time, so nobody starves and the total stays near the budget."""
    node = StubNode(budget_bytes=1000)
    peer = Peer(node)  # type: ignore[arg-type]
    peer.send(b"".join(request(n, 400) for n in range(10)))
    await turns()
    assert len(node.started) == 3
    for n in range(10):
        node.started[n].set_result(b"")
        await turns()
    assert peer.correlation_ids() == list(range(10))


def test_connections_are_bounded_in_all_and_by_address(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        node = StubNode()  # three in all, two of one address
        first = Peer(node, "a")  # type: ignore[arg-type]
        Peer(node, "a")  # type: ignore[arg-type]
        assert Peer(node, "a").is_closed  # type: ignore[arg-type]
        assert "max.connections.per.ip" in caplog.text
        assert len(caplog.records) == 1
        Peer(node, "b")  # type: ignore[arg-type]
        assert Peer(node, "c").is_closed  # type: ignore[arg-type]
        assert len(caplog.records) == 2
        await turns()
        assert len(node.connections) == 3, "one that was refused is not counted, nor counted off"
        first.hang_up()
        await turns()
        assert not Peer(node, "a").is_closed  # type: ignore[arg-type]

    run(test())


def test_a_disconnect_never_cancels_an_append() -> None:
    """The record was taken; that its sender is gone changes nothing for readers, nor for what was assigned."""

    async def test() -> None:
        world = await World.make()
        await world.create()
        for acks in (-1, 1, 0):
            peer = Peer(world.node)
            peer.send(frame(produce_request(batch(b"acks %d" % acks), acks=acks), 9))
            peer.hang_up()
        await turns(50)
        found = bytes((await world.fetch()).records)
        assert all(b"acks %d" % acks in found for acks in (-1, 1, 0))
        await world.is_serving()
        await world.node.stop()

    run(test())


class LoginNode(StubNode):
    """A node whose listener asks for a login, with a mechanism that takes everybody at once."""

    def __init__(self) -> None:
        super().__init__()
        self.answers_at_once = [b"x"]
        made = partial(ServerConnection, self, "SASL_PLAINTEXT", needs_login=True)
        cast(MemoryNetwork, self.runtime.network).factories[:] = [made]  # type: ignore[list-item]

    def answer(self, data: memoryview, connection: ServerConnection) -> Answer:
        session, key = connection.session, int.from_bytes(data[:2], "big")
        session.require_served(key, connection.last_request_ns)
        if key == SASL_HANDSHAKE:
            session.begin_handshake()
        elif key == SASL_AUTHENTICATE:
            session.logged_in(Principal("User", "alice"), until_ns=connection.last_request_ns + 1000)
        return super().answer(data, connection)


LARGE_BYTES = FRAME_BYTES_MAX_BEFORE_LOGIN + 1


@in_a_loop
async def test_a_large_frame_is_taken_after_a_login_and_not_before() -> None:
    """Memory belongs to those who are known. A limit that stayed small would refuse every large batch."""
    node = LoginNode()
    stranger = Peer(node)  # type: ignore[arg-type]
    stranger.send(request(1, LARGE_BYTES)[:16])
    assert stranger.is_closed
    known = Peer(node)  # type: ignore[arg-type]
    known.send(request(1, key=SASL_HANDSHAKE))
    known.send(request(2, key=SASL_AUTHENTICATE))
    known.send(request(3, LARGE_BYTES))
    await turns()
    assert (known.is_closed, known.correlation_ids()) == (False, [1, 2, 3])


@in_a_loop
async def test_the_limit_is_small_again_during_a_new_login() -> None:
    node = LoginNode()
    peer = Peer(node)  # type: ignore[arg-type]
    for number, key in enumerate((SASL_HANDSHAKE, SASL_AUTHENTICATE, SASL_HANDSHAKE)):
        peer.send(request(number, key=key))
    await turns()
    assert not peer.is_closed
    peer.send(request(4, LARGE_BYTES)[:16])
    assert peer.is_closed
