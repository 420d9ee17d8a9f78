"""A client that fetches in sessions, waits for records, looks up offsets by time, and pipelines.

It asks one node after the other and records nothing. `record_clients` checks answers; this client exercises the parts
of a broker that they do not reach.
"""

from __future__ import annotations

import asyncio
from random import Random

from chronik.client.errors import ClientError
from chronik.peer.connection import Connection
from chronik.sim.clock import WALL_MS
from chronik.sim.cluster import SimCluster
from chronik.sim.wire_clients import ClientTasks, WireClient, make_client
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.notation import ZERO_UUID

NAMES = 12  # the last version of Fetch that identifies topics by name
FETCH_BYTES = 1 << 16
WAIT_MS, ANSWER_MS = 300, 1500
FETCHES = 3  # per session
PIPELINED = 2
THINK_MS = (100, 1500)
SPAN_MS = 12_000  # lookups use times up to this long after the start of the world


class SessionClient:
    def __init__(self, cluster: SimCluster, topic: str, partition_count: int) -> None:
        self._cluster, self._topic, self._partition_count = cluster, topic, partition_count
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)

    def begin(self) -> None:
        client = make_client(self._cluster, "session")
        self._tasks.start(client, self._work(client))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    async def _work(self, client: WireClient) -> None:
        random = self._cluster.world.random(client.name)
        while not self._is_over:
            await asyncio.sleep(random.randint(*THINK_MS) / 1000)
            node_id = random.choice(list(self._cluster.machines))
            try:
                connection = await client.to(node_id)
                await self._look_up(connection, random)
                await self._fetch(connection)
            except ClientError:
                continue

    async def _look_up(self, connection: Connection, random: Random) -> None:
        """Pipelines several lookups."""
        await asyncio.gather(
            *(
                connection.ask(
                    self._offsets_at(WALL_MS + random.randrange(SPAN_MS)), ListOffsetsResponse, timeout_ms=ANSWER_MS
                )
                for _ in range(PIPELINED)
            )
        )

    def _offsets_at(self, timestamp_ms: int) -> ListOffsetsRequest:
        asked = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp_ms)
            for index in range(self._partition_count)
        ]
        return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=asked)])

    async def _fetch(self, connection: Connection) -> None:
        """A session from its start; ends when the broker no longer knows it."""
        session_id = epoch = 0
        wanted = [
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
            for index in range(self._partition_count)
        ]
        while epoch < FETCHES and not self._is_over:
            topic = FetchTopic(topic=self._topic, topic_id=ZERO_UUID, partitions=wanted if epoch == 0 else [])
            request = FetchRequest(
                max_wait_ms=WAIT_MS,
                min_bytes=FETCH_BYTES,
                session_id=session_id,
                session_epoch=epoch,
                topics=[topic] if epoch == 0 else [],
            )
            answer = await connection.ask(request, FetchResponse, version_max=NAMES, timeout_ms=ANSWER_MS)
            if answer.error_code or not answer.session_id:
                return
            session_id, epoch = answer.session_id, epoch + 1
