"""Without a coordinator no transaction is open anywhere, and what claims to be part of one is refused."""

from __future__ import annotations

import asyncio

import pytest

from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceResponse
from chronik.wire.records import Record
from tests.broker.harness import NOW_MS, Closed
from tests.broker.hostile import World, batch, fetch_request, produce_request, run

ACKS_NONE = 0
READ_COMMITTED = 1


def transactional(codec: Codec = Codec.NONE) -> bytes:
    found = [Record(0, NOW_MS, b"k", b"of a transaction", ())]
    return build(found, codec, producer_id=77, producer_epoch=0, base_sequence=0, is_transactional=True)


async def answers(
    world: World, *batches: bytes, transactional_id: str | None = None, version: int = 9, acks: int = -1
) -> list[PartitionProduceResponse]:
    request = produce_request(batches[0], acks=acks)
    request.transactional_id = transactional_id
    request.topic_data[0].partition_data += [
        PartitionProduceData(index=index, records=data) for index, data in enumerate(batches[1:], start=1)
    ]
    return (await world.client.ask(request, ProduceResponse, version)).responses[0].partition_responses


@pytest.mark.parametrize("version", [3, 7, 9, 12])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_transactional_batch_is_refused_as_kafka_refuses_one_of_no_transaction(version: int, codec: Codec) -> None:
    """Without an id nobody may write for it; an id that no coordinator knows has no producer."""

    async def story() -> None:
        world = await World.make()
        await world.create()
        [nameless] = await answers(world, transactional(codec), version=version)
        assert nameless.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        [named] = await answers(world, transactional(codec), transactional_id="mine", version=version)
        assert named.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert (named.base_offset, nameless.base_offset) == (-1, -1)

    run(story())


def test_those_who_read_what_is_committed_are_not_held_up() -> None:
    """A transaction that nobody can end would keep the last stable offset, and with it compaction, where it began."""

    async def story() -> None:
        world = await World.make()
        await world.create(cleanup_policy="compact")
        assert (await answers(world, transactional()))[0].error_code
        assert (await answers(world, batch(b"v", key=b"k")))[0].error_code == 0
        request = fetch_request(0)
        request.isolation_level = READ_COMMITTED
        found = (await world.client.ask(request, FetchResponse, 11)).responses[0].partitions[0]
        assert (found.high_watermark, found.last_stable_offset) == (1, 1)
        assert len(found.records) > 0

    run(story())


def test_other_partitions_of_the_request_are_served() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create(partitions=2)
        made = await answers(world, transactional(), batch(b"v"), transactional_id="mine")
        assert [each.error_code for each in made] == [ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0]

    run(story())


def test_a_producer_that_wants_no_answer_is_disconnected() -> None:
    async def story() -> None:
        world = await World.make()
        await world.create()
        with pytest.raises(Closed):
            await asyncio.wait_for(answers(world, transactional(), acks=ACKS_NONE), 1)

    run(story())
