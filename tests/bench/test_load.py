"""The load in virtual time: due requests are sent, and the delays of a slow broker are measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from chronik.bench.load import Load, Totals
from tests.client.machine import Machine


class FakeWorker:
    """Answers after as long as `takes_s` says; None is never, and below 0 is an error."""

    def __init__(self, load: Load, takes_s: Callable[[float], float | None]) -> None:
        self._load, self._takes_s = load, takes_s
        self.due_ns = 0
        self.open_count = 0
        self.began: list[int] = []

    async def open(self) -> None:
        self.open_count += 1

    def begin(self, due_ns: int) -> None:
        assert self.due_ns == 0, "one request in flight"
        self.due_ns = max(1, due_ns)
        self.began.append(due_ns)
        loop = asyncio.get_running_loop()
        takes_s = self._takes_s(loop.time())
        if takes_s is not None and takes_s < 0:
            loop.call_soon(self._load.failed, self, "NOT_LEADER_OR_FOLLOWER")
        elif takes_s is not None:
            loop.call_later(takes_s, self._load.done, self, 2, 100)

    def close(self) -> None:
        pass


def run(
    count: int, takes_s: Callable[[float], float | None], *, seconds: float = 10, rate: int | None = None
) -> tuple[Totals, list[FakeWorker]]:
    machine = Machine()

    async def work() -> tuple[Totals, list[FakeWorker]]:
        load = Load(rate=rate, clock_ns=machine.clock.monotonic_ns)
        workers = [FakeWorker(load, takes_s) for _ in range(count)]
        return await load.run(workers, seconds), workers

    return machine.run(work())


def test_without_a_rate_every_worker_keeps_one_request_in_flight() -> None:
    """As fast as the broker goes: 4 workers at 10 ms each are 400 requests a second."""
    totals, _ = run(4, lambda now: 0.010)
    assert totals.request_count == pytest.approx(4_000, rel=0.01)
    assert totals.message_count == 2 * totals.request_count
    assert totals.byte_count == 100 * totals.request_count
    assert totals.latency.percentile(99) == pytest.approx(10_000, rel=0.01)
    assert totals.errors == {}


def test_with_a_rate_requests_go_out_when_they_are_due() -> None:
    """Neither sooner because workers are free, nor later."""
    totals, workers = run(50, lambda now: 0.010, rate=3_000)
    assert totals.request_count == pytest.approx(30_000, rel=0.01)
    due = sorted(each for worker in workers for each in worker.began)
    assert due == [index * 10**9 // 3_000 for index in range(len(due))]  # three in each tick of 1 ms
    assert totals.latency.percentile(99) == pytest.approx(10_000, rel=0.15)  # and a tick of 1 ms


def test_a_stall_is_charged_for_everything_that_fell_due_in_it() -> None:
    """Nothing is answered for one second in ten: a tenth of all requests waits, half a second on average."""

    def stalls(now: float) -> float:
        return 0.001 if not 5 <= now < 6 else 6.001 - now

    totals, _ = run(10, stalls, rate=1_000)
    assert totals.latency.percentile(85) < 3_000
    assert totals.latency.percentile(95) == pytest.approx(550_000, rel=0.1)  # the backlog takes 0.1 s
    assert totals.latency.percentile(99) == pytest.approx(900_000, rel=0.1)


def test_without_a_rate_a_stall_is_made_up_for() -> None:
    """Ten workers see one long answer each in ten seconds; a tenth of the time was spent waiting all the same."""

    def stalls(now: float) -> float:
        return 0.001 if not 5 <= now < 6 else 6.001 - now

    totals, _ = run(10, stalls)
    assert totals.latency.percentile(85) < 3_000
    assert totals.latency.percentile(99) > 700_000


def test_what_is_never_answered_counts_with_the_time_it_has_taken() -> None:
    """A broker that hangs must not look quick because its slowest answers are missing."""
    totals, _ = run(10, lambda now: 0.001 if now < 5 else None, rate=100)
    assert totals.request_count == pytest.approx(500, abs=5)
    assert totals.latency.count == pytest.approx(1_000, abs=5)
    assert totals.latency.largest == pytest.approx(5_000_000, rel=0.01)


def test_an_error_is_counted_by_name_and_the_worker_looks_for_its_place_again() -> None:
    """A leader that moves costs some errors, not the rest of the run."""
    totals, workers = run(3, lambda now: -1 if now < 1 else 0.01)
    assert set(totals.errors) == {"NOT_LEADER_OR_FOLLOWER"}
    assert 3 <= totals.errors["NOT_LEADER_OR_FOLLOWER"] <= 33
    assert all(worker.open_count > 0 for worker in workers)
    assert totals.message_count > 1_000


@pytest.mark.parametrize("rate", [None, 100])
def test_who_is_refused_and_then_loses_its_connection_looks_for_its_place_once(rate: int | None) -> None:
    """A broker that stops first reports that it is not the leader, and then disconnects: two lookups would end in two
    requests."""

    machine = Machine()

    async def scenario() -> None:
        load = Load(rate=rate, clock_ns=machine.clock.monotonic_ns)
        worker = FakeWorker(load, lambda now: 0.01 if worker.open_count else -1)
        asyncio.get_running_loop().call_later(0.03, load.failed, worker, "connection lost")
        totals = await load.run([worker], 0.5)
        assert worker.open_count == 1
        assert totals.errors == {"NOT_LEADER_OR_FOLLOWER": 1, "connection lost": 1}

    machine.run(scenario())


def test_who_loses_its_connection_between_two_requests_gets_none_until_it_has_another() -> None:
    """A broker that dies under a paced load causes errors; the pace continues as soon as it is back."""
    machine = Machine()

    class Cut(FakeWorker):
        is_open = True

        async def open(self) -> None:
            await asyncio.sleep(1)
            self.is_open = True

        def begin(self, due_ns: int) -> None:
            assert self.is_open, "there is no connection to send it on"
            super().begin(due_ns)

        def cut(self, load: Load) -> None:
            self.is_open = False
            load.failed(self, "connection lost")

    async def work() -> Totals:
        load = Load(rate=100, clock_ns=machine.clock.monotonic_ns)
        workers = [Cut(load, lambda now: 0.001) for _ in range(4)]
        for worker in workers:
            asyncio.get_running_loop().call_later(3.005, worker.cut, load)
        return await load.run(workers, 10)

    totals = machine.run(work())
    assert totals.errors == {"connection lost": 4}
    assert totals.request_count == pytest.approx(1_000, abs=2), "what fell due meanwhile is sent late"


def test_a_rate_above_what_the_broker_can_do_shows_in_the_latency() -> None:
    """Twice the load that fits: after ten seconds requests are five seconds late."""
    totals, _ = run(1, lambda now: 0.010, rate=200)
    assert totals.request_count == pytest.approx(1_000, rel=0.01)
    assert totals.latency.largest == pytest.approx(5_000_000, rel=0.05)
