"""Turns of the loop: work is cut into pieces, shared fairly, and none of it is lost."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from chronik.broker.turns import PIECES_FIRST, PIECES_NOTICED, PIECES_PER_TURN, PIECES_QUEUED, TURN_NS, Turns
from chronik.runtime.pieces import Work, at_once, each, each_light
from tests.broker.harness import TestClock


def counting(name: str, done: list[str], count: int) -> Work[str]:
    for _ in range(count):
        done.append(name)
        yield 1
    return name


def test_short_work_is_done_at_once() -> None:
    """Nearly all requests are short, and must not pay for a queue."""

    async def story() -> None:
        turns, done = Turns(TestClock()), list[str]()
        with pytest.raises(StopIteration) as end:
            turns.step(counting("short", done, PIECES_FIRST - 1), PIECES_FIRST)
        assert end.value.value == "short"
        assert len(turns) == 0

    asyncio.run(story())


def test_long_work_leaves_room_in_each_turn() -> None:
    """Whatever the length and the number of computations, a turn does half of its pieces for them at most."""

    async def story() -> None:
        turns, done = Turns(TestClock()), list[str]()
        results = [turns.finish(counting(f"work {n}", done, 3_000)) for n in range(10)]
        while not all(result.done() for result in results):
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) - before <= PIECES_QUEUED + PIECES_QUEUED // 10
        assert [result.result() for result in results] == [f"work {n}" for n in range(10)]
        assert len(done) == 30_000

    asyncio.run(story())


def test_a_small_computation_does_not_wait_for_a_large_one() -> None:
    async def story() -> None:
        turns, done = Turns(TestClock()), list[str]()
        large = turns.finish(counting("large", done, 100_000))
        small = turns.finish(counting("small", done, 100))
        await small
        assert done.count("large") < 1_000
        large.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(turns) == 0, "who has gone is not worked for"

    asyncio.run(story())


def test_what_a_computation_raises_reaches_who_waits_for_it() -> None:
    async def story() -> None:
        turns, done = Turns(TestClock()), list[str]()

        def failing() -> Work[None]:
            yield 100
            raise ValueError("no")

        other = turns.finish(counting("other", done, 1_000))
        with pytest.raises(ValueError, match="no"):
            await turns.run(failing())
        assert await other == "other"

    asyncio.run(story())


@pytest.mark.parametrize("ending", ["returns", "raises", "is cancelled"])
def test_what_a_computation_made_is_freed_with_its_last_user(ending: str) -> None:
    """A response may have 100,000 objects. In a cycle, only a full collection frees them, and it blocks the loop
    meanwhile."""

    class Response:
        pass

    made: list[weakref.ref[Response]] = []

    def work() -> Work[Response]:
        response = Response()
        made.append(weakref.ref(response))
        for _ in range(PIECES_PER_TURN):
            yield 1
        if ending == "raises":
            raise ValueError
        return response

    async def story() -> None:
        results = [Turns(TestClock()).finish(work())]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if ending == "is cancelled":
            results[0].cancel()
        with suppress(ValueError, asyncio.CancelledError):
            await results.pop()  # this frame is part of the traceback, and must not keep the future

    gc.disable()
    try:
        asyncio.run(story())
        assert [response() for response in made] == [None]
    finally:
        gc.enable()


def test_a_coroutine_gives_way_when_a_turn_is_over() -> None:
    async def story() -> None:
        turns = Turns(TestClock())
        seen: list[int] = []
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        for n in range(10 * PIECES_PER_TURN):
            seen.append(n)
            await turns.piece()
        assert ticks >= 10
        ticking.cancel()

    asyncio.run(story())


def test_pieces_that_take_longer_than_they_should_end_a_turn_early() -> None:
    """Measured by the clock, because the cost of a piece is an estimate."""

    async def story() -> None:
        clock = TestClock()
        turns = Turns(clock)
        started = 0
        while not turns.pieces >= PIECES_PER_TURN:
            turns.spend()
            started += 1
            clock.now_ms += 5
        assert started <= PIECES_NOTICED + TURN_NS // 5_000_000 + 1
        assert turns.holds.longest_ns(clock.monotonic_ns()) == 0
        await asyncio.sleep(0)
        assert turns.holds.longest_ns(clock.monotonic_ns()) > TURN_NS, "and it is known how long the others waited"
        clock.now_ms += 60_001
        assert turns.holds.longest_ns(clock.monotonic_ns()) > TURN_NS, "for as long as a scrape may take to come"
        clock.now_ms += 120_001
        assert turns.holds.longest_ns(clock.monotonic_ns()) == 0

    asyncio.run(story())


def test_a_list_made_in_pieces_is_the_list() -> None:
    assert at_once(each(str, range(100))) == at_once(each_light(str, range(100))) == [str(n) for n in range(100)]
    assert sum(each(str, range(100), 3)) == 300
    assert sum(each_light(str, range(160))) == 10
