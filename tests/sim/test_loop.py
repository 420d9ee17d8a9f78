"""Virtual time: asyncio behaves as on a real loop, and nothing waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from chronik.runtime.units import NS_PER_MS, NS_PER_S
from chronik.sim.errors import Deadlock, Livelock
from chronik.sim.loop import ProcessLoop, VirtualTime


def make(rate_ppm: int = 0) -> tuple[VirtualTime, ProcessLoop]:
    world = VirtualTime()
    loop = world.process("p", rate_ppm=rate_ppm)
    loop.on_unhandled = lambda context: pytest.fail(str(context))
    return world, loop


def test_an_hour_of_sleep_takes_no_time() -> None:
    world, loop = make()
    task = loop.create_task(asyncio.sleep(3600, "slept"))
    assert world.run_until(task.done, within_ms=3_600_001)
    assert (task.result(), world.now_ns) == ("slept", 3600 * NS_PER_S)


def test_callbacks_of_one_moment_run_in_the_order_they_were_asked_for() -> None:
    world, loop = make()
    seen: list[int] = []
    for number in (3, 1, 2):
        loop.call_later(0.5, seen.append, number)
    loop.call_soon(seen.append, 0)
    world.run_for(1000)
    assert seen == [0, 3, 1, 2]


def test_waiting_with_a_deadline_and_among_many_works_as_ever() -> None:
    world, loop = make()

    async def story() -> list[object]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.sleep(5)
        lock, event = asyncio.Lock(), asyncio.Event()
        loop.call_later(1, event.set)
        async with lock:
            await event.wait()
        return await asyncio.gather(asyncio.sleep(2, "a"), asyncio.sleep(1, "b"))

    task = loop.create_task(story())
    assert world.run_until(task.done, within_ms=10_000)
    assert task.result() == ["a", "b"]
    assert world.now_ms == 4000


def test_a_clock_that_runs_fast_ends_its_timers_early_for_the_world_and_on_time_for_itself() -> None:
    world, loop = make(rate_ppm=5000)
    woken: list[tuple[int, float]] = []
    end_s = loop.time() + 10
    loop.call_at(end_s, lambda: woken.append((world.now_ns, loop.time())))
    world.run_for(20_000)
    ((world_ns, own_s),) = woken
    assert world_ns < 9_960 * NS_PER_MS
    assert own_s >= end_s


def test_a_paused_process_makes_up_for_everything_in_order() -> None:
    world, loop = make()
    seen: list[int] = []
    for second in (1, 2, 3):
        loop.call_later(second, seen.append, second)
    world.after_ms(1500, loop.pause)
    world.after_ms(5000, loop.resume)
    world.run_for(4000)
    assert seen == [1]
    world.run_for(2000)
    assert seen == [1, 2, 3]


def test_nothing_of_a_killed_process_runs_any_more() -> None:
    """Not even a `finally`: a killed process does not clean up."""
    world, loop = make()
    seen: list[str] = []

    async def story() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            seen.append("finally")

    task = loop.create_task(story())
    world.run_for(1000)
    loop.call_later(1, seen.append, "later")
    loop.kill()
    loop.call_soon(seen.append, "soon")
    world.after_ms(20_000, lambda: None)
    world.run_for(20_000)
    assert seen == []
    assert not task.done()


def never() -> bool:
    return False


def _deadlock(loop: ProcessLoop) -> None:
    async def waits_for_nobody() -> None:
        await loop.create_future()

    loop.create_task(waits_for_nobody(), name="waits for nobody")


def _livelock(loop: ProcessLoop) -> None:
    def again() -> None:
        loop.call_soon(again)

    again()


@pytest.mark.parametrize(
    ("bad", "error", "says"), [(_deadlock, Deadlock, "p: waits for nobody in"), (_livelock, Livelock, "again")]
)
def test_a_world_that_cannot_go_on_says_why(
    bad: Callable[[ProcessLoop], None], error: type[Exception], says: str
) -> None:
    world, loop = make()
    bad(loop)
    with pytest.raises(error, match=says):
        world.run_until(never, within_ms=1000)
    loop.kill()
