"""A coordinator on a real log: which records its partition accepts and refuses."""

from __future__ import annotations

from chronik.coordinator.groups.records import RECORD_TYPES, offset_record
from chronik.coordinator.open_transactions import OpenTransactions, Producer
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import CoordinatorRecord, StatePartition, Writer
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.replication.coordinator_partition import CoordinatorPartition
from chronik.storage.errors import InvalidProducerEpoch
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import OffsetCommitValue
from chronik.wire.records import ControlType
from tests.coordinator.virtual import FakeClock
from tests.raft.virtual_time import run
from tests.replication.small import NOW_MS, One

NONE, FENCED = ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH
SEVEN = Producer(7, 0)


class Offsets:
    """A shard that only records its calls."""

    record_types = RECORD_TYPES

    def __init__(self, writer: Writer, timers: Timers, partition: StatePartition) -> None:
        self.open_transactions = OpenTransactions()
        self.replayed: list[int] = []

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        assert isinstance(record.value, OffsetCommitValue)
        self.replayed.append(record.value.offset)

    def loaded(self) -> None: ...

    def image_changed(self, image: Image, changes: Changes) -> None: ...

    def unloaded(self) -> None: ...


class Coordinating:
    """A group coordinator's runtime on a led replica without followers."""

    def __init__(self, one: One) -> None:
        self.one = one
        self.partition = CoordinatorPartition(one.replica, lambda: NOW_MS)
        self.runtime: CoordinatorRuntime[Offsets] = CoordinatorRuntime("__offsets", Offsets, FakeClock(), 5_000)
        self.answers: list[ErrorCode] = []

    @classmethod
    async def make(cls) -> Coordinating:
        made = cls(await One.make(isr=(1,)))
        await made.runtime.load(made.partition)
        return made

    @property
    def shard(self) -> Offsets:
        return self.runtime.shard(0)

    def commit_offset(self, offset: int, producer: Producer = SEVEN) -> None:
        """Of a transaction whose coordinator said yes at once."""
        try:
            guard = self.partition.guard_for(producer.producer_id, producer.producer_epoch, is_tv2=False)
        except InvalidProducerEpoch:
            guard = None  # a handler would not get as far as this
        record = offset_record("g", "t", 0, OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0))
        self.runtime.write_in_transaction(0, [record], self.answers.append, producer, guard)

    def end(self, outcome: ControlType, producer: Producer = SEVEN, *, version: int = 0) -> None:
        self.runtime.end_transaction(0, producer, outcome, 1, self.answers.append, version)

    async def settle(self) -> list[ErrorCode]:
        log = self.one.replica.log
        waiting = log.when_durable(log.end_offset)
        if waiting is not None:
            await waiting
        return self.answers


def test_offset_commits_of_one_transaction_are_all_written() -> None:
    """As in Kafka, each begins with sequence 0. If the second one counted as a duplicate, it would be acknowledged and
    lost."""

    async def story() -> None:
        made = await Coordinating.make()
        made.commit_offset(5)
        made.commit_offset(6)
        assert await made.settle() == [NONE, NONE]
        made.end(ControlType.COMMIT)
        made.commit_offset(7)
        made.end(ControlType.ABORT)
        assert await made.settle() == [NONE] * 5
        assert made.shard.replayed == [5, 6]
        assert made.one.replica.log.end_offset == 5
        assert [(each.first_offset, each.last_offset) for each in made.one.replica.log.aborted_transactions(0, 5)] == [
            (3, 4)
        ]

    run(story)


def test_a_fenced_producers_offsets_are_refused_and_change_nothing() -> None:
    async def story() -> None:
        made = await Coordinating.make()
        made.commit_offset(5, Producer(7, 2))
        made.commit_offset(6, Producer(7, 1))
        assert await made.settle() == [FENCED, NONE]
        made.end(ControlType.COMMIT, Producer(7, 2))
        assert await made.settle() == [FENCED, NONE, NONE]
        assert made.shard.replayed == [5]

    run(story)


def test_a_late_marker_ends_no_later_transaction() -> None:
    """Version 2: the marker of an earlier transaction has the epoch of the one that is open now."""

    async def story() -> None:
        made = await Coordinating.make()
        made.commit_offset(5, Producer(7, 1))
        made.end(ControlType.ABORT, Producer(7, 1), version=2)
        assert await made.settle() == [FENCED, NONE]
        made.end(ControlType.COMMIT, Producer(7, 2), version=2)
        await made.settle()
        assert made.shard.replayed == [5]

    run(story)


def test_a_guard_that_a_marker_made_void_writes_no_offsets() -> None:
    """The transaction ended while its coordinator was asked whether it includes this partition."""

    async def story() -> None:
        made = await Coordinating.make()
        guard = made.partition.guard_for(7, 0, is_tv2=False)
        made.end(ControlType.ABORT)
        record = offset_record("g", "t", 0, OffsetCommitValue(offset=5, metadata="", commit_timestamp=0))
        made.runtime.write_in_transaction(0, [record], made.answers.append, SEVEN, guard)
        assert await made.settle() == [ErrorCode.INVALID_TXN_STATE, NONE]
        assert made.one.replica.log.end_offset == 1
        assert made.partition.guard_for(7, 0, is_tv2=False) not in (None, guard)

    run(story)
