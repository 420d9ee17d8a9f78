"""Deadlines by key, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.coordinator.timers import ACTIONS_PER_SLICE, Timers
from tests.coordinator.virtual import FakeClock, let_everything_happen, run_virtually


def on_virtual_time(play: Callable[[Timers, FakeClock], Coroutine[Any, Any, None]]) -> None:
    clock = FakeClock()

    async def main() -> None:
        await play(Timers(clock), clock)

    run_virtually(main(), clock)


def test_an_action_runs_at_its_deadline_and_only_once() -> None:
    """A session that ended early would drop a healthy member; one that ended twice would drop its successor."""

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[int] = []
        timers.set("a", 100, lambda: ran.append(clock.now_ns // 1_000_000))
        await asyncio.sleep(0.099)
        assert ran == []
        await asyncio.sleep(10)
        assert ran == [100]

    on_virtual_time(play)


def test_setting_again_moves_the_deadline_in_both_directions() -> None:
    """Heartbeats move it back; the end of a round moves it forward."""

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[tuple[str, int]] = []

        def note(name: str) -> Callable[[], None]:
            return lambda: ran.append((name, clock.now_ns // 1_000_000))

        timers.set("later", 100, note("first"))
        timers.set("later", 300, note("later"))
        timers.set("sooner", 200, note("first"))
        timers.set("sooner", 50, note("sooner"))
        timers.set("back and forth", 400, note("first"))
        timers.set("back and forth", 10, note("first"))
        timers.set("back and forth", 500, note("back and forth"))
        await asyncio.sleep(10)
        assert ran == [("sooner", 50), ("later", 300), ("back and forth", 500)]

    on_virtual_time(play)


def test_cancelled_and_cleared_deadlines_never_run() -> None:
    """A timer must not restore a deleted group."""

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[str] = []
        timers.set("a", 10, lambda: ran.append("a"))
        timers.set("b", 10, lambda: ran.append("b"))
        timers.cancel("a")
        await asyncio.sleep(1)
        assert ran == ["b"]
        timers.set("c", 10, lambda: ran.append("c"))
        timers.clear()
        await asyncio.sleep(1)
        timers.set("d", 10, lambda: ran.append("d"))
        await asyncio.sleep(1)
        assert ran == ["b", "d"]

    on_virtual_time(play)


def test_deadlines_that_fall_due_together_are_worked_off_in_slices() -> None:
    """A thousand sessions that expire together must not block the loop."""

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[int] = []
        for number in range(5 * ACTIONS_PER_SLICE):
            timers.set(number, 10, lambda number=number: ran.append(number))  # type: ignore[misc]
        await asyncio.sleep(0.010)
        assert len(ran) <= ACTIONS_PER_SLICE
        await let_everything_happen()
        assert ran == list(range(5 * ACTIONS_PER_SLICE))

    on_virtual_time(play)


def test_an_action_may_set_its_own_key_again() -> None:
    """The initial delay of a group prolongs itself while members arrive."""

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[int] = []

        def again() -> None:
            ran.append(clock.now_ns // 1_000_000)
            if len(ran) < 3:
                timers.set("a", 100, again)

        timers.set("a", 100, again)
        await asyncio.sleep(10)
        assert ran == [100, 200, 300]

    on_virtual_time(play)


commands = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 5), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("sleep"), st.just(0), st.integers(1, 30)),
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(commands)
def test_timers_agree_with_a_list_that_is_searched(script: list[tuple[str, int, int]]) -> None:
    """The lazy heap is an optimisation of this: check every deadline every millisecond."""
    expected: list[tuple[int, int]] = []
    deadlines: dict[int, int] = {}
    now = 0
    for verb, key, number in [*script, ("sleep", 0, 1000)]:
        if verb == "set":
            deadlines[key] = now + number
        elif verb == "cancel":
            deadlines.pop(key, None)
        else:
            for moment in range(now, now + number + 1):
                due = [each for each, deadline in deadlines.items() if deadline <= moment]
                for each in due:
                    del deadlines[each]
                    expected.append((moment, each))
            now += number

    async def play(timers: Timers, clock: FakeClock) -> None:
        ran: list[tuple[int, int]] = []
        for verb, key, number in [*script, ("sleep", 0, 1000)]:
            if verb == "set":
                timers.set(key, number, lambda key=key: ran.append((clock.now_ns // 1_000_000, key)))  # type: ignore[misc]
            elif verb == "cancel":
                timers.cancel(key)
            else:
                await let_everything_happen()
                await asyncio.sleep(number / 1000)
                await let_everything_happen()
        assert sorted(ran) == sorted(expected)

    on_virtual_time(play)
