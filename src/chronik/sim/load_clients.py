"""Clients that overload nodes: many large requests, repeated immediately after a timeout.

A client that gets no answer in time disconnects, reconnects and repeats the request without a pause: the retry storm
that keeps an overloaded server overloaded. Their answers are not judged, and they have their own topic.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from random import Random

from chronik.client.errors import ClientError
from chronik.sim.clock import WALL_MS
from chronik.sim.cluster import SimCluster
from chronik.sim.wire_clients import ClientTasks, WireClient, make_client
from chronik.wire.batches import build
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.notation import ZERO_UUID, Request, Response
from chronik.wire.offset_specs import LATEST
from chronik.wire.records import Record

LOAD_TOPIC = "load"
NAMES = 12  # the last version of Produce and Fetch that identifies topics by name
PATIENCE_MS = (150, 400, 2000)
PAUSE_MS = (0, 40)
PRODUCED_PARTITIONS_MAX = 60  # per request
VALUE_BYTES = (10, 10, 1000, 20_000)
LOOKED_UP = (500, 3000, 12_000)  # entries per request
NAMED_TOPICS = (200, 3000, 12_000)
PARTITION_BYTES = 1 << 20  # per partition in a fetch response
FETCH_BYTES = 1 << 30  # in total: more than a node's memory


class Asked:
    """The request that one client repeats."""

    def __init__(self, request: Request, answer: type[Response]) -> None:
        self.request, self.answer = request, answer


def _produce(random: Random, partition_count: int) -> Asked:
    """Some partitions, a third of them led by the asked node."""
    value = bytes(random.choice(VALUE_BYTES))
    batch = build([Record(offset=0, timestamp=WALL_MS, key=None, value=value, headers=())])
    count = min(partition_count, random.randint(1, PRODUCED_PARTITIONS_MAX))
    indexes = sorted(random.sample(range(partition_count), count))
    data = [PartitionProduceData(index=index, records=batch) for index in indexes]
    topic = TopicProduceData(name=LOAD_TOPIC, topic_id=ZERO_UUID, partition_data=data)
    return Asked(ProduceRequest(acks=-1, timeout_ms=2000, topic_data=[topic]), ProduceResponse)


def _fetch(random: Random, partition_count: int) -> Asked:
    """Everything from the start, or a long wait for more data than exists."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=PARTITION_BYTES)
        for index in range(partition_count)
    ]
    min_bytes, wait_ms = random.choice(((1, 0), (1 << 30, 1500)))
    topic = FetchTopic(topic=LOAD_TOPIC, topic_id=ZERO_UUID, partitions=wanted)
    request = FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=FETCH_BYTES, topics=[topic])
    return Asked(request, FetchResponse)


def _list_offsets(random: Random, partition_count: int) -> Asked:
    topic = ListOffsetsTopic(name=LOAD_TOPIC, partitions=_looked_up(random.choice(LOOKED_UP), partition_count))
    return Asked(ListOffsetsRequest(replica_id=-1, topics=[topic]), ListOffsetsResponse)


@functools.cache
def _looked_up(count: int, partition_count: int) -> list[ListOffsetsPartition]:
    return [ListOffsetsPartition(partition_index=number % partition_count, timestamp=LATEST) for number in range(count)]


def _all_topics(random: Random, partition_count: int) -> Asked:
    return Asked(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)


def _many_topics(random: Random, partition_count: int) -> Asked:
    """Most of them do not exist."""
    topics = _named(random.choice(NAMED_TOPICS))
    return Asked(MetadataRequest(topics=topics, allow_auto_topic_creation=False), MetadataResponse)


@functools.cache
def _named(count: int) -> list[MetadataRequestTopic]:
    names = [LOAD_TOPIC, *(f"unknown-{number}" for number in range(count))]
    return [MetadataRequestTopic(topic_id=ZERO_UUID, name=name) for name in names]


KINDS: tuple[Callable[[Random, int], Asked], ...] = (
    _produce,
    _produce,
    _produce,
    _fetch,
    _list_offsets,
    _all_topics,
    _many_topics,
)


class LoadClients:
    def __init__(self, cluster: SimCluster, *, partition_count: int, client_count: int) -> None:
        self._cluster, self._partition_count, self._client_count = cluster, partition_count, client_count
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)
        self.answered_count = self.given_up_count = 0

    def begin(self) -> None:
        for number in range(1, self._client_count + 1):
            client = make_client(self._cluster, f"load-{number}")
            self._tasks.start(client, self._ask(client, KINDS[number % len(KINDS)]))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    async def _ask(self, client: WireClient, make: Callable[[Random, int], Asked]) -> None:
        random = self._cluster.world.random(client.name)
        patience_ms = random.choice(PATIENCE_MS)
        while not self._is_over:
            asked = make(random, self._partition_count)
            node_id = random.choice(list(self._cluster.machines))
            try:
                connection = await client.to(node_id)
                await connection.ask(asked.request, asked.answer, version_max=NAMES, timeout_ms=patience_ms)
            except ClientError:
                self.given_up_count += 1  # then retries at once
                await asyncio.sleep(0.001)
            else:
                self.answered_count += 1
                await asyncio.sleep(random.randint(*PAUSE_MS) / 1000)
