"""Many transactional ids on a log that refuses records, or commits none: the work grows with their number, and the node
is not kept busy by attempts that must fail."""

from __future__ import annotations

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from chronik.coordinator.transactions.retries import PAUSE_MS_MAX
from chronik.coordinator.transactions.transaction import State
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.transactions.test_coordinator import NONE, P0, TIMEOUT_MS, World, play
from tests.coordinator.virtual import FakePartition, Refused, let_everything_happen

REFUSED_S = 20
SMALL, LARGE = 50, 500


class CountingPartition(FakePartition):
    attempts = 0

    def append(self, batch: bytes, *more: Any) -> int:
        self.attempts += 1
        return super().append(batch, *more)


async def begin(world: World, count: int) -> CountingPartition:
    """This many ids with an open transaction each."""
    world.coordinator.unload(0)
    world.partition = partition = CountingPartition(leader_epoch=1)
    await world.coordinator.load(partition)
    for number in range(count):
        transactional_id = f"x{number}"
        made = await world.init(transactional_id)
        added = await world.coordinator.add_partitions(
            transactional_id, made.producer_id, made.producer_epoch, [P0], transaction_version=2
        )
        assert added == {P0: NONE}
    return partition


def states(world: World) -> set[State]:
    transactions = world.coordinator.transactions()
    assert not isinstance(transactions, ErrorCode)
    return {each.state for each in transactions}


def test_one_id_tries_for_all_while_the_log_refuses() -> None:
    """500 transactions time out while the partition has too few replicas. If each tried ten times a second, the node
    would be too busy for the replicas to catch up."""

    async def story(world: World) -> None:
        partition = await begin(world, LARGE)
        partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(TIMEOUT_MS / 1000)
        await let_everything_happen()
        partition.attempts = 0
        await asyncio.sleep(REFUSED_S)
        assert 10 <= partition.attempts <= REFUSED_S + 5
        partition.refuses_with = None
        await asyncio.sleep(2 * PAUSE_MS_MAX / 1000)
        assert states(world) == {State.PREPARE_ABORT}, "all follow the first one that succeeds"
        partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        world.markers.finish()
        partition.attempts = 0
        await asyncio.sleep(REFUSED_S)
        assert 10 <= partition.attempts <= REFUSED_S + 5
        partition.refuses_with = None
        await asyncio.sleep(2 * PAUSE_MS_MAX / 1000)
        assert states(world) == {State.COMPLETE_ABORT}

    play(story)


def test_an_abort_without_a_producer_id_is_tried_again() -> None:
    """The epochs of the id are used up, and the controller gives out no other id for a while."""

    async def story(world: World) -> None:
        await begin(world, 1)
        entry = world.coordinator.describe("x0")
        assert not isinstance(entry, ErrorCode)
        assert entry.current is not None
        object.__setattr__(entry.current, "producer_epoch", 32_766)
        world.id_error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        await asyncio.sleep(TIMEOUT_MS / 1000 + REFUSED_S)
        assert states(world) == {State.ONGOING}
        world.id_error = None
        await asyncio.sleep(2 * PAUSE_MS_MAX / 1000)
        assert states(world) == {State.PREPARE_ABORT}

    play(story)


def calls_of_slow_writes(count: int) -> int:
    """The number of function calls while this many decisions get the error that their write took too long."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def story(world: World) -> None:
        partition = await begin(world, count)
        partition.commits_at_once = False
        known = world.coordinator.transactions()
        assert not isinstance(known, ErrorCode)
        ends = [
            asyncio.ensure_future(
                world.coordinator.end(
                    each.transactional_id, each.producer_id, each.producer_epoch, commits=True, transaction_version=2
                )
            )
            for each in known
        ]
        await let_everything_happen()
        sys.setprofile(note)
        try:
            told = await asyncio.gather(*ends)
        finally:
            sys.setprofile(None)
        assert {each.error for each in told} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
        partition.commit()
        await let_everything_happen()
        assert states(world) == {State.PREPARE_COMMIT}, "the log had taken them"

    play(story)
    return calls


def test_writes_that_take_too_long_are_told_in_linear_time() -> None:
    """The node's other clients wait meanwhile: 10,000 writes that searched the queue of all would take half a
    minute."""
    small, large = calls_of_slow_writes(SMALL), calls_of_slow_writes(LARGE)
    assert large <= 3 * LARGE / SMALL * small, (small, large)


@pytest.mark.parametrize("refusals", [1, 3])
def test_attempts_pause_longer_and_longer(refusals: int) -> None:
    async def story(world: World) -> None:
        partition = await begin(world, 1)
        partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(TIMEOUT_MS / 1000)
        await let_everything_happen()
        partition.attempts = 0
        await asyncio.sleep(0.1 * (2**refusals - 1) + 0.01)
        assert partition.attempts == refusals

    play(story)
