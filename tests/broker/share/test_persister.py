"""How nodes ask the share coordinator: which questions travel together, which are repeated, and when it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.broker.share.persister import DEADLINE_MS, NodePersister
from chronik.coordinator.share.config import ShareCoordinatorConfig
from chronik.coordinator.share.coordinator import STATE_TOPIC, ShareCoordinator
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.metadata.delta import Changes
from chronik.peer.addresses import Address
from chronik.runtime.interfaces import Runtime
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages import read_share_group_state, write_share_group_state
from chronik.wire.messages.read_share_group_state import ReadShareGroupStateRequest
from chronik.wire.messages.write_share_group_state import WriteShareGroupStateRequest
from chronik.wire.peer_errors import Unreachable
from tests.coordinator.consumer.cluster import image_of, topic_id
from tests.coordinator.virtual import FakeClock, FakePartition, FakeRandomness, run_virtually

HERE, THERE = 1, 2
NONE = ErrorCode.NONE
BATCH = StateBatch(3, 4, 2, 1)


def key(partition: int, group: str = "g") -> SharePartitionKey:
    return SharePartitionKey(group, topic_id("t"), partition)


class World:
    """One node that asks; `answers` are what the coordinator says, in turn, and the last for ever after."""

    def __init__(self, *answers: Any, leader: int | None = THERE, has_topic: bool = True) -> None:
        self.answers = list(answers)
        self.leader = leader
        self.directory = self
        self.clock = FakeClock()
        self.sent: list[Any] = []
        self.created = 0
        self.gate: asyncio.Event | None = None
        self.image = image_of({"t": 9, STATE_TOPIC: 50} if has_topic else {"t": 9})
        self.tasks: set[asyncio.Task[None]] = set()

    def play(self, story: Callable[[NodePersister], Coroutine[Any, Any, None]]) -> None:
        runtime = Runtime(self.clock, None, None, FakeRandomness(0))  # type: ignore[arg-type]

        async def told() -> None:
            made = NodePersister(
                HERE,
                runtime,
                self,
                lambda: self.image,
                lambda: self.coordinator,
                self.create,
                lambda name, work: self.tasks.add(asyncio.ensure_future(work)),
            )
            await story(made)

        self.coordinator = ShareCoordinator(ShareCoordinatorConfig(), self.clock, partition_count=1)
        run_virtually(told(), self.clock)

    async def create(self) -> None:
        await asyncio.sleep(0.1)
        self.created += 1
        self.image = image_of({"t": 9, STATE_TOPIC: 50})

    def next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def leader_of(self, topic: str, partition: int) -> int | None:
        assert topic == STATE_TOPIC
        return self.leader

    def address_of(self, node_id: int) -> Address | None:
        return None

    async def ask(self, node_id: int, request: Any, answer: type[Any], *, timeout_ms: int) -> Any:
        assert node_id == THERE
        received = decode(type(request), 0, encode(request, 0))
        self.sent.append(received)
        if self.gate is not None:
            await self.gate.wait()
        told = self.next()
        if isinstance(told, Exception):
            raise told
        is_read = isinstance(request, ReadShareGroupStateRequest)
        module: Any = read_share_group_state if is_read else write_share_group_state
        more = {"state_epoch": 7, "start_offset": 3, "state_batches": []} if is_read else {}
        result = module.ReadStateResult if is_read else module.WriteStateResult
        return answer(
            results=[
                result(
                    topic_id=topic.topic_id,
                    partitions=[
                        module.PartitionResult(partition=each.partition, error_code=told, **more)
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )


async def write(persister: NodePersister, partition: int, group: str = "g") -> ErrorCode:
    return await persister.write(key(partition, group), 5, 7, 3, 1, [BATCH])


def test_a_coordinator_on_this_node_is_called() -> None:
    """Without a request: most writes of a small cluster go this way."""
    world = World(NONE, leader=HERE)

    async def story(persister: NodePersister) -> None:
        world.coordinator.image_changed(world.image, Changes())
        await world.coordinator.load(FakePartition())
        places = [(topic_id("t"), index) for index in range(9)]
        assert set((await persister.initialize("g", [(*each, 7, -1) for each in places])).values()) == {NONE}
        assert await write(persister, 1) is NONE
        assert await persister.read(key(1), 5) == ShareState(7, 3, [BATCH])
        summaries = await persister.summaries("g", [(*each, -1) for each in places[:2]])
        assert summaries == {places[0]: ShareSummary(7, 0, -1, -1), places[1]: ShareSummary(7, 5, 3, 1)}
        assert await persister.delete("g", places[1:2]) == {places[1]: NONE}
        assert world.sent == []
        world.coordinator.unload(0)

    world.play(story)


def test_questions_that_arrive_meanwhile_share_the_next_request() -> None:
    """Of a group: one request is under way, and a partition is in a request once."""
    world = World(NONE)

    async def story(persister: NodePersister) -> None:
        world.gate = asyncio.Event()
        asked = [asyncio.ensure_future(write(persister, n)) for n in (0, 1, 2, 2, 3)]
        other = asyncio.ensure_future(write(persister, 0, "other"))
        await asyncio.sleep(0.01)
        assert [sent.group_id for sent in world.sent] == ["g", "other"]
        world.gate.set()
        assert [await each for each in (*asked, other)] == [NONE] * 6
        carried = [
            [each.partition for topic in sent.topics for each in topic.partitions]
            for sent in world.sent
            if sent.group_id == "g"
        ]
        assert carried == [[0], [1, 2, 3], [2]]

    world.play(story)


@pytest.mark.parametrize(
    "passing",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # this node knows the partition, the other does not yet
        Unreachable("gone"),
    ],
)
def test_what_passes_is_repeated(passing: ErrorCode | Exception) -> None:
    """A failover of the coordinator must not be seen by members."""
    world = World(passing, passing, NONE)

    async def story(persister: NodePersister) -> None:
        assert await write(persister, 0) is NONE
        assert len(world.sent) == 3

    world.play(story)


@pytest.mark.parametrize(
    "final", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH, ErrorCode.INVALID_REQUEST]
)
def test_what_does_not_pass_is_told(final: ErrorCode) -> None:
    """A leader that was fenced has to stop at once."""
    world = World(final)

    async def story(persister: NodePersister) -> None:
        assert await write(persister, 0) is final
        assert await persister.read(key(0), 5) is final
        assert len(world.sent) == 2

    world.play(story)


def test_it_gives_up_in_the_end() -> None:
    """With the last error; a partition that nobody knows is not waited for."""
    for world, expected in (
        (World(ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR),
        (World(NONE, leader=None), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):

        async def story(persister: NodePersister, world: World = world, expected: ErrorCode = expected) -> None:
            assert await write(persister, 0) is expected
            assert DEADLINE_MS - 2_000 <= world.clock.now_ns // 1_000_000 <= DEADLINE_MS
            world.answers[:] = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            world.leader = THERE
            sent = len(world.sent)
            assert await write(persister, 99) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert len(world.sent) == sent + 1

        world.play(story)


def test_the_state_topic_is_created_once() -> None:
    """Many partitions of a new group ask at the same time."""
    world = World(NONE, has_topic=False)

    async def story(persister: NodePersister) -> None:
        assert set(await asyncio.gather(*(write(persister, n) for n in range(5)))) == {NONE}
        assert world.created == 1

    world.play(story)


def test_answers_are_read() -> None:
    """States, and one answer for each partition that was asked about."""
    world = World(NONE)

    async def story(persister: NodePersister) -> None:
        assert await persister.read(key(0), 5) == ShareState(7, 3, [])

    world.play(story)


def test_every_field_of_a_write_travels() -> None:
    """Also the count of finished records, which version 0 does not have."""
    world = World(NONE)

    async def story(persister: NodePersister) -> None:
        original = world.ask
        seen = []

        async def ask(node_id: int, request: Any, answer: type[Any], *, timeout_ms: int) -> Any:
            seen.append(decode(WriteShareGroupStateRequest, 1, encode(request, 1)))
            return await original(node_id, request, answer, timeout_ms=timeout_ms)

        world.ask = ask  # type: ignore[method-assign]
        await write(persister, 4)
        told = seen[0].topics[0].partitions[0]
        assert (told.partition, told.leader_epoch, told.state_epoch) == (4, 5, 7)
        assert (told.start_offset, told.delivery_complete_count) == (3, 1)
        [batch] = told.state_batches
        assert (batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count) == BATCH

    world.play(story)
