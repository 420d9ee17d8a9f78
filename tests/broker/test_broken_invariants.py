"""A node that has broken an invariant acknowledges nothing more, whichever of its parts found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chronik.broker.connections import Connections
from chronik.broker.fetch_sessions import FetchSessions
from chronik.broker.memory import MemoryBudget
from chronik.broker.node import Node
from chronik.broker.portions import Portions
from chronik.broker.turns import Turns
from chronik.runtime.invariants import InvariantBroken, broken
from chronik.runtime.tasks import Tasks
from chronik.sim.disk import SimDisk
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.broker.harness import Client, TestClock, start_node
from tests.broker.hostile import run


def fail() -> None:
    broken("10 held", partition="t-0")


async def fail_later() -> None:
    fail()


def in_a_callback(node: Node) -> None:
    asyncio.get_running_loop().call_soon(fail)


def in_a_task_of_a_client(node: Node) -> None:
    node.tasks.start("work", fail_later())


def in_a_duty(node: Node) -> None:
    node.duties.start("work", fail_later())


def in_a_task_of_the_quorum(node: Node) -> None:
    Tasks("raft-1").start("link", fail_later())


def on_a_lane(node: Node) -> None:
    async def wait() -> None:
        await node.record_lane.run(fail)

    node.tasks.start("work", wait())


def in_a_round_of_the_disk(node: Node) -> None:
    lane_ended = node.record_lane.run(lambda: None)
    lane_ended.add_done_callback(lambda _: fail())


def in_the_quorum(node: Node) -> None:
    node.store.raft._guarded(fail)


WAYS: list[Callable[[Node], None]] = [
    in_a_callback,
    in_a_task_of_a_client,
    in_a_duty,
    in_a_task_of_the_quorum,
    on_a_lane,
    in_a_round_of_the_disk,
    in_the_quorum,
]


@pytest.mark.parametrize("way", WAYS)
def test_wherever_it_is_broken_the_node_stops(way: Callable[[Node], None]) -> None:
    """Its clients are disconnected, because a response from a wrong state could mean lost records."""

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # no traceback in the test's log
        node = await start_node(SimDisk(0))
        client = Client(node)
        await client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0)
        way(node)
        with pytest.raises(Exception, match=r"invariant 10 held \(partition t-0\)"):
            await asyncio.wait_for(node.wait_stopped(), 5)
        assert client.is_closed
        assert node.failure is not None

    run(test())


def budget() -> MemoryBudget:
    made = MemoryBudget(100)
    assert made.take(60, "h")
    return made


async def turns_without_a_turn() -> None:
    turns = Turns(TestClock())
    turns._queue.append(lambda: None)
    turns.wait(lambda: None)


async def a_piece_of_nothing() -> None:
    def idle() -> object:
        while True:
            yield 0

    Turns(TestClock()).step(idle(), 1)  # type: ignore[arg-type]


async def more_frames_given_back() -> None:
    budget().give_back(61, "h")


async def another_address_gives_back() -> None:
    budget().give_back(10, "other")


async def less_than_nothing_unsent() -> None:
    budget().hold_unsent(-1)


async def less_than_nothing_kept() -> None:
    budget().keep(-1)


async def a_portion_out_of_bounds() -> None:
    portions = Portions()
    portions._usual_bytes = 1
    portions._end_trial()


async def sessions_of_nobody() -> None:
    sessions = FetchSessions(3, lambda bound: 1)
    session = sessions._begin(by_id=False)
    assert session is not None
    sessions._held_bytes = 5
    sessions._forget(session.session_id)


async def a_node_that_begins_twice() -> None:
    connections = Connections(TestClock(), connections_max=1, idle_ms_max=-1)
    connections.begin()
    connections.begin()


@pytest.mark.parametrize(
    ("promise", "act"),
    [
        ("25 who waits for a turn", turns_without_a_turn),
        ("23 a piece of work", a_piece_of_nothing),
        ("26 no frame", more_frames_given_back),
        ("26 no frame", another_address_gives_back),
        ("26 replies", less_than_nothing_unsent),
        ("26 what is kept", less_than_nothing_kept),
        ("23 portions", a_portion_out_of_bounds),
        ("26 sessions", sessions_of_nobody),
        ("30 a node", a_node_that_begins_twice),
    ],
)
def test_books_that_do_not_balance_stop_the_node(promise: str, act: Callable[[], Awaitable[None]]) -> None:
    """A wrong counter leads to a node that refuses every client, days later."""

    async def test() -> None:
        with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
            await act()

    run(test())
