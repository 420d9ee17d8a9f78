"""A node whose questions to transaction coordinators are answered by the test, and transactional batches for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.broker.transaction_partitions import Answers, TopicPartition
from chronik.replication.replica import Replica
from chronik.wire.batches import build, split
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.records import Record
from tests.broker.harness import NOW_MS
from tests.broker.hostile import World, run

P = 7  # a producer id


class Asked:
    """Takes the place of a node's TransactionPartitions. Answers with `says`, or when told to, while it `waits`."""

    def __init__(self, world: World) -> None:
        self.questions: list[tuple[str, int, int, tuple[TopicPartition, ...], bool]] = []
        self.says: list[ErrorCode | dict[TopicPartition, ErrorCode]] = []  # then NONE
        self.waits: asyncio.Event | None = None
        world.node.dispatcher._services.transaction_partitions.ask = self.ask  # type: ignore[method-assign]

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        verify_only: bool,
    ) -> Answers:
        self.questions.append((transactional_id, producer_id, producer_epoch, tuple(partitions), verify_only))
        said = self.says.pop(0) if self.says else ErrorCode.NONE
        if self.waits is not None:
            await self.waits.wait()
        else:
            await asyncio.sleep(0)
        return dict.fromkeys(partitions, said) if isinstance(said, ErrorCode) else said


def play(story: Callable[[World, Asked], Coroutine[Any, Any, None]], **settings: object) -> None:
    """On a node with a topic t of three partitions."""

    async def main() -> None:
        world = await World.make(**settings)
        await world.create("t", partitions=3)
        await story(world, Asked(world))

    run(main())


def replica_of(world: World, topic: str = "t", index: int = 0) -> Replica:
    known = world.node.store.image.topic_named(topic)
    assert known is not None
    replica = world.node.replicas.get(known, index)
    assert replica is not None
    return replica


def transactional(
    epoch: int = 0, sequence: int = 0, *, producer_id: int = P, value: bytes = b"v", codec: Codec = Codec.NONE
) -> bytes:
    return build(
        [Record(0, NOW_MS, b"k", value, ())],
        codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def write(replica: Replica, epoch: int = 0, sequence: int = 0) -> int:
    """Appends a batch of a transaction that its coordinator knows; returns its offset."""
    guard = replica.log.producers.guard_for(P, epoch, sequence, is_tv2=False)
    [made] = split(memoryview(bytearray(transactional(epoch, sequence))))
    return replica.append(made, now_ms=NOW_MS, guard=guard).first_offset
