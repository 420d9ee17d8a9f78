"""Produce with transactional batches: who is asked before the append, what is refused, and in whose words."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from chronik.coordinator.open_transactions import Producer, marker_batch
from chronik.replication.errors import NotLeader
from chronik.replication.replica import Replica
from chronik.storage.origins import Origin
from chronik.wire.batches import build, split
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chronik.wire.records import ControlType, Record
from tests.broker.harness import NOW_MS, Client, Closed
from tests.broker.hostile import World, batch, fetch_request
from tests.broker.transactional import Asked, P, play, replica_of, transactional, write

ADDS, ABORTABLE, VERIFIES, OLDEST = 12, 11, 10, 3
VERSIONS = (OLDEST, VERIFIES, ABORTABLE, ADDS, 13)
NONE = ErrorCode.NONE
READ_COMMITTED = 1
NAMELESS = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
Data = dict[tuple[str, int], bytes]


def request_of(world: World, data: Data, *, transactional_id: str | None = "mine", acks: int = -1) -> ProduceRequest:
    topics: dict[str, TopicProduceData] = {}
    for (name, index), records in data.items():
        known = world.node.store.image.topic_named(name)
        topic_id = known.topic_id if known is not None else bytes(15) + b"\1"
        made = topics.setdefault(name, TopicProduceData(name=name, topic_id=topic_id, partition_data=[]))
        made.partition_data.append(PartitionProduceData(index=index, records=records))
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=list(topics.values())
    )


async def answers(
    world: World, data: Data, version: int = ADDS, *, transactional_id: str | None = "mine", acks: int = -1
) -> list[PartitionProduceResponse]:
    request = request_of(world, data, transactional_id=transactional_id, acks=acks)
    response = await world.client.ask(request, ProduceResponse, version)
    return [each for topic in response.responses for each in topic.partition_responses]


async def errors(
    world: World, data: Data, version: int = ADDS, *, transactional_id: str | None = "mine", acks: int = -1
) -> list[ErrorCode]:
    made = await answers(world, data, version, transactional_id=transactional_id, acks=acks)
    return [ErrorCode.of(each.error_code) for each in made]


async def produce(world: World, records: bytes, version: int = ADDS, index: int = 0) -> ErrorCode:
    [error] = await errors(world, {("t", index): records}, version)
    return error


def end(replica: Replica, epoch: int = 0, *, transaction_version: int = 0) -> None:
    marker = marker_batch(Producer(P, epoch), ControlType.COMMIT, 0, NOW_MS)
    [made] = split(memoryview(bytearray(marker)))
    replica.append(made, now_ms=NOW_MS, origin=Origin.COORDINATOR, transaction_version=transaction_version)


# --- asking


@pytest.mark.parametrize("version", VERSIONS)
def test_the_coordinator_is_asked_once_for_each_transaction_and_partition(version: int) -> None:
    """From v12 on it adds the partition, before it says whether the producer has. Batches behind the first one are as
    fast as any other: the transaction is open, so the coordinator knows."""

    async def story(world: World, asked: Asked) -> None:
        for sequence in range(3):
            assert await produce(world, transactional(0, sequence), version) is NONE
        assert asked.questions == [("mine", P, 0, (("t", 0),), version < ADDS)]
        end(replica_of(world))
        assert await produce(world, transactional(0, 3), version) is NONE
        assert len(asked.questions) == 2
        assert replica_of(world).last_stable_offset == 4

    play(story)


def test_one_question_covers_all_partitions_of_a_request() -> None:
    """Those on which the transaction is open are not asked about, and plain batches have nothing to do with it."""

    async def story(world: World, asked: Asked) -> None:
        assert await produce(world, transactional(), index=1) is NONE
        asked.questions.clear()
        await world.create("u", partitions=1)
        data = {
            ("t", 0): transactional(),
            ("t", 1): transactional(0, 1),
            ("t", 2): batch(b"plain"),
            ("u", 0): transactional(),
        }
        assert await errors(world, data) == [NONE] * 4
        assert asked.questions == [("mine", P, 0, (("t", 0), ("u", 0)), False)]
        data = {place: transactional(0, 1) for place in [("t", 0), ("u", 0)]}
        assert await errors(world, data) == [NONE] * 2
        assert len(asked.questions) == 1, "all are open now"

    play(story)


def test_a_partition_that_the_coordinator_refuses_does_not_hold_up_the_others() -> None:
    async def story(world: World, asked: Asked) -> None:
        asked.says = [{("t", 0): NONE, ("t", 1): ErrorCode.INVALID_TXN_STATE, ("t", 2): NONE}]
        data = {("t", index): transactional() for index in range(3)}
        assert await errors(world, data) == [NONE, ErrorCode.INVALID_TXN_STATE, NONE]
        assert [replica_of(world, "t", index).log.end_offset for index in range(3)] == [1, 0, 1]

    play(story)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_that_must_be_looked_into_ask_as_well(codec: Codec) -> None:
    """A compacted topic demands keys: alone, and with a batch for another partition."""

    async def story(world: World, asked: Asked) -> None:
        await world.create("c", partitions=2, cleanup_policy="compact")
        assert await errors(world, {("c", 0): transactional(codec=codec)}) == [NONE]
        data = {("c", 0): transactional(0, 1, codec=codec), ("c", 1): transactional(codec=codec)}
        assert await errors(world, data) == [NONE, NONE]
        assert [question[3] for question in asked.questions] == [(("c", 0),), (("c", 1),)]
        keyless = build(
            [Record(0, NOW_MS, None, b"v", ())],
            codec,
            producer_id=P,
            producer_epoch=0,
            base_sequence=2,
            is_transactional=True,
        )
        assert await errors(world, {("c", 0): keyless}) == [ErrorCode.INVALID_RECORD]

    play(story)


def test_nobody_is_asked_about_a_batch_that_cannot_be_appended() -> None:
    """Otherwise the transaction would get a partition without a record of it."""

    async def story(world: World, asked: Asked) -> None:
        one, two = replica_of(world, "t", 1), replica_of(world, "t", 2)

        def follows(*_: object) -> None:
            raise NotLeader("t-1", 2)

        one.state = one.state._replace(leader=2)
        one.require_leader = follows  # type: ignore[method-assign,assignment]
        two.state = two.state._replace(replicas=(1, 2, 3), isr=(1,))
        two.settings = replace(two.settings, min_insync_replicas=2)
        sent = transactional()
        places = [("gone", 0), ("t", 1), ("t", 2), ("t", 3)]
        refused = [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert [await errors(world, {place: sent}) for place in places] == [[each] for each in refused]
        assert await errors(world, dict.fromkeys(places, sent)) == refused
        assert await errors(world, {("t", 0): sent}, acks=2) == [ErrorCode.INVALID_REQUIRED_ACKS]
        assert await errors(world, {("t", 0): sent, ("t", 1): sent}, acks=2) == [ErrorCode.INVALID_REQUIRED_ACKS] * 2
        assert not asked.questions
        one.state = one.state._replace(leader=1)

    play(story)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fenced_producer_is_refused_without_a_question(version: int) -> None:
    """The partition knows a later epoch, whatever the coordinator says."""

    async def story(world: World, asked: Asked) -> None:
        write(replica_of(world), epoch=3)
        assert await produce(world, transactional(2), version) is ErrorCode.INVALID_PRODUCER_EPOCH
        both = {("t", 0): transactional(2), ("t", 1): batch(b"v")}
        assert await errors(world, both, version) == [ErrorCode.INVALID_PRODUCER_EPOCH, NONE]
        assert not asked.questions

    play(story)


@pytest.mark.parametrize("version", [ABORTABLE, ADDS])
def test_verification_can_be_switched_off(version: int) -> None:
    """For producers that add partitions themselves. For others the question is no check: it adds the partition."""

    async def story(world: World, asked: Asked) -> None:
        assert await produce(world, transactional(), version) is NONE
        data = {("t", 1): transactional(), ("t", 2): transactional()}
        assert await errors(world, data, version) == [NONE, NONE]
        assert len(asked.questions) == (2 if version >= ADDS else 0)

    play(story, transaction_partition_verification_enable=False)


# --- what the coordinator says

TRY_AGAIN = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
UNCHANGED = (
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_is_told_in_words_that_the_version_knows(version: int) -> None:
    """A producer gives up for good after a word that it does not expect from Produce."""
    told = {
        **dict.fromkeys(TRY_AGAIN, ErrorCode.NOT_ENOUGH_REPLICAS),
        **{error: error for error in UNCHANGED},
        ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE: (
            ErrorCode.TRANSACTION_ABORTABLE if version >= ABORTABLE else ErrorCode.INVALID_TXN_STATE
        ),
    }

    async def story(world: World, asked: Asked) -> None:
        for error, expected in told.items():
            asked.says = [error]
            [made] = await answers(world, {("t", 0): transactional()}, version)
            assert (ErrorCode.of(made.error_code), made.base_offset, made.log_start_offset) == (expected, -1, -1), error
            if version >= 8:
                assert made.error_message is not None
                assert error.name in made.error_message
        assert len(asked.questions) == len(told)
        assert replica_of(world).log.end_offset == 0

    play(story)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_coordinator_that_ends_the_last_transaction_is_asked_again_for_a_while(version: int) -> None:
    """The client has its answer to EndTxn before all markers are written. Its next batch would come too early, and to
    send it again costs more than to wait here. Clients before v12 never come so early: they add the partition first."""

    async def story(world: World, asked: Asked) -> None:
        asked.says = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
        started_ms = world.node.runtime.clock.monotonic_ns() // 1_000_000
        error = await produce(world, transactional(), version)
        took_ms = world.node.runtime.clock.monotonic_ns() // 1_000_000 - started_ms
        if version >= ADDS:
            assert (error, len(asked.questions)) == (NONE, 4)
            assert 7 <= took_ms < 15, "after 1, 2 and 4 ms"
        else:
            assert (error, len(asked.questions)) == (ErrorCode.NOT_ENOUGH_REPLICAS, 1)

    play(story)


def test_the_coordinator_is_not_asked_again_for_ever() -> None:
    """Pauses of 1, 2, 4, 8, 16 and then 20 ms, for 100 ms. Then the producer is told, and comes again by itself."""

    async def story(world: World, asked: Asked) -> None:
        asked.says = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
        assert await produce(world, transactional()) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert len(asked.questions) == 10

    play(story)


def test_how_often_it_is_asked_again_is_a_setting() -> None:
    async def story(world: World, asked: Asked) -> None:
        asked.says = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
        assert await produce(world, transactional()) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert len(asked.questions) == 4, "at 0, 1, 3 and 5 ms"

    play(story, add_partitions_to_txn_retry_backoff_ms=2, add_partitions_to_txn_retry_backoff_max_ms=5)


# --- what happens meanwhile


@pytest.mark.parametrize("version", [ABORTABLE, ADDS])
def test_an_answer_about_a_transaction_that_has_ended_admits_nothing(version: int) -> None:
    """The transaction timed out and was aborted while the coordinator's answer was in flight. A batch that is written
    now would open a hanging transaction: nothing after it could be read or compacted."""

    async def story(world: World, asked: Asked) -> None:
        asked.waits = asyncio.Event()
        late = asyncio.ensure_future(produce(world, transactional(), version))
        await asyncio.sleep(1)
        end(replica_of(world), epoch=1 if version >= ADDS else 0, transaction_version=2 if version >= ADDS else 0)
        asked.waits.set()
        refused = ErrorCode.INVALID_PRODUCER_EPOCH if version >= ADDS else ErrorCode.INVALID_TXN_STATE
        assert await late is refused
        log = replica_of(world).log
        assert log.end_offset == log.last_stable_offset(log.end_offset) == 1

    play(story)


def test_a_late_marker_of_the_transaction_before_leaves_the_next_one_alone() -> None:
    """In version 2 a marker has the epoch of the producer's next transaction, and that may have begun to ask."""

    async def story(world: World, asked: Asked) -> None:
        write(replica_of(world), epoch=3)
        asked.waits = asyncio.Event()
        following = asyncio.ensure_future(produce(world, transactional(4)))
        await asyncio.sleep(1)
        end(replica_of(world), epoch=4, transaction_version=2)
        asked.waits.set()
        assert await following is NONE

    play(story)


def test_later_requests_of_the_connection_wait() -> None:
    """A producer sends up to five requests at a time, and their batches must be written in the order of sending."""

    async def story(world: World, asked: Asked) -> None:
        asked.waits = asyncio.Event()
        sent = [
            world.client.start(request_of(world, {("t", 0): transactional(0, sequence)}), ADDS) for sequence in range(5)
        ]
        plain = world.client.start(request_of(world, {("t", 1): batch(b"v")}, transactional_id=None), ADDS)
        other = Client(world.node)
        await other.ask(request_of(world, {("t", 2): batch(b"v")}, transactional_id=None), ProduceResponse, ADDS)
        assert replica_of(world, "t", 1).log.end_offset == 0, "it came behind"
        assert not any(each.done() for each in [*sent, plain])
        asked.waits.set()
        await asyncio.gather(*sent, plain)
        assert len(asked.questions) == 1
        assert replica_of(world).log.end_offset == 5
        assert [each.last_sequence for each in replica_of(world).log.producers.producers[P].batches] == list(range(5))

    play(story)


def test_a_client_that_leaves_while_the_coordinator_is_asked_harms_nobody() -> None:
    async def story(world: World, asked: Asked) -> None:
        asked.waits = asyncio.Event()
        gone = Client(world.node)
        gone.start(request_of(world, {("t", 0): transactional()}), ADDS)
        await asyncio.sleep(1)
        gone._transport.abort()
        asked.waits.set()
        asked.waits = None
        await asyncio.sleep(1)
        assert await produce(world, transactional()) is NONE, "or it was written, and this repeats it"
        assert replica_of(world).log.end_offset == 1
        await world.create("hostile")
        await world.produce(topic="hostile")

    play(story)


# --- requests that belong to no transaction


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_request_with_transactional_batches_and_no_transactional_id_is_refused_as_a_whole(
    version: int, codec: Codec
) -> None:
    """Nobody may write for a transaction without a name. That comes before everything else, topics included."""

    async def story(world: World, asked: Asked) -> None:
        await world.create("c", cleanup_policy="compact")
        sent = transactional(codec=codec)
        for place in [("t", 0), ("c", 0), ("gone", 0), ("t", 9)]:
            assert await errors(world, {place: sent}, version, transactional_id=None) == [NAMELESS]
        data = {("t", 0): batch(b"v"), ("t", 9): sent}
        assert await errors(world, data, version, transactional_id=None) == [NAMELESS] * 2
        assert await errors(world, {("t", 0): sent}, version, transactional_id=None, acks=2) == [NAMELESS]
        assert replica_of(world).log.end_offset == 0
        assert not asked.questions

    play(story)


@pytest.mark.parametrize("other", [{"producer_id": 8}, {"epoch": 1}])
def test_a_request_of_two_producers_is_refused_as_a_whole(other: dict[str, int]) -> None:
    """A transaction has one producer, in one epoch."""

    async def story(world: World, asked: Asked) -> None:
        data = {("t", 0): transactional(), ("t", 1): batch(b"v"), ("t", 2): transactional(**other)}
        assert await errors(world, data) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 3
        assert [replica_of(world, "t", index).log.end_offset for index in range(3)] == [0, 0, 0]
        assert not asked.questions

    play(story)


@pytest.mark.parametrize("data", [{("t", 0): transactional()}, {("t", 0): transactional(), ("t", 1): batch(b"v")}])
@pytest.mark.parametrize("refusal", ["no id", "coordinator"])
def test_a_producer_that_wants_no_answer_is_disconnected(data: Data, refusal: str) -> None:
    async def story(world: World, asked: Asked) -> None:
        asked.says = [ErrorCode.INVALID_TXN_STATE]
        name = None if refusal == "no id" else "mine"
        with pytest.raises(Closed):
            await asyncio.wait_for(answers(world, data, transactional_id=name, acks=0), 1)

    play(story)


def test_a_producer_without_acknowledgement_writes_transactions_too() -> None:
    async def story(world: World, asked: Asked) -> None:
        world.client.start(request_of(world, {("t", 0): transactional()}, acks=0), ADDS)
        world.client._waiting.pop()
        assert await produce(world, transactional(0, 1)) is NONE
        assert replica_of(world).log.end_offset == 2

    play(story)


def test_a_plain_batch_of_a_producer_whose_transaction_is_open_is_refused() -> None:
    """It would be part of the transaction for some readers and not for others."""

    async def story(world: World, asked: Asked) -> None:
        assert await produce(world, transactional()) is NONE
        plain = build([Record(0, NOW_MS, b"k", b"v", ())], producer_id=P, producer_epoch=0, base_sequence=1)
        assert await produce(world, plain) is ErrorCode.INVALID_TXN_STATE

    play(story)


def test_readers_of_committed_records_are_not_held_up_by_a_refused_batch() -> None:
    """A transaction that nobody can end would keep the last stable offset, and with it compaction, where it began."""

    async def story(world: World, asked: Asked) -> None:
        asked.says = [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert await produce(world, transactional()) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await errors(world, {("t", 0): batch(b"v")}, transactional_id=None) == [NONE]
        request = fetch_request(0, topic="t")
        request.isolation_level = READ_COMMITTED
        found = (await world.client.ask(request, FetchResponse, 11)).responses[0].partitions[0]
        assert (found.high_watermark, found.last_stable_offset) == (1, 1)
        assert len(found.records) > 0

    play(story)


def test_without_a_coordinator_the_producer_tries_again() -> None:
    """The topic of the coordinators does not exist before the first InitProducerId, or has no leader just now."""

    async def story(world: World, asked: Asked) -> None:
        del world.node.dispatcher._services.transaction_partitions.ask  # type: ignore[method-assign]
        assert await produce(world, transactional()) is ErrorCode.NOT_ENOUGH_REPLICAS

    play(story)
