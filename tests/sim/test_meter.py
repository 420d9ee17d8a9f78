"""Computing takes virtual time: a busy process is late, and code that blocks its loop for too long is found."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from chronik.broker.turns import Turns
from chronik.runtime.units import NS_PER_MS
from chronik.sim import charging
from chronik.sim.clock import SimClock
from chronik.sim.disk import SimDisk
from chronik.sim.loop import ProcessLoop, VirtualTime
from chronik.sim.meter import CALLBACK_NS, HOLD_NS_MAX, Meter
from chronik.sim.prices import PIECE_NS


def make(percent: int = 100) -> tuple[VirtualTime, ProcessLoop, Meter, list[int]]:
    world = VirtualTime()
    loop = world.process("p")
    loop.on_unhandled = lambda context: pytest.fail(str(context))
    holds: list[int] = []
    meter = loop.meter = Meter(percent, lambda spent_ns, where: holds.append(spent_ns))
    return world, loop, meter, holds


def test_a_callback_waits_for_the_one_before_it() -> None:
    world, loop, meter, _ = make()
    seen: list[tuple[str, int]] = []
    loop.call_soon(lambda: meter.charge(30 * NS_PER_MS))
    loop.call_soon(lambda: seen.append(("next", world.now_ns)))
    loop.call_later(0.01, lambda: seen.append(("timer", world.now_ns)))
    world.run_for(100)
    assert [name for name, _ in seen] == ["next", "timer"]
    assert all(at_ns >= 30 * NS_PER_MS for _, at_ns in seen)


def test_the_clock_of_a_process_advances_while_it_computes() -> None:
    """So a computation that reads the clock can stop in time."""
    world, loop, meter, _ = make()
    clock = SimClock(loop)
    read: list[int] = []

    def compute() -> None:
        read.append(clock.monotonic_ns())
        meter.charge(20 * NS_PER_MS)
        read.append(clock.monotonic_ns())

    loop.call_soon(compute)
    loop.call_soon(lambda: read.append(clock.monotonic_ns()))
    world.run_for(100)
    assert read == sorted(read)
    assert read[1] - read[0] == 20 * NS_PER_MS


def test_whoever_looks_at_a_process_sees_what_it_did_when_it_is_done() -> None:
    """Nodes are compared with each other at one moment of the world: none of them may be ahead of it."""
    world, loop, meter, _ = make()
    looked: list[int] = []
    loop.after_each = lambda: looked.append(world.now_ns)
    loop.call_soon(lambda: meter.charge(30 * NS_PER_MS))
    world.run_for(100)
    assert looked == [30 * NS_PER_MS + CALLBACK_NS]


def test_a_callback_that_holds_the_loop_is_told() -> None:
    world, loop, meter, holds = make()
    loop.call_soon(lambda: meter.charge(HOLD_NS_MAX - CALLBACK_NS))
    world.run_for(1000)
    assert holds == []
    loop.call_soon(lambda: meter.charge(HOLD_NS_MAX))
    world.run_for(1000)
    assert holds == [HOLD_NS_MAX + CALLBACK_NS]


def test_a_slow_machine_takes_longer_for_everything() -> None:
    world, loop, meter, _ = make(percent=300)
    loop.call_soon(lambda: meter.charge(NS_PER_MS))
    world.run_for(100)
    assert meter.longest_ns == 3 * (NS_PER_MS + CALLBACK_NS)


def test_what_a_lane_does_costs_the_loop_nothing() -> None:
    world, loop, meter, _ = make()
    disk = SimDisk(0)
    disk.meter = meter

    async def story() -> None:
        file = disk.open("/file", create=True)
        await disk.lane("lane").sync([file])

    task = loop.create_task(story())
    world.run_until(task.done, within_ms=1000)
    assert task.exception() is None
    assert meter.longest_ns < NS_PER_MS
    loop.call_soon(lambda: disk.open("/file").sync())
    world.run_for(100)
    assert meter.longest_ns > NS_PER_MS


def test_a_paused_process_keeps_what_was_waiting_in_order() -> None:
    world, loop, meter, _ = make()
    seen: list[int] = []
    loop.call_soon(lambda: meter.charge(30 * NS_PER_MS))
    for number in (1, 2, 3):
        loop.call_soon(seen.append, number)
    world.after_ms(10, loop.pause)
    world.after_ms(50, loop.resume)
    world.run_for(40)
    assert seen == []
    world.run_for(40)
    assert seen == [1, 2, 3]


def test_the_products_methods_are_charged_for_while_a_world_runs_and_as_before_behind_it() -> None:
    before = [each.owner.__dict__[each.method] for each in charging.CHARGED]
    world, loop, meter, _ = make()

    async def story() -> None:
        Turns(SimClock(loop)).spend(100)

    with charging.charging(is_on=True):
        task = loop.create_task(story())
        world.run_until(task.done, within_ms=1000)
    assert meter.longest_ns == CALLBACK_NS + 100 * PIECE_NS
    assert [each.owner.__dict__[each.method] for each in charging.CHARGED] == before


@pytest.mark.parametrize("each", [each for each in charging.CHARGED if callable(each.price) and not each.is_after])
def test_a_price_takes_what_its_method_takes(each: charging.Charged) -> None:
    """By position and by name. Otherwise the product's call fails in a simulation, and only there."""
    assert callable(each.price)
    price, takes = (
        inspect.signature(each.price),
        inspect.signature(each.owner.__dict__[each.method]).parameters.values(),
    )
    price.bind(*takes)
    price.bind(
        *[one for one in takes if one.default is one.empty],
        **{one.name: one for one in takes if one.default is not one.empty},
    )


def test_processes_without_a_meter_take_no_time() -> None:
    world = VirtualTime()
    loop = world.process("p")
    task = loop.create_task(asyncio.sleep(0))
    world.run_until(task.done, within_ms=1000)
    assert world.now_ns == 0
