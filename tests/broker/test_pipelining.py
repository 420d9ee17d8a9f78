"""Requests sent without waiting for answers: every one is answered, in order, whatever is in front of it."""

from __future__ import annotations

import asyncio

from chronik.broker.features import supported_features
from chronik.broker.node import Node
from chronik.metadata.commands.register_broker import RegisterBroker
from chronik.replication.credentials import sign
from chronik.sim.disk import SimDisk
from chronik.wire.batches import build
from chronik.wire.messages.api_versions import ApiVersionsRequest
from chronik.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.notation import Request
from chronik.wire.records import Record
from tests.broker.harness import Client, start_node

WANTED = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
FETCH = (
    FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[
            FetchTopic(topic="t", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)])
        ],
    ),
    11,
)
VERSIONS = (ApiVersionsRequest(), 0)


def produce() -> tuple[Request, int]:
    data = PartitionProduceData(index=0, records=build([Record(0, 1, None, b"v", ())]))
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=[data])]), 7


def correlation_ids(requests: list[tuple[Request, int]]) -> list[int]:
    """Sends them all at once; the ids of the answers, as they come."""

    async def run() -> list[int]:
        node: Node = await start_node(SimDisk(1))
        client = Client(node)
        asked = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        await client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 5)
        sent = [client.start(request, version) for request, version in requests]
        answers = await asyncio.wait_for(asyncio.gather(*sent), 30)
        await node.stop()
        return [int.from_bytes(answer[:4], "big") - 2 for answer in answers]

    return asyncio.run(run())


def test_a_fetch_behind_finished_and_waiting_requests_is_answered() -> None:
    """A connection holds one fetch at a time, so a fetch may have to wait; nothing may forget to start it."""
    for requests in (
        [VERSIONS, FETCH],
        [produce(), FETCH, produce(), FETCH, VERSIONS],
        [FETCH, FETCH, FETCH],
        [produce(), produce(), VERSIONS, FETCH],
    ):
        assert correlation_ids(requests) == list(range(len(requests)))


def test_a_followers_second_fetch_ends_its_first() -> None:
    """It reports a change, such as an added or removed partition, and must not wait for the pending fetch."""

    async def story() -> None:
        node = await start_node(SimDisk(0))
        registered = await node.store.submit(
            RegisterBroker(
                broker_id=2,
                cluster_id=node.cluster_id,
                incarnation_id=bytes(16),
                endpoints=[],
                features=supported_features(),
            )
        )
        follower = Client(node)

        def fetch(session_id: int, epoch: int, wait_ms: int) -> FetchRequest:
            request = FetchRequest(
                replica_state=ReplicaState(replica_id=2, replica_epoch=registered.broker_epoch),
                max_wait_ms=wait_ms,
                min_bytes=1,
                session_id=session_id,
                session_epoch=epoch,
                topics=[],
                forgotten_topics_data=[],
                rack_id="",
            )
            sign(request, bytes(16))
            return request

        begun = await follower.ask(fetch(0, 0, 0), FetchResponse, 18)
        waiting = follower.start(fetch(begun.session_id, 1, 30_000), 18)
        await asyncio.sleep(0)
        assert not waiting.done()
        follower.start(fetch(begun.session_id, 2, 30_000), 18)
        await asyncio.wait_for(waiting, 60)
        await node.stop()

    asyncio.run(story())
