"""The share coordinator on a log in memory: what it stores, whom it refuses, and what survives a failover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.coordinator.records import decode_record
from chronik.coordinator.share.config import ShareCoordinatorConfig
from chronik.coordinator.share.coordinator import ShareCoordinator
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.coordinator.share.shard import ShareShard
from chronik.coordinator.share.state import RECORD_TYPES
from chronik.metadata.delta import Changes
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_state_records import ShareSnapshotValue, ShareUpdateValue
from tests.coordinator.consumer.cluster import image_of, topic_id
from tests.coordinator.virtual import FakeClock, FakePartition, Refused, run_virtually

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
KEY = SharePartitionKey("g", topic_id("t"), 0)
B = StateBatch
MINUTE_S = 60


class World:
    def __init__(self, **config: int) -> None:
        self.clock = FakeClock()
        self.config = ShareCoordinatorConfig(**config)  # type: ignore[arg-type]
        self.partition = FakePartition()
        self.image = image_of({"t": 2})
        self.coordinator = self._new()

    def _new(self) -> ShareCoordinator:
        made = ShareCoordinator(self.config, self.clock, partition_count=1)
        made.image_changed(self.image, Changes())
        return made

    def play(self, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def told() -> None:
            await self.coordinator.load(self.partition)
            await story()
            self.coordinator.unload(0)

        run_virtually(told(), self.clock)

    async def fail_over(self, surviving_offset: int | None = None) -> None:
        self.coordinator.unload(0)
        start_offset = self.partition.start_offset
        self.partition = self.partition.after_failover(surviving_offset=surviving_offset)
        self.partition.start_offset = start_offset
        self.coordinator = self._new()
        await self.coordinator.load(self.partition)

    @property
    def shard(self) -> ShareShard:
        return self.coordinator._runtime.shard(0)

    def written(self) -> list[ShareSnapshotValue | ShareUpdateValue | None]:
        found = []
        for data in self.partition.log:
            for batch in batches.split(memoryview(data)):
                for record in records.iterate(batch, 1 << 20):
                    known = decode_record(
                        RECORD_TYPES, memoryview(record.key or b""), record.value and memoryview(record.value)
                    )
                    assert known is not None
                    found.append(known.value)
        return found  # type: ignore[return-value]


async def write(world: World, leader: int, state: int, start: int, *told: StateBatch, count: int = 0) -> ErrorCode:
    return await world.coordinator.write(KEY, leader, state, start, count, told)


# What leads to a state, in the order of epochs: (leader epoch of the last read, state epoch).
@pytest.mark.parametrize(
    ("request_", "leader", "state", "expected"),
    [
        ("read", 5, -1, NONE),
        ("read", 6, -1, NONE),
        ("read", -1, -1, NONE),
        ("read", 4, -1, ErrorCode.FENCED_LEADER_EPOCH),
        ("write", 5, 3, NONE),
        ("write", 6, 4, NONE),
        ("write", -1, -1, NONE),
        ("write", 4, 3, ErrorCode.FENCED_LEADER_EPOCH),
        ("write", 5, 2, ErrorCode.FENCED_STATE_EPOCH),
        ("write", 4, 2, ErrorCode.FENCED_LEADER_EPOCH),  # told first
        ("initialize", -1, 3, NONE),
        ("initialize", -1, 4, NONE),
        ("initialize", -1, 2, ErrorCode.FENCED_STATE_EPOCH),
        ("initialize", -1, -1, NONE),
        ("summary", -1, -1, NONE),
        ("delete", -1, -1, NONE),
    ],
)
def test_epochs_keep_others_out(request_: str, leader: int, state: int, expected: ErrorCode) -> None:
    """Of a state that the leader of epoch 5 reads, in state epoch 3: before and after a failover."""
    for fails_over in (False, True):
        world = World()

        async def story(world: World = world, fails_over: bool = fails_over) -> None:
            assert await world.coordinator.initialize(KEY, 3, -1) is NONE
            assert await world.coordinator.read(KEY, 5) == ShareState(3, -1, [])
            if fails_over:
                await world.fail_over()
            made: Coroutine[Any, Any, Any] = {
                "read": lambda: world.coordinator.read(KEY, leader),
                "write": lambda: write(world, leader, state, 0),
                "initialize": lambda: world.coordinator.initialize(KEY, state, 0),
                "summary": lambda: world.coordinator.summary(KEY),
                "delete": lambda: world.coordinator.delete(KEY),
            }[request_]()
            told = await made
            assert (told if isinstance(told, ErrorCode) else NONE) is expected

        world.play(story)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (
            SharePartitionKey("g", topic_id("t"), 1),
            {"read": INVALID, "write": INVALID, "delete": NONE, "initialize": NONE},
        ),
        (SharePartitionKey("g", topic_id("t"), -1), dict.fromkeys(("read", "write", "delete", "initialize"), INVALID)),
        (
            SharePartitionKey("g", topic_id("t"), 2),
            {"read": INVALID, "write": INVALID}
            | dict.fromkeys(("delete", "initialize"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ),
    ],
)
def test_what_has_no_state_is_refused(key: SharePartitionKey, expected: dict[str, ErrorCode]) -> None:
    """Partition 1 exists and has no state; 2 does not exist."""
    world = World()

    async def story() -> None:
        share = world.coordinator
        found = {
            "read": await share.read(key, 0),
            "write": await share.write(key, 0, 0, 0, 0, []),
            "delete": await share.delete(key),
            "initialize": await share.initialize(key, 0, 0),
        }
        assert found == expected

    world.play(story)


def test_a_read_is_written_down_before_it_is_answered() -> None:
    """Else an older leader could store over what the newer one has read (planted bug S2)."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, 0)
        world.partition.commits_at_once = False
        reading = asyncio.ensure_future(world.coordinator.read(KEY, 8))
        await asyncio.sleep(0.01)
        assert not reading.done()
        assert await write(world, 7, 1, 0) is ErrorCode.FENCED_LEADER_EPOCH  # at once, although it is not committed
        world.partition.commit()
        assert await reading == ShareState(1, 0, [])
        world.partition.commits_at_once = True
        await world.fail_over()
        assert await world.coordinator.read(KEY, 7) is ErrorCode.FENCED_LEADER_EPOCH

    world.play(story)


def test_a_state_that_begins_again_fences_its_leader_of_before() -> None:
    """What was acquired before an operator moved the group must not be acknowledged after it (planted bug S11)."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, 0)
        await world.coordinator.read(KEY, 1)
        assert await write(world, 1, 1, 4, B(5, 5, 2, 1)) is NONE
        await world.coordinator.initialize(KEY, 2, 0)
        assert await write(world, 1, 1, 6, B(7, 7, 2, 1)) is ErrorCode.FENCED_STATE_EPOCH
        assert await world.coordinator.read(KEY, 1) == ShareState(2, 0, [])
        await world.fail_over()
        assert await write(world, 1, 1, 6) is ErrorCode.FENCED_STATE_EPOCH
        assert await write(world, 0, 2, 6) is ErrorCode.FENCED_LEADER_EPOCH

    world.play(story)


def test_nothing_is_told_before_it_is_committed() -> None:
    """A state that is lost with a failover must not have been told."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, 0)
        await world.coordinator.read(KEY, 1)
        world.partition.commits_at_once = False
        writing = asyncio.ensure_future(write(world, 1, 1, 4, B(5, 5, 2, 1)))
        await asyncio.sleep(0)
        reading = asyncio.ensure_future(world.coordinator.read(KEY, 1))
        summing = asyncio.ensure_future(world.coordinator.summary(KEY))
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in (writing, reading, summing))
        await world.fail_over()
        assert [await each for each in (writing, reading, summing)] == [ErrorCode.NOT_COORDINATOR] * 3
        assert await world.coordinator.read(KEY, 1) == ShareState(1, 0, [])

    world.play(story)


def test_counts_and_states_survive() -> None:
    """A delivery count that is not stored would never reach the limit (planted bug S4)."""
    world = World(updates_per_snapshot=2)

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, -1)
        await world.coordinator.read(KEY, 1)
        for count in range(1, 5):
            assert (
                await write(world, 1, 1, 10, B(10, 12, 0, count), B(20 + count, 20 + count, 2, 1), count=count) is NONE
            )
        state = ShareState(1, 10, [B(10, 12, 0, 4), B(21, 24, 2, 1)])
        assert await world.coordinator.read(KEY, 1) == state
        assert await world.coordinator.summary(KEY) == ShareSummary(1, 1, 10, 4)
        before = dict(world.shard.states)
        await world.fail_over()
        assert world.shard.states == before
        assert await world.coordinator.read(KEY, 1) == state

    world.play(story)


def test_a_report_that_was_held_up_does_not_move_the_start_back() -> None:
    """A request may arrive after its repetition and after later ones: where a group is never falls."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, 0)
        await write(world, -1, 1, 10, B(12, 12, 2, 1), count=1)
        assert await write(world, -1, 1, 5, B(5, 14, 0, 1), count=7) is NONE
        assert await world.coordinator.read(KEY, -1) == ShareState(
            1, 10, [B(10, 11, 0, 1), B(12, 12, 2, 1), B(13, 14, 0, 1)]
        )
        assert await world.coordinator.summary(KEY) == ShareSummary(1, 0, 10, 1)
        await world.coordinator.initialize(KEY, 2, 3)  # as an operator may
        assert await world.coordinator.read(KEY, -1) == ShareState(2, 3, [])

    world.play(story)


def test_snapshots_come_after_so_many_updates() -> None:
    """As Kafka writes them: an update holds what was reported, a snapshot everything, with the next snapshot epoch."""
    world = World(updates_per_snapshot=2)

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, -1)
        for offset in range(4):
            await write(world, -1, 1, 0, B(offset * 2, offset * 2, 2, 1), count=offset + 1)
        kinds = [
            (type(each).__name__, each.snapshot_epoch, len(each.state_batches)) for each in world.written() if each
        ]
        assert kinds == [
            ("ShareSnapshotValue", 0, 0),
            ("ShareUpdateValue", 0, 1),
            ("ShareUpdateValue", 0, 1),
            ("ShareSnapshotValue", 1, 3),
            ("ShareUpdateValue", 1, 1),
        ]

    world.play(story)


def test_the_log_is_cut_behind_cold_states() -> None:
    """A state that nobody updates would keep the whole log in place (KIP-932: cold partitions)."""
    world = World(updates_per_snapshot=3)
    cold = SharePartitionKey("g", topic_id("t"), 1)

    async def story() -> None:
        await world.coordinator.initialize(cold, 1, 7)
        await world.coordinator.initialize(KEY, 1, -1)
        for offset in range(40):
            await write(world, -1, 1, offset, count=0)
        before = world.partition.end_offset
        await asyncio.sleep(11 * MINUTE_S)
        assert world.partition.start_offset >= before - 4  # all but what the last snapshot of KEY needs
        assert len(world.partition.log) < 10
        states = dict(world.shard.states)
        await world.fail_over()
        assert world.shard.states == states
        assert await world.coordinator.read(cold, -1) == ShareState(1, 7, [])

    world.play(story)


def test_nothing_is_written_while_nothing_changes() -> None:
    """Thousands of idle groups must not fill the log with snapshots."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, -1)
        await asyncio.sleep(60 * MINUTE_S)
        assert len(world.written()) == 1

    world.play(story)


def test_state_goes_with_its_topic() -> None:
    """Also when the topic was deleted while nobody led the partition."""
    for is_led in (True, False):
        world = World()

        async def story(world: World = world, is_led: bool = is_led) -> None:
            await world.coordinator.initialize(KEY, 1, -1)
            topic, world.image = world.image.topics[KEY.topic_id], image_of({"u": 1}, version=2)
            if is_led:
                world.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
                world.coordinator.image_changed(world.image, Changes()._replace(topics_removed=(topic,)))
                await asyncio.sleep(3)
                world.partition.refuses_with = None  # it is tried again
                await asyncio.sleep(3)
            else:
                await world.fail_over()
            assert not world.shard.states
            assert world.written()[-1] is None
            assert await world.coordinator.read(KEY, -1) is INVALID

        world.play(story)


def test_a_deletion_that_is_repeated_succeeds() -> None:
    """The one who asks may have missed the answer."""
    world = World()

    async def story() -> None:
        await world.coordinator.initialize(KEY, 1, 5)
        assert [await world.coordinator.delete(KEY) for _ in range(2)] == [NONE, NONE]
        assert await world.coordinator.summary(KEY) == ShareSummary(0, 0, -1, -1)
        await world.fail_over()
        assert not world.shard.states

    world.play(story)
