"""A fetch that waits is answered by what is written, whenever that comes."""

from __future__ import annotations

import asyncio

from chronik.sim.disk import SimDisk
from chronik.wire.compiler import decode
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.harness import Client, start_node
from tests.broker.test_pipelining import produce

VERSION = 4


def test_what_is_committed_before_the_fetch_has_begun_to_wait_is_not_missed() -> None:
    """Between finding nothing and waiting for something, somebody else's append may become readable."""

    async def run() -> FetchResponse:
        node = await start_node(SimDisk(1))
        reader, writer = Client(node), Client(node)
        at_once = CreatableTopicConfig(name="chronik.durability", value="os")  # readable as soon as it is appended
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[at_once])
        await writer.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 5)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=600_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[wanted])], max_bytes=1000
        )
        fetched = reader.start(request, VERSION)
        produced = writer.start(*produce())
        answer = await asyncio.wait_for(fetched, 30)
        await produced
        await node.stop()
        return decode(FetchResponse, VERSION, answer[4:])

    response = asyncio.run(run())
    assert response.responses[0].partitions[0].records
