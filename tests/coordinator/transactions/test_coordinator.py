"""The transaction coordinator on virtual time: decisions, deadlines, markers, failovers, expiry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from chronik.coordinator.records import encode_records
from chronik.coordinator.transactions.config import TransactionsConfig
from chronik.coordinator.transactions.coordinator import (
    PATIENCE_MS,
    Initialized,
    NoProducerId,
    TransactionCoordinator,
)
from chronik.coordinator.transactions.markers import Finished, MarkerOrder
from chronik.coordinator.transactions.retries import PAUSE_MS_MAX
from chronik.coordinator.transactions.shard import TRANSACTION_FEATURE
from chronik.coordinator.transactions.transaction import (
    CLIENT_EPOCH_MAX,
    State,
    TopicPartition,
    Transaction,
    to_record,
)
from chronik.coordinator.transactions.transitions import Producer
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY
from chronik.metadata.records import FeatureLevelRecord
from chronik.metadata.replay import replay_onto
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode
from tests.coordinator.virtual import FakeClock, FakePartition, Refused, let_everything_happen, run_virtually

NONE, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
TIMEOUT_MS = 60_000
P0, P1 = ("t", 0), ("t", 1)


class FakeMarkers:
    """Records the ordered markers. A test decides when a marker is written."""

    def __init__(self) -> None:
        self.ordered: list[tuple[MarkerOrder, TopicPartition, Finished]] = []
        self.forgotten: list[int] = []

    def write(self, state_partition: int, order: MarkerOrder, partition: TopicPartition, finished: Finished) -> None:
        self.ordered.append((order, partition, finished))

    def forget(self, state_partition: int) -> None:
        self.forgotten.append(state_partition)

    def finish(self, *partitions: TopicPartition) -> None:
        """All markers, or those of some partitions, are written."""
        ordered, self.ordered = self.ordered, []
        for order, partition, finished in ordered:
            if not partitions or partition in partitions:
                finished(partition)
            else:
                self.ordered.append((order, partition, finished))


class World:
    def __init__(self, clock: FakeClock, *, level: int = 2, config: TransactionsConfig | None = None) -> None:
        self.clock = clock
        self.markers = FakeMarkers()
        self.partition = FakePartition()
        self.next_id = 100
        self.id_error: ErrorCode | None = None
        self.level = level
        self.config = config or TransactionsConfig()
        self.coordinator = self.make()
        self.tasks: list[asyncio.Task[None]] = []

    def make(self) -> TransactionCoordinator:
        made = TransactionCoordinator(
            self.config,
            self.clock,
            1,
            next_producer_id=self.new_id,
            markers=self.markers,
            start=lambda _, work: self.tasks.append(asyncio.ensure_future(work)),
        )
        image, _ = replay_onto(EMPTY, 1, [FeatureLevelRecord(name=TRANSACTION_FEATURE, level=self.level)])
        made.image_changed(image, Changes())
        return made

    async def new_id(self) -> int:
        await asyncio.sleep(0)
        if self.id_error is not None:
            raise NoProducerId(self.id_error)
        self.next_id += 1
        return self.next_id

    async def fail_over(self, **kept: int) -> None:
        """Another node loads the log."""
        self.coordinator.unload(0)
        self.partition = self.partition.after_failover(**kept)
        self.coordinator = self.make()
        await self.coordinator.load(self.partition)

    async def init(self, transactional_id: str = "x", expected: Producer | None = None) -> Initialized:
        return await self.coordinator.init_producer_id(transactional_id, TIMEOUT_MS, expected)

    async def add(self, made: Initialized, *partitions: TopicPartition, version: int = 2) -> set[ErrorCode]:
        errors = await self.coordinator.add_partitions(
            "x", made.producer_id, made.producer_epoch, partitions or (P0,), transaction_version=version
        )
        return set(errors.values())

    async def end(self, made: Initialized, *, commits: bool = True, version: int = 2) -> Initialized:
        return await self.coordinator.end(
            "x", made.producer_id, made.producer_epoch, commits=commits, transaction_version=version
        )

    @property
    def current(self) -> Transaction:
        entry = self.coordinator.describe("x")
        assert not isinstance(entry, ErrorCode)
        assert entry.current is not None
        return entry.current


Story = Callable[[World], Coroutine[Any, Any, None]]


def play(story: Story, **made: Any) -> None:
    clock = FakeClock()

    async def loaded() -> None:
        world = World(clock, **made)
        await world.coordinator.load(world.partition)
        await story(world)
        for task in world.tasks:
            await task

    run_virtually(loaded(), clock)


def test_a_transaction_from_begin_to_end() -> None:
    async def story(world: World) -> None:
        first = await world.init()
        assert first == (NONE, 101, 0)
        assert await world.add(first, P0, P1) == {NONE}
        assert world.current.state is State.ONGOING
        second = await world.end(first)
        assert second == (NONE, 101, 1), "the next transaction has an epoch of its own"
        assert [(order.commits, order.producer_epoch, partition) for order, partition, _ in world.markers.ordered] == [
            (True, 1, P0),
            (True, 1, P1),
        ]
        world.markers.finish(P0)
        assert world.current.state is State.PREPARE_COMMIT
        world.markers.finish(P1)
        assert world.current.state is State.COMPLETE_COMMIT
        assert await world.add(second) == {NONE}

    play(story)


def test_without_epoch_bump_all_transactions_have_one_epoch() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        for _ in range(3):
            assert await world.add(made, version=0) == {NONE}
            assert await world.end(made, version=0) == (NONE, -1, -1)
            world.markers.finish()
            assert (world.current.state, world.current.producer_epoch) == (State.COMPLETE_COMMIT, 0)

    play(story)


def test_the_end_is_answered_when_the_decision_is_committed_and_not_before() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        world.partition.commits_at_once = False
        ending = asyncio.ensure_future(world.end(made))
        await let_everything_happen()
        assert not ending.done()
        assert not world.markers.ordered, "a decision that may be lost must not be carried out"
        assert await world.end(made) == (CONCURRENT, -1, -1)
        world.partition.commit()
        assert (await ending).error is NONE
        assert world.markers.ordered

    play(story)


def test_a_refused_write_leaves_the_transaction_as_it_was() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert (await world.end(made)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert world.current.state is State.ONGOING
        world.partition.refuses_with = None
        assert (await world.end(made, commits=False)).error is NONE

    play(story)


def test_a_decision_that_was_told_as_failed_still_stands_once_the_log_commits_it() -> None:
    """A second decision on the old state could contradict the first, so the id is busy until the log has settled."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        world.partition.commits_at_once = False
        answer = await world.end(made)
        assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await world.end(made, commits=False)).error is CONCURRENT
        world.partition.commit()
        await let_everything_happen()
        assert [order.commits for order, _, _ in world.markers.ordered] == [True]
        world.partition.commits_at_once = True
        world.markers.finish()
        assert world.current.state is State.COMPLETE_COMMIT
        assert await world.end(made) == (NONE, made.producer_id, 1), "the repeated request"

    play(story)


def test_a_producer_that_repeats_its_end_while_the_markers_are_written_is_asked_to_come_again() -> None:
    """The committed epoch is the next one already. Compared first, it would tell a producer that it was fenced by
    itself."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await world.end(made)
        assert await world.end(made) == (CONCURRENT, -1, -1)
        world.markers.finish()
        assert await world.end(made) == (NONE, made.producer_id, 1)

    play(story)


def test_without_epoch_bump_a_commit_is_confirmed_only_of_a_transaction_that_was_committed() -> None:
    """The producer aborted, and lost the response and its state. If it got a successful response for the commit, it
    would continue although no consumer reads its records."""

    async def story(world: World) -> None:
        made = await world.init()
        for commits in (False, True):
            await world.add(made, version=0)
            await world.end(made, commits=commits, version=0)
            world.markers.finish()
            assert (await world.end(made, commits=commits, version=0)).error is NONE, "a repeated request"
            assert (await world.end(made, commits=not commits, version=0)).error is ErrorCode.INVALID_TXN_STATE

    play(story)


def test_a_transaction_is_aborted_at_its_timeout_to_the_millisecond() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await asyncio.sleep((TIMEOUT_MS - 1) / 1000)
        assert world.current.state is State.ONGOING
        await asyncio.sleep(0.001)
        await let_everything_happen()
        assert (world.current.state, world.current.producer_epoch) == (State.PREPARE_ABORT, 1)
        world.markers.finish()
        assert world.current.state is State.COMPLETE_ABORT
        assert (await world.add(made)) == {ErrorCode.PRODUCER_FENCED}, "its producer learns that it is too late"

    play(story)


def test_partitions_that_are_added_later_do_not_extend_the_timeout() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await asyncio.sleep(TIMEOUT_MS / 2000)
        await world.add(made, P1)
        await asyncio.sleep(TIMEOUT_MS / 2000)
        await let_everything_happen()
        assert world.current.state is State.PREPARE_ABORT

    play(story)


@pytest.mark.parametrize("level", [1, 2])
def test_a_timeout_that_cannot_be_written_is_tried_again(level: int) -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.sleep(TIMEOUT_MS / 1000 + 5)
        assert world.current.state is State.ONGOING
        world.partition.refuses_with = None
        await asyncio.sleep(2 * PAUSE_MS_MAX / 1000)
        assert (world.current.state, world.current.producer_epoch) == (State.PREPARE_ABORT, 1), (
            "one bump, however often"
        )

    play(story, level=level)


def test_a_transaction_without_a_timeout_waits_for_ever() -> None:
    async def story(world: World) -> None:
        made = await world.coordinator.init_producer_id("x", 1, None, has_two_phase_commit=True)
        await world.add(made)
        await asyncio.sleep(30 * 24 * 3600)
        assert world.current.state is State.ONGOING

    play(story, config=TransactionsConfig(has_two_phase_commit=True))


def test_a_new_producer_aborts_what_the_one_before_left_open() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        assert (await world.init()).error is CONCURRENT
        assert [order.commits for order, _, _ in world.markers.ordered] == [False]
        assert (await world.init()).error is CONCURRENT, "its markers are being written"
        world.markers.finish()
        assert await world.init() == (NONE, 101, 2)
        assert (await world.end(made)).error is ErrorCode.PRODUCER_FENCED

    play(story)


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_leader_carries_out_what_was_decided(commits: bool) -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made, P0, P1)
        await world.end(made, commits=commits)
        world.markers.finish(P0)
        await world.fail_over()
        assert world.markers.forgotten == [0]
        again = [(order.commits, order.coordinator_epoch, each) for order, each, _ in world.markers.ordered[1:]]
        assert again == [(commits, 1, P0), (commits, 1, P1)], "the new coordinator does not know which were written"
        world.markers.finish()
        assert world.current.state is (State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT)

    play(story)


def test_the_next_leader_keeps_the_deadline() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await asyncio.sleep(TIMEOUT_MS * 0.9 / 1000)
        await world.fail_over()
        await asyncio.sleep(TIMEOUT_MS * 0.1 / 1000)
        await let_everything_happen()
        assert world.current.state is State.PREPARE_ABORT

    play(story)


def test_markers_of_an_earlier_leadership_complete_nothing() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await world.end(made)
        (_, _, finished), *_ = world.markers.ordered
        await world.fail_over()
        finished(P0)
        assert world.current.state is State.PREPARE_COMMIT

    play(story)


def test_the_last_record_of_a_transaction_is_tried_until_it_is_written() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await world.end(made)
        world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        world.markers.finish()
        await asyncio.sleep(3)
        assert world.current.state is State.PREPARE_COMMIT
        world.partition.refuses_with = None
        await asyncio.sleep(2 * PAUSE_MS_MAX / 1000)
        assert world.current.state is State.COMPLETE_COMMIT

    play(story)


def test_two_new_producers_at_once_get_two_epochs() -> None:
    """Both request a producer id before either has decided; the second one finds the first one's transition."""

    async def story(world: World) -> None:
        one, other = await asyncio.gather(world.init(), world.init())
        assert {one, other} == {Initialized(NONE, 101, 0), Initialized(NONE, 101, 1)}

    play(story)


def test_without_a_producer_id_the_controllers_error_is_told() -> None:
    async def story(world: World) -> None:
        world.id_error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await world.init() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
        assert world.coordinator.describe("x") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    play(story)


def test_the_last_epoch_of_a_producer_id_is_followed_by_a_new_id() -> None:
    """Thousands of transactions later, in a log that this coordinator finds. tests/oracle counts all epochs."""

    async def story(world: World) -> None:
        first = await world.init()
        for _ in range(2):
            used_up = replace(world.current, producer_epoch=CLIENT_EPOCH_MAX)
            world.partition.append(batches.build(encode_records([to_record(used_up, world.level)], 0)))
            await world.fail_over()
            last = first._replace(producer_epoch=CLIENT_EPOCH_MAX)
            await world.add(last)
            after = await world.end(last)
            assert after == (NONE, first.producer_id + 1, 0)
            world.markers.finish()
            assert await world.end(last) == after, "the repeated request"
            assert await world.add(after) == {NONE}
            assert (await world.end(after)).error is NONE
            world.markers.finish()
            first = after

    play(story)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": 0}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"timeout_ms": 900_001}, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ({"has_two_phase_commit": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({"keeps_prepared": True}, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_cannot_be_initialized(asked: dict[str, Any], error: ErrorCode) -> None:
    async def story(world: World) -> None:
        values = {"transactional_id": "x", "timeout_ms": 1, "expected": None} | asked
        assert await world.coordinator.init_producer_id(**values) == (error, -1, -1)

    play(story)


def test_ids_that_nobody_uses_are_removed_and_those_with_a_transaction_stay() -> None:
    async def story(world: World) -> None:
        await world.init("unused")
        made = await world.coordinator.init_producer_id("x", 1, None, has_two_phase_commit=True)
        await world.add(made)
        await asyncio.sleep(7 * 24 * 3600 - 1)
        world.coordinator.expire(world.clock.wall_ms())
        assert not isinstance(world.coordinator.describe("unused"), ErrorCode)
        await asyncio.sleep(1)
        world.partition.commits_at_once = False
        world.coordinator.expire(world.clock.wall_ms())
        assert world.coordinator.describe("unused") is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert (await world.init("unused")).error is CONCURRENT, "its removal is on its way to the log"
        world.partition.commit()
        world.partition.commits_at_once = True
        await let_everything_happen()
        assert await world.init("unused") == (NONE, 103, 0)
        assert world.current.state is State.ONGOING
        await world.fail_over()
        listed = world.coordinator.transactions()
        assert not isinstance(listed, ErrorCode)
        assert sorted(each.transactional_id for each in listed) == ["unused", "x"]

    play(story, config=TransactionsConfig(has_two_phase_commit=True))


def test_an_id_stays_while_its_last_transition_is_on_its_way() -> None:
    """Its removal would precede the transition in the log, and the transition would restore a removed id."""

    async def story(world: World) -> None:
        made = await world.init()
        await asyncio.sleep(7 * 24 * 3600)
        world.partition.commits_at_once = False
        adding = asyncio.ensure_future(world.add(made))
        await let_everything_happen()
        world.coordinator.expire(world.clock.wall_ms())
        world.partition.commit()
        world.partition.commits_at_once = True
        assert await adding == {NONE}
        assert world.current.state is State.ONGOING
        assert (await world.end(made)).error is NONE

    play(story)


def test_an_id_stays_until_its_markers_are_written() -> None:
    """A partition may be without a leader for weeks. Its transaction is decided, so it must end as decided."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        await world.end(made)
        await asyncio.sleep(30 * 24 * 3600)
        world.coordinator.expire(world.clock.wall_ms())
        await let_everything_happen()
        assert world.current.state is State.PREPARE_COMMIT
        world.markers.finish()
        assert world.current.state is State.COMPLETE_COMMIT

    play(story)


def test_requests_elsewhere_and_while_loading() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        world.coordinator.unload(0)
        assert (await world.init()).error is ErrorCode.NOT_COORDINATOR
        assert await world.add(made) == {ErrorCode.NOT_COORDINATOR}
        assert world.coordinator.describe("x") is ErrorCode.NOT_COORDINATOR
        assert world.coordinator.transactions() == []
        loading = asyncio.ensure_future(world.coordinator.load(world.partition.after_failover()))
        await asyncio.sleep(0)
        assert (await world.end(made)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert world.coordinator.transactions() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await loading
        assert (await world.init()) == (NONE, 101, 1)

    play(story)


def test_a_new_transaction_waits_for_the_end_of_the_one_before() -> None:
    """A client that must retry comes back after at least 20 ms, and the markers take a few."""

    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        adding = asyncio.ensure_future(world.add(after, P1))
        await asyncio.sleep(0.01)
        assert not adding.done()
        world.markers.finish()
        assert await adding == {NONE}
        assert (world.current.state, world.current.partitions) == (State.ONGOING, frozenset({P1}))

    play(story)


def test_it_does_not_wait_for_long() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        asked_ns = world.clock.monotonic_ns()
        assert await world.add(after, P1) == {CONCURRENT}
        assert (world.clock.monotonic_ns() - asked_ns) // 1_000_000 == PATIENCE_MS

    play(story)


def test_whoever_waits_is_told_when_the_leadership_ends() -> None:
    async def story(world: World) -> None:
        made = await world.init()
        await world.add(made)
        after = await world.end(made)
        adding = asyncio.ensure_future(world.add(after, P1))
        await let_everything_happen()
        world.coordinator.unload(0)
        assert await adding == {ErrorCode.NOT_COORDINATOR}

    play(story)


def test_what_a_new_coordinator_completes_at_once_is_written_in_the_present_format() -> None:
    """A transaction without partitions completes while its shard is loaded. A record of the old format would lose the
    producer's last id, and its repeated EndTxn would be refused after the next failover."""

    async def story(world: World) -> None:
        made = await world.init()
        world.partition.commits_at_once = False
        await world.end(made, commits=False)
        world.partition.commits_at_once = True
        await world.fail_over(surviving_offset=world.partition.end_offset)
        assert world.current.state is State.COMPLETE_ABORT
        await world.fail_over()
        assert world.current.has_epoch_bump
        assert await world.end(made, commits=False) == (NONE, made.producer_id, 1)

    play(story)
