"""A whole node on a disk that loses power at any moment: nothing acknowledged is ever lost, moved or doubled."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from chronik.broker.node import Node
from chronik.sim.disk import PowerCut, SimDisk
from chronik.wire.batches import build, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.records import Record, iterate
from tests.broker.harness import Client, Closed, start_node

TOPIC, GROUP, PARTITIONS = "orders", "readers", 2
SESSIONS = 8  # power cuts per test case
CASES = 125


class World:
    """The acknowledgements that clients received, across all power cuts."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk(seed)
        self.acknowledged: dict[tuple[int, int], bytes] = {}  # (partition, offset) -> value
        self.committed = -1  # of GROUP on partition 0: never to go back
        self.producer_id = -1
        self.sequences = [0] * PARTITIONS
        self.values = 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_what_was_acknowledged_survives_every_power_cut(part: int) -> None:
    for seed in range(part * CASES // 5, (part + 1) * CASES // 5):
        world = World(seed)
        for session in range(SESSIONS):
            asyncio.run(_until_power_cut(world, session))
            world.disk = world.disk.power_cut()
        asyncio.run(_verify(world))


async def _until_power_cut(world: World, session: int) -> None:
    """Runs a session until it ends or the power does, whichever part of the node notices first."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)  # whatever still runs dies with the machine
    is_off: asyncio.Future[None] = loop.create_future()
    world.disk.on_power_cut = lambda: is_off.set_result(None)
    work = asyncio.ensure_future(_session(world, session))
    await asyncio.wait([work, is_off], return_when=asyncio.FIRST_COMPLETED)
    if work.done() and not isinstance(work.exception(), PowerCut):
        work.result()
    work.cancel()


async def _session(world: World, session: int) -> None:
    node = await start_node(world.disk, seed=session)
    client = Client(node)
    if session == 0:
        asked = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        created = await client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7)
        assert created.topics[0].error_code == 0
        answer = await client.ask(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), InitProducerIdResponse, 4
        )
        world.producer_id = answer.producer_id
        await client.ask(FindCoordinatorRequest(coordinator_keys=[GROUP]), FindCoordinatorResponse, 4)
    else:
        await _check(world, client)
    world.disk.cut_after(world.random.randint(1, 60))  # the power fails within this many disk calls
    for _ in range(30):
        await _produce(world, client)
        if world.random.random() < 0.3:
            await _commit(world, client)
    await node.stop()


async def _produce(world: World, client: Client) -> None:
    """One idempotent batch. It counts as acknowledged only when the answer has arrived."""
    partition = world.random.randrange(PARTITIONS)
    count = world.random.randint(1, 3)
    values = [b"%d" % (world.values + n) for n in range(count)]
    world.values += count
    batch = build(
        [Record(n, 1_700_000_000_000, None, value, ()) for n, value in enumerate(values)],
        producer_id=world.producer_id,
        producer_epoch=0,
        base_sequence=world.sequences[partition],
    )
    data = PartitionProduceData(index=partition, records=batch)
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    try:
        answer = await client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), ProduceResponse, 9)
    except Closed:
        raise PowerCut from None
    (result,) = answer.responses[0].partition_responses
    if result.error_code:
        raise PowerCut  # the disk is gone: the node may refuse, it may not acknowledge
    world.sequences[partition] += count
    for n, value in enumerate(values):
        key = (partition, result.base_offset + n)
        assert key not in world.acknowledged, "an offset was given to two records"
        world.acknowledged[key] = value


async def _commit(world: World, client: Client) -> None:
    offset = world.committed + world.random.randint(1, 5)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    try:
        answer = await client.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), OffsetCommitResponse, 7)
    except Closed:
        raise PowerCut from None
    if answer.topics[0].partitions[0].error_code == 0:
        world.committed = offset


async def _verify(world: World) -> None:
    node = await start_node(world.disk, seed=99)
    await _check(world, Client(node))
    await node.stop()


async def _check(world: World, client: Client) -> None:
    node = client.connection.node
    topic = node.store.image.topic_named(TOPIC)
    assert topic is not None
    for index in range(PARTITIONS):
        replica = node.replicas.get(topic, index)
        assert replica is not None
        committed = replica.when_committed(replica.log.end_offset)  # what survived unacknowledged comes first
        if committed is not None:
            await committed
    found: dict[tuple[int, int], bytes] = {}
    for partition in range(PARTITIONS):
        offset = 0
        while True:
            wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])])
            answer = await client.ask(request, FetchResponse, 11)
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0, ErrorCode.of(data.error_code)
            batches = split(memoryview(data.records))  # type: ignore[arg-type]
            if not batches:
                break
            for batch in batches:
                found.update({(partition, r.offset): bytes(r.value or b"") for r in iterate(batch, 1 << 20)})
            offset = batches[-1].next_offset
    for key, value in world.acknowledged.items():
        assert found.get(key) == value, f"acknowledged at {key}: {value!r}, found {found.get(key)!r}"
    assert len(set(found.values())) == len(found), "a record was written twice"
    # A record that survived without acknowledgement keeps its offset, and the sequence continues after it.
    world.acknowledged = dict(found)
    for partition in range(PARTITIONS):
        world.sequences[partition] = sum(1 for where, _ in found if where == partition)
    await _check_commit(world, client)


async def _check_commit(world: World, client: Client) -> None:
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    while True:
        answer = await client.ask(OffsetFetchRequest(group_id=GROUP, topics=[topic]), OffsetFetchResponse, 5)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0)
    committed = answer.topics[0].partitions[0].committed_offset
    assert committed >= world.committed, f"committed {world.committed}, found {committed}"
    world.committed = committed


def test_a_node_that_stops_cleanly_has_nothing_to_recover() -> None:
    async def run() -> None:
        disk = SimDisk(1)
        node: Node = await start_node(disk)
        cluster_id = node.cluster_id
        await node.stop()
        again = await start_node(disk)
        assert again.cluster_id == cluster_id
        await again.stop()

    asyncio.run(run())
