"""The quorum's TCP streams, on real sockets: ordered, bounded, reconnecting, and closed to strangers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from functools import wraps
from typing import Any

import pytest
import uvloop

from chronik.raft.addresses import Address
from chronik.raft.codec import encode_message
from chronik.raft.framing import Hello, frame
from chronik.raft.messages import Entry, EntryKind, Message, MessageKind
from chronik.raft.streams import BACKOFF_MS_MAX, BACKOFF_MS_MIN
from chronik.raft.transport import TcpTransport
from chronik.runtime.real import real_runtime
from tests.runtime.one_thread import replace_here

ANY = Address("127.0.0.1", 0)
DEADLINE_S = 30


class End:
    """One node's end: received messages, and peers that were reported as absent."""

    def __init__(self, transport: TcpTransport) -> None:
        self.transport = transport
        self.heard: list[Message] = []
        self.away: list[int] = []
        transport.attach(self.heard.append, self.away.append)


@asynccontextmanager
async def end(
    node_id: int,
    address: Address = ANY,
    cluster_id: str = "c",
    configured: Iterable[int] = (),
    secret: bytes = b"",
) -> AsyncIterator[End]:
    transport = await TcpTransport.listen(
        real_runtime(), address, cluster_id=cluster_id, node_id=node_id, configured=configured, secret=secret
    )
    try:
        yield End(transport)
    finally:
        await transport.stop()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.002)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """On asyncio's own loop and on uvloop: their transports are relatives, not the same."""

    @wraps(test)
    def wrapped(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))
        uvloop.run(test(*arguments, **named))

    return wrapped


def heartbeat(to: int, sender: int, commit: int = 0, term: int = 1) -> Message:
    return Message(MessageKind.HEARTBEAT, to, sender, term, commit=commit)


@on_a_loop
async def test_messages_arrive_in_order_both_ways() -> None:
    async with end(1) as one, end(2) as two:
        peers = {1: one.transport.address, 2: two.transport.address}
        one.transport.update_peers(peers)
        two.transport.update_peers(peers)
        await until(lambda: one.transport.connected(2) and two.transport.connected(1))
        for commit in range(1000):
            one.transport.send(2, heartbeat(2, 1, commit))
            two.transport.send(1, heartbeat(1, 2, commit))
        await until(lambda: len(one.heard) == len(two.heard) == 1000)
        assert [message.commit for message in two.heard] == list(range(1000))
        assert [message.commit for message in one.heard] == list(range(1000))


@on_a_loop
async def test_a_large_message_arrives_whole() -> None:
    async with end(1) as one, end(2) as two:
        one.transport.update_peers({2: two.transport.address})
        await until(lambda: one.transport.connected(2))
        sent = Message(MessageKind.APPEND, 2, 1, 1, 1, 1, (Entry(1, 2, EntryKind.NORMAL, b"x" * 5_000_000),))
        one.transport.send(2, sent)
        await until(lambda: bool(two.heard))
        assert two.heard == [sent]


@on_a_loop
async def test_a_peer_without_a_known_address_is_answered_on_its_own_stream() -> None:
    """A joining node knows no addresses; it must still receive the leader's messages."""
    async with end(1) as one, end(2) as two:
        one.transport.update_peers({2: two.transport.address})
        await until(lambda: one.transport.connected(2))
        one.transport.send(2, heartbeat(2, 1))
        await until(lambda: bool(two.heard))
        two.transport.send(1, Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 1))
        await until(lambda: bool(one.heard))
        assert one.heard[0].kind is MessageKind.HEARTBEAT_REPLY


@on_a_loop
async def test_the_end_of_a_peers_own_stream_is_reported() -> None:
    """Data sent on it may be lost. A leader that sent a snapshot must not wait for the response."""
    async with end(2) as two:
        async with end(1) as one:
            one.transport.update_peers({2: two.transport.address})
            await until(lambda: one.transport.connected(2))
            two.transport.send(1, heartbeat(1, 2))
            await until(lambda: bool(one.heard))
            assert two.away == []
        await until(lambda: two.away == [1])


@on_a_loop
async def test_an_absent_peer_is_reported_and_nothing_is_kept_for_it_but_votes() -> None:
    """Appends would be outdated when it is back; the core asks for its position and sends the missing entries."""
    async with end(1) as one:
        async with end(2) as two:
            address = two.transport.address
        one.transport.update_peers({2: address})
        for commit in range(10):
            one.transport.send(2, heartbeat(2, 1, commit))
        one.transport.send(2, Message(MessageKind.PRE_VOTE, 2, 1, 4))
        one.transport.send(2, Message(MessageKind.PRE_VOTE, 2, 1, 5))
        assert one.away.count(2) >= 10
        async with end(2, address) as two:
            await until(lambda: bool(two.heard))
            one.transport.send(2, heartbeat(2, 1, 77))
            await until(lambda: len(two.heard) == 2)
            assert [(message.kind, message.term) for message in two.heard] == [
                (MessageKind.PRE_VOTE, 5),
                (MessageKind.HEARTBEAT, 1),
            ]


@on_a_loop
async def test_a_peer_that_comes_back_is_found_again() -> None:
    async with end(1) as one:
        async with end(2) as two:
            address = two.transport.address
            one.transport.update_peers({2: address})
            await until(lambda: one.transport.connected(2))
        await until(lambda: not one.transport.connected(2))
        assert 2 in one.away
        async with end(2, address) as two:
            await until(lambda: one.transport.connected(2))
            one.transport.send(2, heartbeat(2, 1))
            await until(lambda: len(two.heard) == 1)


@on_a_loop
async def test_attempts_back_off_from_50_ms_to_1_s(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    real_sleep = asyncio.sleep

    async def sleep(delay: float) -> None:
        waits.append(delay)
        await real_sleep(0)

    replace_here(monkeypatch, "asyncio.sleep", sleep)
    async with end(1) as one:
        async with end(2) as two:
            address = two.transport.address
        one.transport.update_peers({2: address})
        async with asyncio.timeout(DEADLINE_S):
            while len(waits) < 7:
                await real_sleep(0.001)
    assert (BACKOFF_MS_MIN, BACKOFF_MS_MAX) == (50, 1000)
    assert waits[:7] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def hello(sender: int = 2, wanted: int = 1, cluster_id: str = "c") -> bytes:
    return frame(Hello(sender, wanted, cluster_id).encode())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "bytes, 512 are allowed"),
        (frame(b"garbage"), "invalid hello"),
        (b"\xff" * 64, "bytes, 512 are allowed"),
        (hello(cluster_id="other"), "belongs to cluster 'other'"),
        (hello(wanted=7), "looks for node 7"),
        (hello(sender=1), "says it is node 1"),
        (hello() + frame(b"no message"), "not a message"),
        (hello() + frame(encode_message(heartbeat(9, 2))), "from 2 to 9"),
        (hello() + frame(encode_message(heartbeat(1, 3))), "from 3 to 1"),
        (hello() + b"\xff\xff\xff\xff\x00\x00\x00\x00", "4294967295 bytes"),
    ],
)
@on_a_loop
async def test_a_stranger_is_refused_with_one_line_and_nothing_changes(
    data: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with end(1) as one:
        with caplog.at_level(logging.WARNING, "chronik.raft"):
            reader, writer = await asyncio.open_connection(*one.transport.address)
            writer.write(data)
            async with asyncio.timeout(DEADLINE_S):
                with suppress(ConnectionResetError):
                    while await reader.read(1000):
                        pass
            writer.close()
        assert one.heard == []
        assert [record for record in caplog.records if why in record.getMessage()], caplog.text
        assert len(caplog.records) == 1
        caplog.clear()


@on_a_loop
async def test_a_node_of_another_cluster_at_a_peers_address_is_not_talked_to() -> None:
    async with end(1) as one, end(2, cluster_id="other", configured=[1]) as two:
        one.transport.update_peers({2: two.transport.address})
        await until(lambda: one.away.count(2) >= 2)
        assert not one.transport.connected(2)
        one.transport.send(2, heartbeat(2, 1))
        assert two.heard == []
        assert two.transport.strangers == {1: one.transport.cluster_id}, "an operator will want to know"


@on_a_loop
async def test_a_member_that_left_is_let_go() -> None:
    async with end(1) as one, end(2) as two:
        one.transport.update_peers({2: two.transport.address})
        await until(lambda: one.transport.connected(2))
        one.transport.update_peers({})
        assert not one.transport.connected(2)
        one.transport.send(2, heartbeat(2, 1))
        assert one.away[-1] == 2


def test_a_peer_that_accepts_and_says_nothing_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that loses power after the handshake sends nothing, and no packet is in flight that would be refused
    when it is back. Without a deadline the stream would wait for its hello forever."""
    monkeypatch.setattr("chronik.raft.streams.HELLO_TIMEOUT_S", 0.01)

    async def story() -> None:
        accepted: list[asyncio.Transport] = []

        class Silent(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted.append(transport)  # type: ignore[arg-type]

        silent = await real_runtime().network.listen("127.0.0.1", 0, Silent)
        async with end(1) as one:
            one.transport.update_peers({2: Address(silent.host, silent.port)})
            await until(lambda: len(accepted) >= 2)
        silent.close()
        for transport in accepted:
            transport.abort()
        await asyncio.sleep(0)

    asyncio.run(story())


@on_a_loop
async def test_an_address_that_can_be_none_is_tried_like_one_that_does_not_answer() -> None:
    """A malformed host name or port fails in other ways than a silent one; the link must outlive them all."""
    async with end(1) as one:
        one.transport.update_peers({2: Address("a" * 64 + ".example", 9093), 3: Address("127.0.0.1", 70_000)})
        await until(lambda: one.away.count(2) > 1 and one.away.count(3) > 1)
