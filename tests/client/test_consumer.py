"""Consuming by assignment: every record once and in order, from any start, through failures and seeks."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.client.consumer import AtTime, Consumer
from chronik.client.errors import BadAnswer, ClientError, OffsetOutOfRange, Refused
from chronik.client.fetch_answers import FetchOptions
from chronik.client.fetching import DAMAGED_S_MAX
from chronik.client.producer import Producer
from chronik.client.topology import TopicPartition
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.records import ControlType, Record, marker
from tests.client.fake_cluster import FakeCluster, on_cluster

T0 = TopicPartition("t", 0)


async def fill(
    cluster: Any, count: int, *, batch_bytes_max: int = 1_000_000, topic: str = "t", partition: int = 0
) -> None:
    async with Producer(cluster, batch_bytes_max=batch_bytes_max) as producer:
        for i in range(count):
            await producer.send(topic, b"%d" % i, partition=partition, timestamp=1_000 + 10 * i)


async def read(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < count:
        for fetched in await consumer.poll():
            found += fetched.records
    return found


async def read_past_errors(consumer: Consumer, poll_count: int) -> list[Record]:
    found: list[Record] = []
    for _ in range(poll_count):
        with contextlib.suppress(Refused):
            for fetched in await consumer.poll(100):
                found += fetched.records
    return found


@pytest.mark.parametrize(
    ("start", "first"),
    [(EARLIEST, 0), (0, 0), (37, 37), (AtTime(0), 0), (AtTime(1_370), 37), (AtTime(1_371), 38)],
)
def test_reading_starts_where_it_is_told(start: Any, first: int) -> None:
    """Also an offset inside a batch: brokers send whole batches, and earlier records must not be returned."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 100)
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: start})
            assert consumer.positions() == {T0: first}
            records = await read(consumer, 100 - first)
            assert [record.offset for record in records] == list(range(first, 100))
            assert consumer.positions() == {T0: 100}
            assert consumer.high_watermarks() == {T0: 100}

    on_cluster(work)


@pytest.mark.parametrize("start", [LATEST, AtTime(10**9)])
def test_reading_from_the_end_waits_for_what_comes(start: Any) -> None:
    """A time after the last record is the end, not the beginning."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: start})
            assert await consumer.poll(1_000) == []
            await fill(cluster, 1)
            assert [record.offset for record in await read(consumer, 1)] == [10]

    on_cluster(work)


def test_a_poll_returns_when_records_come_and_not_when_its_time_is_up() -> None:
    """Waiting is the broker's work; a reader sees a record as soon as it is there."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            polling = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(5.2)
            await fill(cluster, 1)
            started = asyncio.get_running_loop().time()
            assert len((await polling)[0].records) == 1
            assert asyncio.get_running_loop().time() - started < 0.1

    on_cluster(work)


def test_fetches_run_ahead_of_whoever_polls() -> None:
    """Without that, every poll would wait for a round trip."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 20_000, batch_bytes_max=10_000)
        options = FetchOptions(partition_max_bytes=100_000)
        async with Consumer(cluster, options=options) as consumer:
            await consumer.assign({T0: EARLIEST})
            await consumer.poll()
            asked = len(fake.nodes[1].asked_for(FetchRequest))
            while not (await consumer.poll())[-1].records[-1].offset % 4_000 > 3_000:
                pass
            await asyncio.sleep(1)
            assert len(fake.nodes[1].asked_for(FetchRequest)) > asked

    on_cluster(work)


def test_a_quiet_partition_does_not_hold_back_a_busy_one() -> None:
    """Both have one leader: a fetch that waits for the quiet one must not delay the other by max_wait_ms."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 30_000, batch_bytes_max=20_000)
        async with Consumer(cluster, options=FetchOptions(partition_max_bytes=50_000, max_wait_ms=500)) as consumer:
            await consumer.assign({T0: EARLIEST, TopicPartition("t", 1): EARLIEST})
            started = asyncio.get_running_loop().time()
            await read(consumer, 30_000)
            assert asyncio.get_running_loop().time() - started < 1.0

    on_cluster(work)


def test_a_gone_offset_starts_again_as_configured_or_is_told() -> None:
    """Retention deletes records that were not read in time, and the consumer must not hide that."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        fake.partitions["t", 0].start_offset = 5
        async with Consumer(cluster, reset=None) as consumer:
            await consumer.assign({T0: 2})
            with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 2"):
                await consumer.poll()
        async with Consumer(cluster, reset=EARLIEST) as consumer:
            await consumer.assign({T0: 2})
            assert [record.offset for record in await read(consumer, 5)] == [5, 6, 7, 8, 9]

    on_cluster(work)


def test_seeking_drops_what_was_fetched_for_the_old_place() -> None:
    """An answer under way when the caller jumps must not appear at the new place."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 100, batch_bytes_max=200)
        async with Consumer(cluster, options=FetchOptions(partition_max_bytes=300)) as consumer:
            await consumer.assign({T0: EARLIEST})
            await consumer.poll()
            await consumer.seek({T0: 90})
            assert [record.offset for record in await read(consumer, 10)] == list(range(90, 100))
            await consumer.seek({T0: AtTime(1_500)})
            assert (await read(consumer, 1))[0].offset == 50
            with pytest.raises(ClientError, match="does not read it"):
                await consumer.seek({TopicPartition("t", 2): 0})

    on_cluster(work)


def test_seeking_does_not_wait_for_the_fetch_under_way() -> None:
    """That one may wait for records at the old place for as long as the broker lets it."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        async with Consumer(cluster, options=FetchOptions(max_wait_ms=30_000)) as consumer:
            await consumer.assign({T0: LATEST})
            assert await consumer.poll(100) == []
            await consumer.seek({T0: 3})
            assert (await consumer.poll(100))[0].records[0].offset == 3

    on_cluster(work)


def test_a_paused_partition_is_kept_and_not_read() -> None:
    """How a caller holds back one topic while it works on another."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            consumer.pause([T0])
            assert await consumer.poll(1_000) == []
            consumer.pause([T0], is_paused=False)
            assert len(await read(consumer, 10)) == 10

    on_cluster(work)


def test_a_deleted_topic_is_told_after_a_while() -> None:
    """`consume --follow` on a topic that is deleted must not hang silently."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            await consumer.poll(100)
            fake.partitions.clear()
            with pytest.raises(Refused, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await read(consumer, 1)

    on_cluster(work)


@pytest.mark.parametrize("damaged_s", [5, 60], ids=["mended in time", "for good"])
def test_a_partition_that_its_leader_cannot_read_is_told_after_a_while(damaged_s: int) -> None:
    """Replicas are repaired within seconds; a reader of the last copy would wait forever."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        loop = asyncio.get_running_loop()
        mended_at_s = loop.time() + damaged_s

        async def fetch(request: FetchRequest, version: int) -> FetchResponse:
            response = await fake.fetch(1, request, version)
            for told in response.responses[0].partitions:
                if loop.time() < mended_at_s:
                    told.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return response

        fake.nodes[1].handlers[FetchRequest] = fetch
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            if damaged_s < DAMAGED_S_MAX:
                assert len(await read(consumer, 10)) == 10
            else:
                with pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
                    await read(consumer, 10)
                assert loop.time() < mended_at_s

    on_cluster(work)


def test_damaged_bytes_are_told_with_their_offset() -> None:
    """A checksum only protects if it is checked."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        log = fake.partitions["t", 0].log
        log[0] = log[0][:-1] + bytes([log[0][-1] ^ 1])
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            with pytest.raises(BadAnswer, match="t-0: the batch at offset 0 fails its checksum"):
                await consumer.poll()

    on_cluster(work)


def transactional(offset: int, producer_id: int, values: Sequence[bytes]) -> bytes:
    records = [Record(offset + index, 1, None, value) for index, value in enumerate(values)]
    return batches.build(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True, leader_epoch=0
    )


def end_of(offset: int, producer_id: int, outcome: ControlType) -> bytes:
    return batches.build(
        [marker(offset, 1, outcome, 0)],
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
        leader_epoch=0,
    )


def test_only_committed_records_are_seen_by_who_wants_them() -> None:
    """Two transactions interleave, one is aborted; afterwards its producer commits another."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.partitions["t", 0].log += [
            transactional(0, 7, [b"bad", b"bad"]),
            transactional(2, 8, [b"good"]),
            batches.build([Record(3, 1, None, b"plain")], leader_epoch=0),
            end_of(4, 7, ControlType.ABORT),
            transactional(5, 7, [b"good"]),
            end_of(6, 8, ControlType.COMMIT),
            end_of(7, 7, ControlType.COMMIT),
        ]

        async def fetch(request: FetchRequest, version: int) -> FetchResponse:
            response = await fake.fetch(1, request, version)
            if request.isolation_level == READ_COMMITTED:
                told = response.responses[0].partitions[0]
                told.aborted_transactions = [AbortedTransaction(producer_id=7, first_offset=0)]
            return response

        fake.nodes[1].handlers[FetchRequest] = fetch
        async with Consumer(cluster, options=FetchOptions(isolation_level=READ_COMMITTED)) as consumer:
            await consumer.assign({T0: EARLIEST})
            assert [record.value for record in await read(consumer, 3)] == [b"good", b"plain", b"good"]
            assert await consumer.poll(100) == []
            assert consumer.positions() == {T0: 8}  # past the markers, or lag would never be 0
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST})
            assert len(await read(consumer, 5)) == 5

    on_cluster(work)


def test_an_error_of_one_partition_leaves_the_others_readable() -> None:
    """Nine partitions must not wait for the tenth."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        await fill(cluster, 10)
        await fill(cluster, 10, partition=1)

        async def fetch(request: FetchRequest, version: int) -> FetchResponse:
            response = await fake.fetch(1, request, version)
            for told in response.responses[0].partitions:
                if told.partition_index == 0:
                    told.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return response

        fake.nodes[1].handlers[FetchRequest] = fetch
        async with Consumer(cluster) as consumer:
            await consumer.assign({T0: EARLIEST, TopicPartition("t", 1): EARLIEST})
            assert len(await read_past_errors(consumer, 20)) == 10
            with pytest.raises(Refused, match="TOPIC_AUTHORIZATION_FAILED"):
                await read(consumer, 10**6)

    on_cluster(work)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 100))
def test_every_record_is_read_once_and_in_order_while_leaders_move(seed: int, count: int) -> None:
    """Two nodes trade leaderships and one of them comes and goes; nothing is skipped or seen twice."""
    chance = random.Random(seed)

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async def disturb() -> None:
            while True:
                await asyncio.sleep(chance.random() / 5)
                if chance.random() < 0.3:
                    fake.machine.network.cut(f"node{1 + chance.randrange(2)}", 9092)
                fake.move("t", chance.randrange(3), leader=1 + chance.randrange(2))

        disturbing = asyncio.create_task(disturb())
        async with Producer(cluster, linger_ms=1, batch_bytes_max=300) as producer:
            sending = [asyncio.create_task(producer.send("t", b"%d" % i, key=b"%d" % i)) for i in range(count)]
            options = FetchOptions(partition_max_bytes=500, max_wait_ms=50)
            async with Consumer(cluster, options=options) as consumer:
                await consumer.assign({TopicPartition("t", index): EARLIEST for index in range(3)})
                seen: dict[TopicPartition, list[int]] = {}
                while sum(map(len, seen.values())) < count:
                    for fetched in await consumer.poll(100):
                        seen.setdefault(fetched.at, []).extend(record.offset for record in fetched.records)
                assert await consumer.poll(2_000) == []
            await asyncio.gather(*sending)
        disturbing.cancel()
        for at, offsets in seen.items():
            assert offsets == list(range(len(fake.partitions[at].records())))

    on_cluster(work, seed=seed, node_count=2)
