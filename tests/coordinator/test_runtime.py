"""The runtime under a shard that does nothing but remember: loading, writing, moving, and the order of things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.coordinator.errors import Loading, NotCoordinator
from chronik.coordinator.groups.records import RECORD_TYPES, offset_record
from chronik.coordinator.open_transactions import OpenTransactions
from chronik.coordinator.records import encode_records
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import CoordinatorRecord, StatePartition, Writer
from chronik.coordinator.slot import LOAD_RECORDS_PER_SLICE
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, Image, Topic
from chronik.metadata.replay import replay_onto
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from tests.coordinator.virtual import FakeClock, FakePartition, Refused, let_everything_happen, run_virtually

TIMEOUT_MS = 5_000
NONE = ErrorCode.NONE


def change(number: int) -> CoordinatorRecord:
    value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=0)
    return offset_record("g", "t", 0, value)


class Memory:
    """A shard that stores numbers from its records, with their offsets."""

    record_types = RECORD_TYPES

    def __init__(self, writer: Writer, timers: Timers, partition: StatePartition) -> None:
        self.writer = writer
        self.open_transactions = OpenTransactions()
        self.replayed: list[tuple[int, int]] = []
        self.events: list[str] = []

    @property
    def numbers(self) -> list[int]:
        return [number for number, _ in self.replayed]

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        assert isinstance(record.value, OffsetCommitValue)
        self.replayed.append((record.value.offset, offset))

    def loaded(self) -> None:
        self.events.append("loaded")

    def image_changed(self, image: Image, changes: Changes) -> None:
        self.events.append(f"image {image.version}, {len(changes.topics_removed)} topics removed")

    def unloaded(self) -> None:
        self.events.append("unloaded")


Runtime = CoordinatorRuntime[Memory]


def play(story: Callable[[Runtime], Coroutine[Any, Any, None]]) -> None:
    clock = FakeClock()
    runtime: Runtime = CoordinatorRuntime("__state", Memory, clock, TIMEOUT_MS)
    run_virtually(story(runtime), clock)


def write(runtime: Runtime, *numbers: int) -> list[ErrorCode]:
    """Starts a write and returns the list its answer will be in."""
    answers: list[ErrorCode] = []
    runtime.write(0, [change(number) for number in numbers], answers.append)
    return answers


def image(version: int) -> Image:
    return replay_onto(EMPTY, version, [])[0]


def log_of(*numbers: int, **fields: Any) -> list[bytes]:
    """One batch for each number."""
    made = []
    for offset, number in enumerate(numbers):
        (record,) = encode_records([change(number)], 0)
        made.append(batches.build([record._replace(offset=offset)], **fields))
    return made


# --- writing


def test_a_write_is_answered_after_it_is_committed_and_replayed() -> None:
    """A response guarantees that the change survives and that later requests see it."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        answers = write(runtime, 1, 2)
        await let_everything_happen()
        assert (answers, runtime.shard(0).numbers) == ([], [])
        partition.commit()
        await let_everything_happen()
        assert (answers, runtime.shard(0).replayed) == ([NONE], [(1, 0), (2, 1)])

    play(story)


def test_writes_are_replayed_in_the_order_of_the_log_whatever_is_told_first() -> None:
    """The state of a replica that loads the log later is made in that order; ours must not differ."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        answers = [write(runtime, number) for number in (1, 2, 3)]
        partition._waiting.reverse()
        partition.commit(2)
        await let_everything_happen()
        assert (answers, runtime.shard(0).numbers) == ([[NONE], [NONE], []], [1, 2])
        partition.commit()
        await let_everything_happen()
        assert (answers, runtime.shard(0).numbers) == ([[NONE]] * 3, [1, 2, 3])

    play(story)


def test_a_write_behind_one_that_timed_out_times_out_too() -> None:
    """The first write stays queued, because the log may still commit it; later writes must not wait forever."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        first = write(runtime, 1)
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        assert first == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        later = write(runtime, 2)
        settled: list[ErrorCode] = []
        runtime.when_settled(0, settled.append)
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1)
        assert (later, settled) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE],) * 2
        partition.commit()
        await let_everything_happen()
        assert runtime.shard(0).numbers == [1, 2]

    play(story)


def test_a_refused_append_changes_nothing() -> None:
    """The state must not contain records that the log does not have."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition()
        await runtime.load(partition)
        partition.refuses_with = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert write(runtime, 1) == [ErrorCode.NOT_COORDINATOR]
        partition.refuses_with = None
        assert write(runtime, 2) == [NONE]
        assert runtime.shard(0).numbers == [2]

    play(story)


def test_an_error_without_a_code_is_a_bug_and_is_not_swallowed() -> None:
    """Only errors with a code for clients are returned to clients."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition()
        await runtime.load(partition)
        partition.refuses_with = KeyError("oops")
        with pytest.raises(KeyError):
            write(runtime, 1)

    play(story)


def test_a_write_that_takes_too_long_is_answered_but_not_forgotten() -> None:
    """The log still holds it: when it is committed after all it counts, here as on any replica that loads the log."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        first = write(runtime, 1)
        await asyncio.sleep(3)
        second = write(runtime, 2)
        await asyncio.sleep(2)
        assert (first, second) == ([ErrorCode.COORDINATOR_NOT_AVAILABLE], [])
        await asyncio.sleep(3)
        assert second == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        third = write(runtime, 3)
        partition.commit()
        await let_everything_happen()
        assert (len(first), len(second), third) == (1, 1, [NONE])
        assert runtime.shard(0).numbers == [1, 2, 3]

    play(story)


def test_a_failed_commit_is_answered_and_replayed_once_something_behind_it_is_committed() -> None:
    """The committed part is a prefix of the log: records before a committed record are committed."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        first = write(runtime, 1)
        partition.fail_waiting(Refused(ErrorCode.KAFKA_STORAGE_ERROR))
        await let_everything_happen()
        assert (first, runtime.shard(0).numbers) == ([ErrorCode.NOT_COORDINATOR], [])
        second = write(runtime, 2)
        partition.commit()
        await let_everything_happen()
        assert (first, second, runtime.shard(0).numbers) == ([ErrorCode.NOT_COORDINATOR], [NONE], [1, 2])

    play(story)


def test_settling_waits_for_what_was_written_before_and_for_nothing_after() -> None:
    """A request for stable offsets must not starve while other clients continue to write."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        settled: list[ErrorCode] = []
        runtime.when_settled(0, settled.append)
        assert settled == [NONE]
        write(runtime, 1)
        runtime.when_settled(0, settled.append)
        write(runtime, 2)
        assert settled == [NONE]
        partition.commit(1)
        await let_everything_happen()
        assert settled == [NONE, NONE]

    play(story)


def test_an_answer_may_write_again() -> None:
    """A group that has stored its assignment continues in the same loop iteration."""

    async def story(runtime: Runtime) -> None:
        await runtime.load(FakePartition())
        done: list[ErrorCode] = []
        runtime.write(0, [change(1)], lambda _: runtime.write(0, [change(2)], done.append))
        assert (done, runtime.shard(0).numbers) == ([NONE], [1, 2])

    play(story)


# --- loading


def test_a_partition_is_served_between_load_and_unload_only() -> None:
    """Before that, its state is unknown; after that, another node may be changing it."""

    async def story(runtime: Runtime) -> None:
        with pytest.raises(NotCoordinator):
            runtime.shard(0)
        loading = asyncio.ensure_future(runtime.load(FakePartition(log=log_of(1, 2, 3))))
        await asyncio.sleep(0)
        with pytest.raises(Loading):
            runtime.shard(0)
        with pytest.raises(Loading):
            runtime.shards()
        assert runtime.active() == []
        await loading
        shard = runtime.shard(0)
        assert (shard.replayed, shard.events) == ([(1, 0), (2, 1), (3, 2)], ["loaded"])
        runtime.unload(0)
        assert shard.events == ["loaded", "unloaded"]
        with pytest.raises(NotCoordinator):
            runtime.shard(0)
        assert runtime.shards() == []

    play(story)


def test_what_a_new_leader_found_in_its_log_is_served_once_it_is_committed() -> None:
    """A tail that no other replica has can still be lost, so no client may have read it."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(log=log_of(1, 2))
        partition.committed_offset = 1
        loading = asyncio.ensure_future(runtime.load(partition))
        await let_everything_happen()
        with pytest.raises(Loading):
            runtime.shard(0)
        partition.commit()
        await loading
        assert runtime.shard(0).numbers == [1, 2]

    play(story)


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT])
def test_a_load_outlasts_a_time_with_too_few_replicas(code: ErrorCode) -> None:
    """The leadership does not change when the other replicas are back, so nothing would start the load again."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(log=log_of(1, 2))
        partition.committed_offset = 1
        loading = asyncio.ensure_future(runtime.load(partition))
        for _ in range(3):
            await asyncio.sleep(1)
            partition.fail_waiting(Refused(code))
        await asyncio.sleep(1)
        with pytest.raises(Loading):
            runtime.shard(0)
        partition.commit()
        await loading
        assert runtime.shard(0).numbers == [1, 2]

    play(story)


def test_a_load_ends_when_the_partition_moves_on() -> None:
    async def story(runtime: Runtime) -> None:
        partition = FakePartition(log=log_of(1, 2))
        partition.committed_offset = 1
        loading = asyncio.ensure_future(runtime.load(partition))
        await asyncio.sleep(1)
        partition.fail_waiting(Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        with pytest.raises(Refused):
            await loading
        with pytest.raises(NotCoordinator):
            runtime.shard(0)

    play(story)


def test_whoever_waits_for_a_write_is_told_when_the_partition_moves() -> None:
    """The write may or may not survive on the new leader; the client has to ask there."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        answers, shard = write(runtime, 1), runtime.shard(0)
        settled: list[ErrorCode] = []
        runtime.when_settled(0, settled.append)
        runtime.unload(0)
        assert answers == settled == [ErrorCode.NOT_COORDINATOR]
        partition.commit()
        await asyncio.sleep(10)
        assert (len(answers), shard.numbers) == (1, [])

    play(story)


def test_a_load_that_is_overtaken_by_an_unload_never_serves() -> None:
    """Leadership can come and go within the time that loading takes."""

    async def story(runtime: Runtime) -> None:
        loading = asyncio.ensure_future(runtime.load(FakePartition(log=log_of(1, 2, 3))))
        await asyncio.sleep(0)
        runtime.unload(0)
        await loading
        with pytest.raises(NotCoordinator):
            runtime.shard(0)

    play(story)


def test_the_newest_leadership_wins_in_whatever_order_its_news_arrive() -> None:
    """Images are applied in order, but loads take time and unloads may be reported late."""

    async def story(runtime: Runtime) -> None:
        await runtime.load(FakePartition(leader_epoch=1, log=log_of(1)))
        await runtime.load(FakePartition(leader_epoch=3, log=log_of(1, 2)))
        await runtime.load(FakePartition(leader_epoch=2, log=log_of(9)))
        runtime.unload(0, leader_epoch=2)
        assert runtime.shard(0).numbers == [1, 2]
        runtime.unload(0, leader_epoch=4)
        with pytest.raises(NotCoordinator):
            runtime.shard(0)

    play(story)


def test_a_log_that_cannot_be_read_is_not_served() -> None:
    """Serving a part of the log would lose acknowledged offsets, so the caller gets the error."""

    async def story(runtime: Runtime) -> None:
        broken = records.Record(0, 0, b"\x00\x01", b"\x00\x03")
        with pytest.raises(Malformed):
            await runtime.load(FakePartition(log=[*log_of(1), batches.build([broken], base_offset=0)]))
        with pytest.raises(NotCoordinator):
            runtime.shard(0)

    play(story)


def test_compaction_leaves_gaps_that_loading_steps_over() -> None:
    """A compacted log starts anywhere, and its batches keep offsets whose records are gone."""

    async def story(runtime: Runtime) -> None:
        first, second = (record for (record,) in (encode_records([change(number)], 0) for number in (7, 8)))
        log = [
            batches.build([], base_offset=5, last_offset=9),
            batches.build([first._replace(offset=12)], base_offset=10, last_offset=19),
            batches.build([second._replace(offset=40)], base_offset=40, last_offset=44),
        ]
        partition = FakePartition(log=log)
        partition.start_offset = 3
        await runtime.load(partition)
        assert runtime.shard(0).replayed == [(7, 12), (8, 40)]
        answers = write(runtime, 9)
        assert (answers, runtime.shard(0).replayed[-1]) == ([NONE], (9, 45))

    play(story)


def test_transactional_records_count_when_their_transaction_commits() -> None:
    """Kafka writes offsets of a transaction to the log before it is decided; an aborted one must leave no trace."""

    async def story(runtime: Runtime) -> None:
        plain = log_of(1)
        of_7 = log_of(2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        of_8 = log_of(3, producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
        of_9 = log_of(4, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)

        def marker(producer_id: int, outcome: records.ControlType) -> bytes:
            record = records.marker(0, 0, outcome, 0)
            return batches.build(
                [record], producer_id=producer_id, producer_epoch=0, is_transactional=True, is_control=True
            )

        log: list[bytes] = []
        for batch in (
            *plain,
            *of_7,
            *of_8,
            *of_9,
            marker(8, records.ControlType.ABORT),
            marker(7, records.ControlType.COMMIT),
        ):
            stamped = bytearray(batch)
            batches.patch(stamped, 0, len(log), 0)
            log.append(bytes(stamped))
        await runtime.load(FakePartition(log=log))
        assert runtime.shard(0).replayed == [(1, 0), (2, 1)]

    play(story)


def test_a_shard_hears_of_every_image_while_it_serves_and_of_the_newest_when_it_is_loaded() -> None:
    """Assignments depend on the partitions of topics, so a shard that was moved here needs the current image."""

    async def story(runtime: Runtime) -> None:
        runtime.image_changed(image(1), Changes())
        runtime.image_changed(image(2), Changes())
        loading = asyncio.ensure_future(runtime.load(FakePartition(log=log_of(1, 2))))
        await asyncio.sleep(0)
        runtime.image_changed(image(3), Changes())
        await loading
        runtime.image_changed(image(4), Changes(topics_removed=(Topic(b"t" * 16, "t", ()),)))
        shard = runtime.shard(0)
        runtime.unload(0)
        runtime.image_changed(image(5), Changes())
        assert shard.events == [
            "image 3, 0 topics removed",
            "loaded",
            "image 4, 1 topics removed",
            "unloaded",
        ]

    play(story)


def test_loading_a_long_log_lets_other_work_have_its_turn() -> None:
    """A coordinator that moves here with a million offsets must not stop the broker."""

    async def story(runtime: Runtime) -> None:
        count = 4 * LOAD_RECORDS_PER_SLICE
        batch = batches.build(encode_records([change(number) for number in range(count)], 0))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(others())
        await runtime.load(FakePartition(log=[batch]))
        other.cancel()
        assert len(runtime.shard(0).numbers) == count
        assert turns >= 4

    play(story)


def test_a_write_whose_failure_was_told_is_replayed_once_it_is_committed_though_nothing_follows_it() -> None:
    """The log holds the write. A shard that decides nothing until the write is settled would wait forever."""

    async def story(runtime: Runtime) -> None:
        partition = FakePartition(commits_at_once=False)
        await runtime.load(partition)
        answers = write(runtime, 1)
        await let_everything_happen()
        partition.fail_waiting(Refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        await let_everything_happen()
        assert len(answers) == 1
        assert answers != [NONE]
        await asyncio.sleep(1)
        partition.commit()
        await let_everything_happen()
        assert runtime.shard(0).numbers == [1]
        assert len(answers) == 1, "a request is answered once"

    play(story)
