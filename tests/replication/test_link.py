"""A follower's connection to its leader: numbered answers, one watchful timer, and the first reason of the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.peer.addresses import Address
from chronik.replication.errors import LeaderLost
from chronik.replication.link import FETCH_VERSION, SILENCE_MS_MAX, LeaderLink
from chronik.wire.framing import pack_size
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from tests.raft.virtual_time import run
from tests.wire.brokers import asked, reply

REQUEST = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], forgotten_topics_data=[], rack_id="")


class Transport:
    """Records written data."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.is_aborted = True


async def opened(receive: Any) -> tuple[LeaderLink, Transport]:
    link, transport = LeaderLink(Address("leader", 9092), "broker-1-fetcher", receive), Transport()
    link.connection_made(transport)  # type: ignore[arg-type]
    await link.begin()
    return link, transport


def arrive(link: LeaderLink, data: bytes) -> None:
    link.get_buffer(-1)[: len(data)] = data
    link.buffer_updated(len(data))


def answer(session_id: int, correlation_id: int) -> bytes:
    return reply(FetchResponse(session_id=session_id, responses=[]), FETCH_VERSION, correlation_id)


def test_nothing_travels_before_the_first_fetch_and_answers_carry_their_numbers() -> None:
    """Nodes of one release need not agree on versions; a leader that restarts is followed again without delay."""
    got: list[tuple[int, int]] = []

    async def story() -> None:
        link, transport = await opened(lambda response, number: got.append((response.session_id, number)))
        assert (link.is_open, transport.written) == (True, b"")
        assert [link.send(REQUEST), link.send(REQUEST), link.in_flight_count] == [1, 2, 2]
        sent = asked(transport.written, FetchRequest)
        assert [(each.version, each.header.client_id) for each in sent] == [(FETCH_VERSION, "broker-1-fetcher")] * 2
        arrive(link, b"".join(answer(7 + index, each.correlation_id) for index, each in enumerate(sent)))
        assert (got, link.in_flight_count) == ([(7, 1), (8, 2)], 0)
        link.fail(LeaderLost("over"))

    run(story)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (pack_size(-1), "leader:9092: .*a size of -1 bytes"),
        (pack_size((256 << 20) + 1), "leader:9092: .*at most 268435456"),
        (answer(7, 3), "leader:9092: .*correlation id 3, where 0 is due"),
        (pack_size(5) + bytes(5), "leader:9092: .*FetchResponse"),
    ],
)
def test_a_leader_that_does_not_keep_to_the_protocol_is_left(data: bytes, why: str) -> None:
    """The response must not be appended, and the log line must name the error."""

    async def story() -> None:
        link, transport = await opened(lambda response, number: pytest.fail("it is no answer"))
        link.send(REQUEST)
        arrive(link, data)
        assert transport.is_aborted
        assert not link.is_open
        with pytest.raises(LeaderLost, match=why):
            await link.closed

    run(story)


def test_a_fault_of_the_receiver_ends_the_link_before_the_next_answer() -> None:
    """For example a full disk. Later responses belong to a session that has ended; the fetcher gets the original
    reason."""
    got: list[int] = []

    def receive(response: FetchResponse, number: int) -> None:
        got.append(number)
        raise ZeroDivisionError

    async def story() -> None:
        link, _ = await opened(receive)
        for _ in range(2):
            link.send(REQUEST)
        arrive(link, answer(7, 0) + answer(8, 1))
        assert got == [1]
        with pytest.raises(ZeroDivisionError):
            await link.closed

    run(story)


def test_a_leader_that_is_silent_too_long_is_left() -> None:
    """A machine that loses power sends no notification."""

    async def story() -> None:
        link, transport = await opened(lambda response, number: None)
        link.send(REQUEST)
        await asyncio.sleep(SILENCE_MS_MAX / 1000 - 1)
        assert link.is_open
        await asyncio.sleep(2)
        assert transport.is_aborted
        with pytest.raises(LeaderLost, match=f"leader:9092 left a Fetch request without answer for {SILENCE_MS_MAX}"):
            await link.closed

    run(story)


def test_a_leader_that_hangs_up_is_named() -> None:
    """And later faults do not hide the first."""

    async def story() -> None:
        link, _ = await opened(lambda response, number: None)
        link.send(REQUEST)
        link.connection_lost(ConnectionResetError("reset by peer"))
        link.fail(LeaderLost("not needed any more"))
        with pytest.raises(
            LeaderLost, match="leader:9092 closed the connection before it answered Fetch: reset by peer"
        ):
            await link.closed

    run(story)
