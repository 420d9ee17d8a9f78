"""A transaction that no coordinator knows is ended by the leader of its partition; one that is known never is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.broker import hanging_transactions
from chronik.broker.hanging_transactions import (
    INTERVAL_S,
    OPEN_MS_MIN,
    ROUNDS_PAUSE_S,
    HangingTransactions,
    Open,
)
from chronik.replication.replica import Replica
from chronik.runtime.pieces import at_once
from chronik.wire.batches import build, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.records import Record
from tests.broker.hostile import World, run

PRODUCER_ID = 900
HEALED_S = OPEN_MS_MIN / 1000 + 2 * INTERVAL_S + 2 * ROUNDS_PAUSE_S + 1


def replica_of(world: World) -> Replica:
    topic = world.node.store.image.topic_named("t")
    assert topic is not None
    replica = world.node.replicas.get(topic, 0)
    assert replica is not None
    return replica


async def write_unasked(world: World, *, producer_id: int = PRODUCER_ID, epoch: int = 0, sequence: int = 0) -> None:
    """A batch in a transaction, as if its coordinator had known it once."""
    replica = replica_of(world)
    guard = replica.log.producers.guard_for(producer_id, epoch, sequence, is_tv2=False)
    record = Record(0, world.node.runtime.clock.wall_ms(), None, b"v", ())
    batch = build(
        [record], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True
    )
    replica.append(split(memoryview(batch))[0], now_ms=world.node.runtime.clock.wall_ms(), guard=guard)
    committed = replica.when_committed(replica.log.end_offset)
    if committed is not None:
        await committed


def stable_offset(world: World) -> int:
    replica = replica_of(world)
    return replica.log.last_stable_offset(replica.high_watermark)


def play(story: Any, **settings: object) -> None:
    async def told() -> None:
        world = await World.make(**settings)
        await world.create("t")
        await story(world)
        await world.node.stop()

    run(told())


async def begin(world: World, *, adds: bool = True) -> InitProducerIdResponse:
    """A transaction that its coordinator knows, with the topic's partition or without."""
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    await world.client.ask(find, FindCoordinatorResponse, 4)
    await asyncio.sleep(1)
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=900_000)
    made = await world.client.ask(init, InitProducerIdResponse, 4)
    assert not made.error_code
    if adds:
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=made.producer_id,
            v3_and_below_producer_epoch=made.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        await world.client.ask(add, AddPartitionsToTxnResponse, 3)
    return made


@pytest.mark.parametrize("has_coordinators", [True, False])
def test_a_transaction_that_nobody_knows_is_aborted(has_coordinators: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Also in a cluster whose state topic is gone."""

    async def story(world: World) -> None:
        if has_coordinators:
            await begin(world, adds=False)
        await write_unasked(world)
        await world.produce(topic="t")
        assert stable_offset(world) == 0
        await asyncio.sleep(HEALED_S)
        assert stable_offset(world) == replica_of(world).high_watermark == 3
        assert "no coordinator knows it: aborted it" in caplog.text

    play(story)


def test_a_transaction_that_its_coordinator_knows_stays_open() -> None:
    async def story(world: World) -> None:
        made = await begin(world)
        await write_unasked(world, producer_id=made.producer_id, epoch=made.producer_epoch)
        await asyncio.sleep(3 * HEALED_S)
        assert stable_offset(world) == 0

    play(story)


def test_a_producer_that_has_gone_on_elsewhere_leaves_nothing_behind() -> None:
    """Its coordinator knows the producer, but this partition is not part of its transaction."""

    async def story(world: World) -> None:
        made = await begin(world, adds=False)
        await write_unasked(world, producer_id=made.producer_id, epoch=made.producer_epoch)
        await asyncio.sleep(HEALED_S)
        assert stable_offset(world) == replica_of(world).high_watermark == 2

    play(story)


def test_while_a_coordinator_does_not_answer_nothing_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        await begin(world, adds=False)
        await write_unasked(world)
        transactions = world.node.coordinators.transactions
        monkeypatch.setattr(transactions, "transactions", lambda: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        await asyncio.sleep(2 * HEALED_S)
        assert stable_offset(world) == 0

    play(story)


def test_a_leadership_that_moves_between_the_questions_ends_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator that knows the transaction may have been asked before it led, and the one before it after."""

    async def story(world: World) -> None:
        await begin(world, adds=False)
        await write_unasked(world)
        answers = iter(range(1000))
        monkeypatch.setattr(HangingTransactions, "_state_leaders", lambda self: [(1, next(answers))])
        await asyncio.sleep(2 * HEALED_S)
        assert stable_offset(world) == 0

    play(story)


def test_a_producer_that_writes_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have begun its next transaction here, and an abort would take records of that one."""

    async def story(world: World) -> None:
        await write_unasked(world)
        sequence = 1

        async def unknown(self: HangingTransactions, suspects: set[Any], _: list[int]) -> set[Any]:
            nonlocal sequence
            await write_unasked(world, sequence=sequence)
            sequence += 1
            return suspects

        monkeypatch.setattr(hanging_transactions.HangingTransactions, "_unknown", unknown)
        await asyncio.sleep(2 * HEALED_S)
        assert sequence > 2
        assert stable_offset(world) == 0

    play(story)


def test_open_transactions_are_looked_at_in_turns() -> None:
    """A partition may have a hundred thousand."""

    async def story(world: World) -> None:
        for number in range(20):
            await write_unasked(world, producer_id=100 + number)
        looking = HangingTransactions(world.node.dispatcher._services)
        assert sum(1 for _ in looking._long_open()) == 20
        ending = looking._long_open()
        next(ending)
        replica_of(world).log.producers.end_transaction(100, 0, 0, 20, 1, committed=False)
        assert at_once(ending) == set()
        assert len(looking._seen_ms) == 19

    play(story)


def test_the_transactions_of_a_coordinator_are_looked_at_once_for_all_suspects() -> None:
    """A node may coordinate 100,000 transactional ids while a thousand transactions are open for long."""

    class Counted(tuple[int, frozenset[tuple[str, int]]]):
        __slots__ = ()
        looked_at = 0

        def __iter__(self) -> Any:
            Counted.looked_at += 1
            return super().__iter__()

    told: list[Any] = [Counted((number, frozenset({("t", 0)}))) for number in range(100)]
    suspects = {Open("t", index % 2, number, 0, number, number) for index, number in enumerate(range(50, 150))}
    known = hanging_transactions._part_of(suspects, told)
    assert known == {each for each in suspects if each.producer_id < 100 and each.partition == 0}
    assert Counted.looked_at == len(told)
