"""Sends in one call: each peer gets all of its data, in order, and no other data."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import uvloop

from chronik.runtime.kernel_io import EVENT, REQUEST
from chronik.runtime.kernel_send import SENT_BYTES_MAX, KernelSends

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux AIO")


class Peer:
    """Both ends of one connection: a transport as a broker has it, and the client's socket."""

    def __init__(self, transport: asyncio.Transport, client: socket.socket, write: Callable[[bytes], None]) -> None:
        self.transport, self.client, self.write = transport, client, write

    async def received(self, size_bytes: int) -> bytes:
        loop, data = asyncio.get_running_loop(), b""
        async with asyncio.timeout(20):
            while len(data) < size_bytes:
                more = await loop.sock_recv(self.client, 1 << 20)
                assert more, f"the connection ended after {len(data)} of {size_bytes} bytes"
                data += more
        return data

    def nothing_came(self) -> bool:
        try:
            return self.client.recv(1) == b""
        except BlockingIOError:
            return True


class ReluctantKernel:
    """Takes of each request all, some or nothing, as a socket may whose buffer is nearly full."""

    def __init__(self, sends: KernelSends, random: Random) -> None:
        self._io, self._random = sends._io, random
        self.partial_count = 0
        self._io.submit = self.submit  # type: ignore[method-assign]
        self._io.collect = lambda at_least: at_least  # type: ignore[method-assign]

    def submit(self, count: int) -> int:
        for slot in range(count):
            number, *_, fd, at, size, _, _, _, _ = REQUEST.unpack_from(self._io.requests, slot * REQUEST.size)
            taken = self._random.choice((size, size, self._random.randint(0, size), -errno.EAGAIN))
            if taken > 0:
                assert os.write(fd, ctypes.string_at(at, taken)) == taken
            self.partial_count += taken < size
            EVENT.pack_into(self._io.events, slot * EVENT.size, number, 0, taken, 0)
        return count


async def peer(sends: KernelSends, *, buffer_bytes: int | None = None) -> Peer:
    ours, client = socket.socketpair()
    for each in (ours, client):
        each.setblocking(False)
        if buffer_bytes is not None:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    return Peer(transport, client, sends.writer_of(transport))


@pytest.fixture(params=["asyncio", "uvloop"])
def by(request: pytest.FixtureRequest) -> Callable[[Callable[[KernelSends], Awaitable[None]]], None]:
    def run(work: Callable[[KernelSends], Awaitable[None]]) -> None:
        async def story() -> None:
            sends = KernelSends.open()
            assert sends is not None
            try:
                await work(sends)
            finally:
                sends.close()

        if request.param == "uvloop":
            uvloop.run(story())
        else:
            asyncio.run(story())

    return run


By = Callable[[Callable[[KernelSends], Awaitable[None]]], None]


def test_every_peer_gets_its_own_by_one_call_to_the_kernel(by: By, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sends: KernelSends) -> None:
        peers = [await peer(sends) for _ in range(40)]
        submitted, submit = list[int](), sends._io.submit
        monkeypatch.setattr(sends._io, "submit", lambda count: submitted.append(count) or submit(count))
        for number, each in enumerate(peers):
            each.write(b"answer %d" % number)
        assert all(each.nothing_came() for each in peers)
        for number, each in enumerate(peers):
            assert await each.received(len(b"answer %d" % number)) == b"answer %d" % number
        assert submitted == [40]

    by(work)


@pytest.mark.parametrize("repeated", [1, 1024], ids=["more operations than slots", "each as large as the arena allows"])
def test_more_than_the_kernel_takes_at_once_leaves_in_several_calls(by: By, repeated: int) -> None:
    async def work(sends: KernelSends) -> None:
        peers = [await peer(sends) for _ in range(300)]
        for number, each in enumerate(peers):
            each.write(b"%04d" % number * repeated)
        for number, each in enumerate(peers):
            assert await each.received(4 * repeated) == b"%04d" % number * repeated

    by(work)


def test_answers_of_one_connection_keep_their_order_also_when_it_takes_them_in_part(by: By) -> None:
    """Its buffer becomes full in the middle of one: its rest must be sent before anything else."""

    async def work(sends: KernelSends) -> None:
        slow, quick = await peer(sends, buffer_bytes=4608), await peer(sends)
        sent = b""
        for number in range(60):
            sizes = (1, 700, SENT_BYTES_MAX, SENT_BYTES_MAX + 1, 64_000)
            data = b"%05d" % number * sizes[number % len(sizes)]
            slow.write(data)
            quick.write(b"%05d" % number)
            sent += data
            if number % 7 == 0:
                await asyncio.sleep(0)
        assert await quick.received(300) == b"".join(b"%05d" % number for number in range(60))
        assert await slow.received(len(sent)) == sent

    by(work)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_part_of_each_a_socket_takes_all_arrives_in_order(by: By, seed: int) -> None:
    async def work(sends: KernelSends) -> None:
        random = Random(seed)
        kernel = ReluctantKernel(sends, random)
        peers = [await peer(sends) for _ in range(5)]
        sent = [b""] * len(peers)
        for number in range(400):
            at = random.randrange(len(peers))
            data = b"%04d" % number * random.randint(1, 50)
            peers[at].write(data)
            sent[at] += data
            if random.random() < 0.2:
                await asyncio.sleep(0)
        for each, data in zip(peers, sent, strict=True):
            assert await each.received(len(data)) == data
        assert kernel.partial_count > 20

    by(work)


def test_answers_to_one_connection_leave_by_one_send(by: By) -> None:
    """A producer with several requests in flight is woken once for all that one commit answers."""

    async def work(sends: KernelSends) -> None:
        each, other = await peer(sends), await peer(sends)
        for number in range(5):
            each.write(b"answer %d," % number)
        other.write(b"another's")
        assert [len(waiting.data) for waiting in sends._due] == [45, 9]
        assert await each.received(45) == b"answer 0,answer 1,answer 2,answer 3,answer 4,"
        assert await other.received(9) == b"another's"

    by(work)


def test_what_is_written_beside_it_comes_behind_what_was_given_before(by: By) -> None:
    async def work(sends: KernelSends) -> None:
        each = await peer(sends)
        each.write(b"first ")
        sends.flush()
        each.transport.write(b"second")
        assert await each.received(12) == b"first second"

    by(work)


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_flushed_arrives_also_when_the_connection_is_ended_at_once(by: By, count: int) -> None:
    """As a broker does after its responses to the requests before an invalid one."""

    async def work(sends: KernelSends) -> None:
        peers = [await peer(sends) for _ in range(count)]
        for each in peers:
            each.write(b"answer")
        sends.flush()
        for each in peers:
            each.transport.abort()
        for each in peers:
            assert await each.received(6) == b"answer"

    by(work)


def test_nothing_comes_before_what_waits_in_the_transport(by: By) -> None:
    """The peer has read and its socket has room again, but the loop has not heard of that yet."""

    async def work(sends: KernelSends) -> None:
        each = await peer(sends)
        large = bytes(range(256)) * 20_000
        each.write(large)
        await asyncio.sleep(0.01)
        read = each.client.recv(1 << 20)
        each.write(b"end")
        sends.flush()
        assert read + await each.received(len(large) + 3 - len(read)) == large + b"end"

    by(work)


def test_nothing_goes_to_a_connection_that_has_the_descriptor_of_one_that_closed(by: By) -> None:
    async def work(sends: KernelSends) -> None:
        gone, stays = await peer(sends), await peer(sends)
        fd = gone.transport.get_extra_info("socket").fileno()
        gone.write(b"not for others")
        stays.write(b"for me")
        gone.transport.abort()
        sends._io.submit = lambda count: pytest.fail("asked the kernel to write to a descriptor that may be another's")  # type: ignore[method-assign]
        assert await stays.received(6) == b"for me"
        del sends._io.submit
        await asyncio.sleep(0)
        other = await peer(sends)
        assert fd in (other.transport.get_extra_info("socket").fileno(), other.client.fileno())
        assert other.nothing_came()

    by(work)


@pytest.mark.parametrize("accepted", [-1, 0, 1])
def test_what_the_kernel_does_not_accept_goes_the_loops_own_way(
    by: By, accepted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(sends: KernelSends) -> None:
        peers = [await peer(sends) for _ in range(3)]
        submit = sends._io.submit
        monkeypatch.setattr(sends._io, "submit", lambda count: submit(1) if accepted > 0 else accepted)
        for each in peers:
            each.write(b"answer")
        for each in peers:
            assert await each.received(6) == b"answer"

    by(work)


def test_a_peer_that_is_gone_costs_its_own_connection_and_no_other(by: By) -> None:
    async def work(sends: KernelSends) -> None:
        gone, stays = await peer(sends), await peer(sends)
        gone.client.close()
        gone.write(b"to nobody")
        stays.write(b"for me")
        assert await stays.received(6) == b"for me"
        async with asyncio.timeout(20):
            while not gone.transport.is_closing():
                await asyncio.sleep(0.01)

    by(work)


def test_when_it_is_closed_the_loop_sends(by: By) -> None:
    async def work(sends: KernelSends) -> None:
        each = await peer(sends)
        sends.close()
        sends._io.submit = lambda count: pytest.fail("used what may be another's by now")  # type: ignore[method-assign]
        each.write(b"late")
        assert await each.received(4) == b"late"

    by(work)
