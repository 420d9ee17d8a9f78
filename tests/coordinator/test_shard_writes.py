"""Transactions and early replay in the runtime, under a small shard that hands out numbers.

The shard's one decision is "the next number", which depends on all numbers before it: two decisions in flight that do
not see each other give the same number twice.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from chronik.coordinator.groups.records import RECORD_TYPES, offset_record
from chronik.coordinator.open_transactions import OpenTransactions, Producer
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import CoordinatorRecord, Decision, RecordType, StatePartition, Writer
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.invariants import InvariantBroken
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from chronik.wire.records import ControlType
from tests.coordinator.virtual import FakeClock, FakePartition, Refused, let_everything_happen, run_virtually

TIMEOUT_MS = 5_000
NONE = ErrorCode.NONE
COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
SEVEN, EIGHT = Producer(7, 0), Producer(8, 3)


def change(number: int, topic: str = "t") -> CoordinatorRecord:
    return offset_record("g", topic, 0, OffsetCommitValue(offset=number, metadata="", commit_timestamp=0))


class Numbers:
    """Replays at commit."""

    record_types: Mapping[int, RecordType] = RECORD_TYPES

    def __init__(self, writer: Writer, timers: Timers, partition: StatePartition) -> None:
        self.writer = writer
        self.open_transactions = OpenTransactions()
        self.replayed: list[tuple[int, int]] = []  # number and offset
        self.told: list[int] = []

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.replayed]

    @property
    def open_numbers(self) -> list[int]:
        return [number_in(record) for record in self.open_transactions.records()]

    def next(self) -> Decision:
        number = max(self.numbers, default=0) + 1
        return Decision([change(number)], lambda error: self.told.append(number if error is NONE else -error))

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        self.replayed.append((number_in(record), offset))

    def loaded(self) -> None: ...

    def image_changed(self, image: Image, changes: Changes) -> None: ...

    def unloaded(self) -> None: ...


class EagerNumbers(Numbers):
    """Replays at append."""

    record_types = MappingProxyType(
        {OffsetCommitKey.record_type: RecordType(OffsetCommitKey, OffsetCommitValue, at_append=True)}
    )


def number_in(record: CoordinatorRecord) -> int:
    assert isinstance(record.value, OffsetCommitValue)
    return record.value.offset


Runtime = CoordinatorRuntime[Numbers]
Story = Callable[[Runtime, FakePartition], Coroutine[Any, Any, None]]


def play(story: Story, kind: type[Numbers] = Numbers) -> None:
    clock = FakeClock()

    async def begun() -> None:
        runtime: Runtime = CoordinatorRuntime("__numbers", kind, clock, TIMEOUT_MS)
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        await story(runtime, partition)

    run_virtually(begun(), clock)


async def commit(partition: FakePartition, offset: int | None = None) -> None:
    partition.commit(offset)
    await let_everything_happen()


def decide(runtime: Runtime) -> None:
    decision = runtime.shard(0).next()
    runtime.write(0, *decision)


# --- transactions


@pytest.mark.parametrize(("outcome", "counted"), [(COMMIT, [(1, 0), (2, 1)]), (ABORT, [])])
def test_transactional_records_wait_in_the_state_until_a_marker_ends_them(
    outcome: ControlType, counted: list[tuple[int, int]]
) -> None:
    """Committed they count at their own offsets, aborted not at all; until then a decision can see that they exist."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        shard, answers = runtime.shard(0), []
        runtime.write_in_transaction(0, [change(1), change(2)], answers.append, SEVEN)
        assert (shard.open_numbers, answers) == ([], []), "it could still be lost"
        await commit(partition)
        assert (shard.numbers, shard.open_numbers, answers) == ([], [1, 2], [NONE])
        runtime.end_transaction(0, SEVEN, outcome, 5, answers.append)
        assert (shard.numbers, shard.open_numbers, answers) == ([], [1, 2], [NONE]), "the marker could still be lost"
        await commit(partition)
        assert (shard.replayed, shard.open_numbers, answers) == (counted, [], [NONE, NONE])

    play(story)


def test_the_log_holds_transactional_batches_and_markers_as_kafka_writes_them() -> None:
    """Every replica, and every reader of the topic, must understand them."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write_in_transaction(0, [change(1)], lambda error: None, EIGHT)
        runtime.end_transaction(0, EIGHT, ABORT, 5, lambda error: None)
        data, marker = (batches.split(memoryview(each))[0] for each in partition.log)
        for batch in (data, marker):
            assert (batch.producer_id, batch.producer_epoch, batch.is_transactional) == (8, 3, True)
        assert (data.is_control, data.base_sequence) == (False, 0)
        assert (marker.is_control, marker.base_sequence) == (True, -1)
        [record] = records.iterate(marker, 1 << 20)
        assert records.control_type(record) is ABORT
        assert record.value == bytes.fromhex("0000 00000005")

    play(story)


def test_open_transactions_survive_a_reload_and_end_afterwards() -> None:
    """The marker may come after the coordinator has moved; a commit that is forgotten is an offset that is lost."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write_in_transaction(0, [change(1)], lambda error: None, SEVEN)
        runtime.write_in_transaction(0, [change(2)], lambda error: None, EIGHT)
        await commit(partition)
        moved = partition.after_failover()
        await runtime.load(moved)
        shard, answers = runtime.shard(0), []
        assert (shard.numbers, shard.open_numbers) == ([], [1, 2])
        runtime.end_transaction(0, EIGHT, COMMIT, 6, answers.append)
        await commit(moved)
        assert (shard.replayed, shard.open_numbers, answers) == ([(2, 1)], [1], [NONE])
        again = moved.after_failover()
        await runtime.load(again)
        assert (runtime.shard(0).replayed, runtime.shard(0).open_numbers) == ([(2, 1)], [1])

    play(story)


def test_a_marker_ends_the_transaction_of_its_own_producer_only() -> None:
    async def story(runtime: Runtime, partition: FakePartition) -> None:
        for number, producer in ((1, SEVEN), (2, EIGHT), (3, SEVEN)):
            runtime.write_in_transaction(0, [change(number)], lambda error: None, producer)
        runtime.end_transaction(0, SEVEN, COMMIT, 0, lambda error: None)
        runtime.end_transaction(0, SEVEN, ABORT, 0, lambda error: None)
        await commit(partition)
        shard = runtime.shard(0)
        assert (shard.replayed, shard.open_numbers) == ([(1, 0), (3, 2)], [2])
        assert (7 in shard.open_transactions, 8 in shard.open_transactions) == (False, True)

    play(story)


def test_a_refused_marker_leaves_its_transaction_open() -> None:
    """The transaction coordinator sends it again; until then nothing has been decided here."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write_in_transaction(0, [change(1)], lambda error: None, SEVEN)
        await commit(partition)
        partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        answers: list[ErrorCode] = []
        runtime.end_transaction(0, SEVEN, COMMIT, 0, answers.append)
        assert (answers, runtime.shard(0).open_numbers) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [1])

    play(story)


def test_a_write_that_the_log_takes_for_a_repetition_is_not_acknowledged() -> None:
    """A log that knows the producer's sequence 0 already answers with the old offset and writes nothing."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write_in_transaction(0, [change(1)], lambda error: None, SEVEN)
        await commit(partition)
        answers: list[ErrorCode] = []
        partition.append = lambda *_: partition.end_offset  # type: ignore[method-assign]
        with pytest.raises(InvariantBroken, match="at the end of the log"):
            runtime.write_in_transaction(0, [change(2)], answers.append, SEVEN)
        assert (answers, runtime.shard(0).open_numbers) == ([], [1])

    play(story)


def test_records_of_open_transactions_are_unsettled() -> None:
    """Expiry must keep the state that they refer to, as with writes in flight."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write_in_transaction(0, [change(1)], lambda error: None, SEVEN)
        await commit(partition)
        runtime.write(0, [change(2)], lambda error: None)
        writer = runtime.shard(0).writer
        assert sorted(map(number_in, writer.unsettled())) == [1, 2]
        runtime.end_transaction(0, SEVEN, ABORT, 0, lambda error: None)
        await commit(partition)
        assert list(writer.unsettled()) == []

    play(story)


# --- replay at append


@pytest.mark.parametrize(("kind", "given"), [(Numbers, [1, 1]), (EagerNumbers, [1, 2])])
def test_a_decision_sees_those_in_flight_where_its_records_are_replayed_at_append(
    kind: type[Numbers], given: list[int]
) -> None:
    """With replay at commit both decide on the same state: such a kind must let one change wait for the other."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        decide(runtime)
        decide(runtime)
        assert runtime.shard(0).told == [], "nothing is answered before it is committed"
        await commit(partition)
        assert runtime.shard(0).told == runtime.shard(0).numbers == given

    play(story, kind)


def test_what_is_replayed_at_append_is_replayed_once_and_at_its_offset() -> None:
    async def story(runtime: Runtime, partition: FakePartition) -> None:
        runtime.write(0, [change(5), change(6)], lambda error: None)
        decide(runtime)
        expected = [(5, 0), (6, 1), (7, 2)]
        assert runtime.shard(0).replayed == expected
        await commit(partition)
        assert runtime.shard(0).replayed == expected
        await runtime.load(partition.after_failover())
        assert runtime.shard(0).replayed == expected

    play(story, EagerNumbers)


def test_a_refused_append_leaves_nothing_behind() -> None:
    """The state must not contain records that the log does not have: the next decision would build on them."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        decide(runtime)
        partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        decide(runtime)
        assert runtime.shard(0).told == [-ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert runtime.shard(0).numbers == [1]
        partition.refuses_with = None
        decide(runtime)
        await commit(partition)
        assert runtime.shard(0).told[1:] == runtime.shard(0).numbers == [1, 2]

    play(story, EagerNumbers)


def test_an_answer_without_records_waits_for_what_it_was_made_from() -> None:
    """A heartbeat that changes nothing still reports state that a failover could lose."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        answers: list[ErrorCode] = []
        runtime.write(0, [], answers.append)
        assert answers == [NONE], "everything is committed"
        decide(runtime)
        runtime.write(0, [], answers.append)
        await let_everything_happen()
        assert answers == [NONE]
        await commit(partition)
        assert (answers, len(partition.log)) == ([NONE, NONE], 1)

    play(story, EagerNumbers)


def test_what_was_replayed_at_append_goes_with_the_shard_when_it_was_never_committed() -> None:
    """The new leader may not have it. No client has seen it, so its number may be used again."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        decide(runtime)
        await commit(partition)
        decide(runtime)
        before, answers = runtime.shard(0), []
        runtime.write(0, [], answers.append)
        await runtime.load(partition.after_failover())
        assert (before.told, answers) == ([1, -ErrorCode.NOT_COORDINATOR], [ErrorCode.NOT_COORDINATOR])
        assert runtime.shard(0).numbers == [1]

    play(story, EagerNumbers)


def test_a_commit_that_fails_after_the_append_takes_nothing_back() -> None:
    """The log still holds the record, so the next number follows it; both count once anything is committed."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        decide(runtime)
        partition.fail_waiting(Refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        await let_everything_happen()
        decide(runtime)
        await commit(partition)
        assert runtime.shard(0).told == [-ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 2]
        assert runtime.shard(0).numbers == [1, 2]

    play(story, EagerNumbers)


def test_a_transaction_holds_no_records_that_are_replayed_at_append() -> None:
    """They would count before their transaction is decided."""

    async def story(runtime: Runtime, partition: FakePartition) -> None:
        with pytest.raises(InvariantBroken, match="before its end"):
            runtime.write_in_transaction(0, [change(1)], lambda error: None, SEVEN)
        assert partition.log == []

    play(story, EagerNumbers)
