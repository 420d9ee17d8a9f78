"""Producing: batches, partitions, order through failures, and once only with idempotence."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.batching import record_bytes
from chronik.client.errors import Closed, DeliveryFailed, Refused, Unsendable
from chronik.client.partitioners import partition_of_key
from chronik.client.producer import LEADER, NONE, Producer
from chronik.client.topology import TopicPartition
from chronik.wire import batches
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.produce import ProduceRequest
from chronik.wire.records import EncodedRecords, Record, encode
from tests.client.fake_cluster import AFTER, BEFORE, FakeCluster, on_cluster
from tests.client.scripted import HANG_UP, NO_ANSWER

RETRIABLE = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.CORRUPT_MESSAGE,
)


def test_records_of_one_key_stay_in_order_and_together() -> None:
    """The promise that keys are for."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster) as producer:
            deliveries = [await producer.send("t", b"%d" % i, key=b"k%d" % (i % 5)) for i in range(100)]
            positions = [await delivery for delivery in deliveries]
        for i, position in enumerate(positions):
            assert position.partition == partition_of_key(b"k%d" % (i % 5), 3)
            records = fake.partitions["t", position.partition].records()
            assert records[position.offset].value == b"%d" % i
        for index in range(3):
            values = [int(record.value or b"") for record in fake.partitions["t", index].records()]
            assert values == sorted(values)

    on_cluster(work)


def test_records_without_key_fill_batches_and_spread() -> None:
    """One record a batch would cost a request each; one partition for all would make the others useless."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster, batch_bytes_max=2_000, linger_ms=0) as producer:
            for _ in range(50):
                for _ in range(20):
                    await producer.send("t", b"x" * 50)
                await producer.flush()
        counts = [len(partition.records()) for partition in fake.partitions.values()]
        assert min(counts) > 100
        assert all(len(partition.log) < len(partition.records()) / 5 for partition in fake.partitions.values())

    on_cluster(work)


def test_lingering_gathers_what_comes_within_it() -> None:
    """A few milliseconds of waiting turn many requests into one."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster, linger_ms=50) as producer:
            for _ in range(10):
                await producer.send("t", b"x", partition=0)
                await asyncio.sleep(0.004)
            await asyncio.sleep(0.1)
            assert len(fake.partitions["t", 0].log) == 1
            await producer.send("t", b"y", partition=0)
            await asyncio.sleep(0.1)
            assert len(fake.partitions["t", 0].log) == 2

    on_cluster(work)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_arrives_compressed_and_whole(codec: Codec) -> None:
    """A broker stores batches as sent: compression is the producer's task."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster, codec=codec) as producer:
            for i in range(100):
                await producer.send("t", b"value %d" % i, partition=0, headers=(("h", b"1"), ("n", None)), timestamp=5)
        [batch] = batches.split(memoryview(b"".join(fake.partitions["t", 0].log)))
        assert batch.compression is codec
        records = fake.partitions["t", 0].records()
        assert [record.value for record in records] == [b"value %d" % i for i in range(100)]
        assert {(record.headers, record.timestamp) for record in records} == {((("h", b"1"), ("n", None)), 5)}

    on_cluster(work)


def test_a_lost_answer_does_not_write_twice() -> None:
    """The commonest duplicate of all: written, and the connection ends before the answer."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        losses = iter([HANG_UP])
        fake.trouble = lambda when, at: next(losses, 0) if when == AFTER else 0
        async with Producer(cluster) as producer:
            delivery = await producer.send("t", b"once", partition=0)
            position = await delivery
        assert fake.all_values("t") == [b"once"]
        assert position.offset == 0

    on_cluster(work)


def test_without_idempotence_a_lost_answer_may_write_twice() -> None:
    """So that the test above proves something: the same fault does duplicate when sequences are off."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        losses = iter([HANG_UP])
        fake.trouble = lambda when, at: next(losses, 0) if when == AFTER else 0
        async with Producer(cluster, idempotent=False) as producer:
            await producer.send("t", b"twice", partition=0)
        assert fake.all_values("t") == [b"twice", b"twice"]

    on_cluster(work)


def test_a_moved_leader_is_found() -> None:
    """Leaders move all the time; callers never notice more than a pause."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster) as producer:
            await (await producer.send("t", b"1", partition=0))
            fake.move("t", 0, leader=2)
            await (await producer.send("t", b"2", partition=0))
            fake.move("t", 0, leader=1)
            fake.stop(2)
            await (await producer.send("t", b"3", partition=0))
        assert fake.all_values("t") == [b"1", b"2", b"3"]

    on_cluster(work, node_count=2)


def test_a_batch_too_large_for_the_broker_goes_in_pieces() -> None:
    """The producer does not know max.message.bytes of the topic; the broker's refusal tells."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.message_bytes_max = 1_000
        async with Producer(cluster) as producer:
            deliveries = [await producer.send("t", b"%05d" % i + b"x" * 95, partition=0) for i in range(50)]
            offsets = [(await delivery).offset for delivery in deliveries]
        assert offsets == list(range(50))
        assert [int((value or b"")[:5]) for value in fake.all_values("t")] == list(range(50))

    on_cluster(work)


def test_a_single_record_that_is_too_large_fails_alone() -> None:
    """Splitting ends at one record; later records are sent, in sequence."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.message_bytes_max = 1_000
        producer = Producer(cluster)
        good = await producer.send("t", b"a", partition=0)
        large = await producer.send("t", b"x" * 5_000, partition=0)
        after = await producer.send("t", b"b", partition=0)
        with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        with pytest.raises(DeliveryFailed, match="1 record for t-0 not delivered"):
            await large
        assert ((await good).offset, (await after).offset) == (0, 1)
        await producer.flush()  # the failure was already reported
        await producer.close()

    on_cluster(work)


def encoded_records(values: list[bytes]) -> EncodedRecords:
    records = [Record(offset, 5, None, value, ()) for offset, value in enumerate(values)]
    size_bytes = sum(record_bytes(None, value, ()) for value in values)
    return EncodedRecords(encode(records, 0, 5), len(values), 5, size_bytes)


def test_batches_that_are_encoded_already_keep_their_place_among_others() -> None:
    """A task of a sink sends most rows as whole batches, and some one by one; a partition's rows keep their order."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        losses = iter([HANG_UP, 0, ErrorCode.NOT_ENOUGH_REPLICAS])
        fake.trouble = lambda when, at: next(losses, 0) if when == AFTER else 0
        async with Producer(cluster, codec=Codec.LZ4, buffer_bytes_max=500) as producer:
            for number in range(0, 60, 6):
                await producer.send_encoded("t", 0, encoded_records([b"%d" % (number + i) for i in range(5)]))
                await producer.send("t", b"%d" % (number + 5), partition=0)
        assert fake.all_values("t") == [b"%d" % number for number in range(60)]

    on_cluster(work)


def test_an_encoded_batch_too_large_for_the_broker_goes_in_pieces() -> None:
    """Its records are taken apart again only then."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.message_bytes_max = 1_000
        values = [b"%05d" % number + b"x" * 95 for number in range(50)]
        async with Producer(cluster) as producer:
            await producer.send_encoded("t", 0, encoded_records(values))
        assert fake.all_values("t") == values
        assert {record.timestamp for record in fake.partitions["t", 0].records()} == {5}

    on_cluster(work)


def test_encoded_batches_without_a_partition_spread() -> None:
    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster) as producer:
            for _ in range(30):
                await producer.send_encoded("t", None, encoded_records([b"x"] * 10))
            with pytest.raises(Refused, match="partition t-9"):
                await producer.send_encoded("t", 9, encoded_records([b"x"]))
        assert min(len(partition.records()) for partition in fake.partitions.values()) >= 10

    on_cluster(work)


def test_what_cannot_be_delivered_in_time_fails_with_the_reason() -> None:
    """A record must not wait forever, and its sender must learn the reason."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.trouble = lambda when, at: ErrorCode.NOT_ENOUGH_REPLICAS if when == BEFORE else 0
        async with Producer(cluster, delivery_timeout_ms=2_000) as producer:
            started = asyncio.get_running_loop().time()
            delivery = await producer.send("t", b"x", partition=0)
            with pytest.raises(DeliveryFailed, match="NOT_ENOUGH_REPLICAS"):
                await delivery
            assert 2 <= asyncio.get_running_loop().time() - started < 4
            with pytest.raises(DeliveryFailed):
                await producer.flush()
            fake.trouble = None
            assert (await (await producer.send("t", b"y", partition=0))).offset == 0

    on_cluster(work)


def test_a_node_that_does_not_answer_is_given_up_in_the_delivery_time() -> None:
    """A request must not outlive the records in it: the caller has been told how long it takes at most."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.trouble = lambda when, at: NO_ANSWER if when == BEFORE else 0
        async with Producer(cluster, delivery_timeout_ms=2_000) as producer:
            started = asyncio.get_running_loop().time()
            delivery = await producer.send("t", b"x", partition=0)
            await asyncio.sleep(1.5)
            (stall,) = producer.stalls(1_000)
            assert (stall.at, stall.node_id, stall.fault) == (TopicPartition("t", 0), 1, None)
            with pytest.raises(DeliveryFailed, match="without answer"):
                await delivery
            assert 2 <= asyncio.get_running_loop().time() - started < 4
            (asked,) = fake.nodes[1].asked_for(ProduceRequest)
            assert asked.timeout_ms <= 2_000
            with pytest.raises(DeliveryFailed):
                await producer.flush()

    on_cluster(work)


def test_a_producer_says_what_its_records_wait_for() -> None:
    """Two minutes of silence look like a hang."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.trouble = lambda when, at: ErrorCode.NOT_ENOUGH_REPLICAS if when == BEFORE and at == ("t", 0) else 0
        async with Producer(cluster) as producer:
            delivery = await producer.send("t", b"x", partition=0)
            await (await producer.send("t", b"x", partition=1))
            assert producer.stalls(1_000) == []
            await asyncio.sleep(2)
            (stall,) = producer.stalls(1_000)
            assert (stall.at, stall.node_id) == (TopicPartition("t", 0), 1)
            assert isinstance(stall.fault, Refused)
            assert stall.fault.kafka_error is ErrorCode.NOT_ENOUGH_REPLICAS
            assert 1_000 <= stall.waited_ms <= 3_000
            fake.trouble = None
            await delivery
            assert producer.stalls(0) == []

    on_cluster(work)


def test_what_was_given_up_but_written_does_not_swallow_what_follows() -> None:
    """Every answer is lost until the producer gives up; reusing the sequence would make the next one a duplicate."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        fake.trouble = lambda when, at: HANG_UP if when == AFTER else 0
        async with Producer(cluster, delivery_timeout_ms=1_000) as producer:
            delivery = await producer.send("t", b"given up", partition=0)
            with pytest.raises(DeliveryFailed):
                await delivery
            with pytest.raises(DeliveryFailed):
                await producer.flush()
            fake.trouble = None
            assert (await (await producer.send("t", b"next", partition=0))).offset == 1
        assert fake.all_values("t") == [b"given up", b"next"]

    on_cluster(work)


def test_a_lost_sequence_starts_a_new_one_without_loss() -> None:
    """A broker that has forgotten a producer (retention does that) must not stop it."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster) as producer:
            for i in range(3):
                await (await producer.send("t", b"%d" % i, partition=0))
                fake.partitions["t", 0].sequences.clear()
        assert fake.all_values("t") == [b"0", b"1", b"2"]

    on_cluster(work)


@pytest.mark.parametrize("acks", [LEADER, NONE])
def test_lower_acks_are_sent_and_carry_no_sequence(acks: int) -> None:
    """acks=0 has no answer to wait for; the connection must stay in step all the same."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster, acks=acks) as producer:
            position = await (await producer.send("t", b"x", partition=0))
            assert position.offset == (-1 if acks == NONE else 0)
        await asyncio.sleep(1)
        assert fake.all_values("t") == [b"x"]
        [request] = fake.nodes[1].asked_for(ProduceRequest)
        assert request.acks == acks
        assert not batches.split(memoryview(fake.partitions["t", 0].log[0]))[0].has_producer_id

    on_cluster(work)


def test_memory_is_bounded_by_making_senders_wait() -> None:
    """A producer faster than its broker must slow down, not fill the machine."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        producer = Producer(cluster, buffer_bytes_max=10_000, batch_bytes_max=2_000)
        most_buffered = 0
        for _ in range(500):
            await producer.send("t", b"x" * 100, partition=0)
            most_buffered = max(most_buffered, producer._buffered_bytes)
        await producer.close()
        assert most_buffered <= 10_000
        assert len(fake.all_values("t")) == 500

    on_cluster(work)


def test_a_partition_that_does_not_exist_is_refused_at_once() -> None:
    """It would otherwise be tried until the delivery time-out."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        async with Producer(cluster) as producer:
            with pytest.raises(Refused, match=r"t-7.*partitions 0 to 2"):
                await producer.send("t", b"x", partition=7)

    on_cluster(work)


def test_a_record_that_has_no_form_fails_and_the_next_goes_on() -> None:
    """A mistake in one record must not break the producer."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        producer = Producer(cluster, linger_ms=0)
        bad = await producer.send("t", b"x", partition=0, timestamp=2**70)
        with pytest.raises(DeliveryFailed) as failed:
            await bad
        assert isinstance(failed.value.cause, Unsendable)
        assert (await (await producer.send("t", b"y", partition=0))).offset == 0
        await producer.close(flushes=False)
        with pytest.raises(Closed):
            await producer.send("t", b"z")

    on_cluster(work)


def test_closing_without_flushing_tells_those_who_wait() -> None:
    """A receipt must not stay open forever."""

    async def work(fake: FakeCluster, cluster: Any) -> None:
        producer = Producer(cluster, linger_ms=10_000)
        delivery = await producer.send("t", b"x", partition=0)
        await producer.close(flushes=False)
        with pytest.raises(DeliveryFailed, match="closed before it was delivered"):
            await delivery

    on_cluster(work)


@given(seed=st.integers(0, 2**32), trouble_percent=st.integers(0, 60), count=st.integers(1, 120))
def test_every_record_is_written_once_and_in_order_whatever_fails(seed: int, trouble_percent: int, count: int) -> None:
    """Refusals, lost answers and moving leaders in any mixture: exactly once, in order, acknowledged where it is."""
    chance = random.Random(seed)

    async def work(fake: FakeCluster, cluster: Any) -> None:
        def trouble(when: str, at: tuple[str, int]) -> Any:
            if chance.randrange(100) >= trouble_percent:
                return 0
            if when == AFTER:
                return HANG_UP if chance.random() < 0.7 else ErrorCode.REQUEST_TIMED_OUT
            if chance.random() < 0.2:
                fake.move(*at, leader=1 + chance.randrange(2))
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
            return chance.choice(RETRIABLE)

        fake.trouble = trouble
        async with Producer(cluster, linger_ms=chance.randrange(3), batch_bytes_max=400) as producer:
            deliveries = []
            for i in range(count):
                deliveries.append(await producer.send("t", b"%d" % i, key=b"k%d" % (i % 4)))
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.random() / 20)
            positions = [await delivery for delivery in deliveries]
        assert Counter(fake.all_values("t")) == Counter(b"%d" % i for i in range(count))
        for i, position in enumerate(positions):
            assert fake.partitions["t", position.partition].records()[position.offset].value == b"%d" % i
        for index in range(3):
            values = [int(record.value or b"") for record in fake.partitions["t", index].records()]
            assert values == sorted(values)

    on_cluster(work, seed=seed, node_count=2)
