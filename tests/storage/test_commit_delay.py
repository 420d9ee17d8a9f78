"""After a small commit round the next one starts at once; after a large one, when requests stop arriving."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.commit_delay import DELAY_S_MAX, LARGE_ROUND_WAITERS, WAITERS_ENOUGH, CommitDelay
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from tests.storage.driving import append, batch, open_logs, run, topic_id


class Turns:
    """A manual event loop: `turn` runs what was scheduled before it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._soon: list[Callable[[], None]] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def turn(self) -> None:
        soon, self._soon = self._soon, []
        for call in soon:
            call()

    @property
    def is_idle(self) -> bool:
        return not self._soon


class Rounds:
    """A journal that is nothing but its rounds: how many waited for each."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.sizes: list[int] = []
        self.delay = CommitDelay(cast("asyncio.AbstractEventLoop", self.turns), self._start)

    def come(self, count: int) -> None:
        self.delay.waiter_count += count
        self.delay.start_soon()

    def _start(self) -> None:
        self.sizes.append(self.delay.waiter_count)
        self.delay.started()


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


def after_a_large_round(rounds: Rounds) -> None:
    rounds.come(LARGE_ROUND_WAITERS)
    rounds.turns.turn()
    assert rounds.sizes == [LARGE_ROUND_WAITERS]
    rounds.sizes.clear()


def test_what_arrives_in_one_turn_shares_a_round_that_begins_behind_it(rounds: Rounds) -> None:
    rounds.come(1)
    rounds.come(2)
    assert rounds.sizes == []
    rounds.turns.turn()
    assert rounds.sizes == [3]
    assert rounds.turns.is_idle


def test_behind_a_few_the_next_round_begins_at_once(rounds: Rounds) -> None:
    rounds.come(LARGE_ROUND_WAITERS - 1)
    rounds.turns.turn()
    rounds.delay.waiter_count += 1
    rounds.delay.start_next()
    assert rounds.sizes == [LARGE_ROUND_WAITERS - 1, 1]


def test_after_a_large_round_it_waits_for_as_long_as_each_turn_brings_more(rounds: Rounds) -> None:
    after_a_large_round(rounds)
    rounds.delay.waiter_count += 1
    rounds.delay.start_next()
    for _ in range(5):
        rounds.turns.turn()
        assert rounds.sizes == []
        rounds.come(3)
    rounds.turns.turn()
    rounds.turns.turn()  # the iteration that brought no new waiters
    assert rounds.sizes == [16]
    assert rounds.turns.is_idle


def test_enough_wait_no_longer(rounds: Rounds) -> None:
    after_a_large_round(rounds)
    rounds.come(WAITERS_ENOUGH - 1)
    rounds.turns.turn()
    assert rounds.sizes == []
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == [WAITERS_ENOUGH]


def test_nobody_waits_longer_than_the_bound_however_many_come(rounds: Rounds) -> None:
    after_a_large_round(rounds)
    rounds.come(1)
    rounds.turns.turn()
    rounds.turns.now_s = DELAY_S_MAX
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == [2]


def test_one_who_comes_long_after_a_large_round_waits_for_one_turn_more_and_the_next_for_none(rounds: Rounds) -> None:
    after_a_large_round(rounds)
    rounds.come(1)
    rounds.turns.turn()
    rounds.turns.turn()
    assert rounds.sizes == [1]
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == [1, 1]


def test_the_bound_is_counted_from_who_came_first(rounds: Rounds) -> None:
    after_a_large_round(rounds)
    rounds.turns.now_s = 10 * DELAY_S_MAX
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == []
    rounds.turns.now_s += DELAY_S_MAX / 2
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == []
    rounds.turns.now_s += DELAY_S_MAX / 2
    rounds.come(1)
    rounds.turns.turn()
    assert rounds.sizes == [3]


def test_many_clients_that_come_back_a_few_at_a_time_share_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chronik.storage.commit_delay.DELAY_S_MAX", 60
    )  # turns count here, not how fast this machine is

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        made = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(16)]

        async def write(number: int) -> None:
            log = made[number]
            for _ in range(20):
                append(log, batch([b"x"]))
                written = log.when_durable(log.end_offset)
                assert written is not None
                await asyncio.shield(written)
                for _ in range(number // 2):  # each is back a little later than the one before
                    await asyncio.sleep(0)

        before = logs.journal.round_count
        await asyncio.gather(*map(write, range(16)))
        assert logs.journal.round_count - before == 20
        await logs.close()

    run(scenario)


def test_a_waiter_at_the_end_of_a_large_round_waits_for_the_others_to_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chronik.storage.commit_delay.DELAY_S_MAX", 60)

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        made = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(16)]

        def write(log: Log) -> Any:
            append(log, batch([b"x"]))
            return log.when_durable(log.end_offset)

        before = logs.journal.round_count
        disk.delay_s = 0.05
        [first] = {write(log) for log in made}
        while logs.journal.running is None:
            await asyncio.sleep(0)
        early = write(made[0])
        await first
        for log in made[1:]:
            assert write(log) is early
            await asyncio.sleep(0)
        await early
        assert logs.journal.round_count - before == 2

    run(scenario)


def test_a_journal_that_closes_finishes_the_round_that_somebody_waits_for() -> None:
    async def scenario() -> None:
        logs = await open_logs(SimDisk(1))
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a"]))
        written: Any = log.when_durable(1)
        await logs.journal.close()
        assert written.done()
        assert written.exception() is None

    run(scenario)
