"""Operators that delete topics, create them again with the same name, and change topic configs, through any node.

Each is a process with one task and a time limit: failed requests are repeated through the next node, and a task that
takes too long is given up. Every request is an operation in the history, because a topic's id decides which records may
be read, and creations and deletions are evidence for that. An operator judges nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import NamedTuple

from chronik.client.errors import ClientError
from chronik.metadata.image import ResourceType
from chronik.peer.connection import Connection
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, REFUSED, UNKNOWN, Operation
from chronik.sim.programs import host_of
from chronik.sim.wire_clients import WireClient, make_client
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.notation import ZERO_UUID

CREATE, DELETE, CONFIGURE = "create topic", "delete topic", "configure topic"
NAMES = ("bills", "notes")  # of the topics that are recreated
ANSWER_MS = 1500
PAUSE_S = 0.1  # before asking the next node

# Answers that prove that this request did nothing.
REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REPLICATION_FACTOR,  # too few nodes are registered yet
    }
)
# With this retention a topic deletes its records immediately. Only set on new topics: the reply to a creation
# identifies
# the topic, while a later change by name could affect any topic that had the name meanwhile.
SHORT_LIVED = "0"
RETENTIONS = ("3600000", "86400000", "-1")  # longer than any clock jump, so no record expires
SEGMENTS = ("300", "1500", "1048576")


class Shape(NamedTuple):
    """The shape of a topic to create."""

    partition_count: int
    replication_factor: int
    configs: Mapping[str, str]

    @property
    def is_short_lived(self) -> bool:
        return self.configs.get("retention.ms") == SHORT_LIVED


Ask = Callable[[Connection, Operation], Awaitable[tuple[str, object]]]


def draw_shape(random: Random) -> Shape:
    configs = {"internal.segment.bytes": random.choice(SEGMENTS)} if random.random() < 0.5 else {}
    if random.random() < 0.25:
        configs["retention.ms"] = SHORT_LIVED
    return Shape(random.randint(1, 3), random.choice((3, 3, 3, 2, 1)), configs)


def recreate(cluster: SimCluster, random: Random, *, through: int, patience_ms: int) -> None:
    """Deletes the current topic of the name, or the one seen earlier by id, and creates another."""
    name, by_id, pause_ms = random.choice(NAMES), random.random() < 0.3, random.choice((0, 0, 0, 200, 1500))
    shape = draw_shape(random)

    async def work(operator: _Operator) -> None:
        await operator.ask(DELETE, name, None, patience_ms, _delete_seen if by_id else _delete)
        await asyncio.sleep(pause_ms / 1000)
        await operator.ask(CREATE, name, shape, patience_ms, _create)

    _begin(cluster, work, through)


def create_all(cluster: SimCluster) -> asyncio.Task[None]:
    """Creates the topics before any fault. One has a short retention, which its successor must not inherit."""

    async def work(operator: _Operator) -> None:
        for name, configs in zip(NAMES, ({"retention.ms": SHORT_LIVED}, {}), strict=True):
            await operator.ask(CREATE, name, Shape(2, 3, configs), ANSWER_MS, _create)

    return _begin(cluster, work, through=1)


def configure(cluster: SimCluster, random: Random, *, through: int, patience_ms: int) -> None:
    name = random.choice(NAMES)
    key, values = random.choice(
        (("retention.ms", RETENTIONS), ("internal.segment.bytes", SEGMENTS), ("min.insync.replicas", ("1", "2", "3")))
    )
    change = (key, random.choice((*values, None)))  # None: removes it

    async def work(operator: _Operator) -> None:
        await operator.ask(CONFIGURE, name, change, patience_ms, _configure)

    _begin(cluster, work, through)


def _begin(cluster: SimCluster, work: Callable[[_Operator], Awaitable[None]], through: int) -> asyncio.Task[None]:
    client = make_client(cluster, f"operator-{len(cluster.operators) + 1}")

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            cluster.world.violated("no unhandled error", f"{client.name}: {error!r}")

    async def run() -> None:
        await work(_Operator(cluster, client, through))

    task = client.loop.create_task(run(), name=client.name)
    task.add_done_callback(ended)
    cluster.operators.append(task)
    return task


class _Operator:
    def __init__(self, cluster: SimCluster, client: WireClient, through: int) -> None:
        self._cluster, self._client, self._through = cluster, client, through

    async def ask(self, kind: str, name: str, value: object, patience_ms: int, ask: Ask) -> None:
        """Repeats until a node confirms that it is done, or that nothing is left to do."""
        give_up_s = self._client.loop.time() + patience_ms / 1000
        while self._client.loop.time() < give_up_s:
            node_id = 1 + (self._through - 1) % len(self._cluster.machines)
            self._through += 1
            try:
                connection = await self._client.to(node_id)
            except ClientError:
                await asyncio.sleep(PAUSE_S)
                continue
            operation = self._cluster.history.invoke(self._client.name, host_of(node_id), kind, name, value)
            try:
                status, result = await ask(connection, operation)
            except ClientError as error:
                status, result = UNKNOWN, type(error).__name__
            self._cluster.history.complete(operation, status, result)
            if status == OK or result in (ErrorCode.TOPIC_ALREADY_EXISTS.name, _unknown(operation)):
                return
            await asyncio.sleep(PAUSE_S)


def _unknown(operation: Operation) -> str:
    by_id = operation.kind == DELETE and operation.value is not None
    return (ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION).name


async def _delete(connection: Connection, operation: Operation, topic_id: bytes = ZERO_UUID) -> tuple[str, object]:
    """The result is the id of the deleted topic."""
    asked = DeleteTopicState(name=operation.key if topic_id == ZERO_UUID else None, topic_id=topic_id)
    request = DeleteTopicsRequest(topics=[asked], timeout_ms=ANSWER_MS)
    answer = await connection.ask(request, DeleteTopicsResponse, version_min=6, timeout_ms=ANSWER_MS)
    [told] = answer.responses
    return _told(told.error_code, told.topic_id)


async def _delete_seen(connection: Connection, operation: Operation) -> tuple[str, object]:
    """Deletes by the id that this node has for the name, which may be outdated."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=operation.key)], allow_auto_topic_creation=False)
    answer = await connection.ask(request, MetadataResponse, version_min=12, timeout_ms=ANSWER_MS)
    [seen] = answer.topics
    if seen.error_code:
        return REFUSED, ErrorCode.of(seen.error_code).name
    operation.value = seen.topic_id
    return await _delete(connection, operation, seen.topic_id)


async def _create(connection: Connection, operation: Operation) -> tuple[str, object]:
    shape = operation.value
    topic = CreatableTopic(
        name=operation.key,
        num_partitions=shape.partition_count,
        replication_factor=shape.replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in shape.configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=ANSWER_MS)
    answer = await connection.ask(request, CreateTopicsResponse, version_min=7, timeout_ms=ANSWER_MS)
    [told] = answer.topics
    return _told(told.error_code, told.topic_id)


async def _configure(connection: Connection, operation: Operation) -> tuple[str, object]:
    key, value = operation.value
    config = AlterableConfig(name=key, config_operation=int(value is None), value=value)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=operation.key, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await connection.ask(request, IncrementalAlterConfigsResponse, timeout_ms=ANSWER_MS)
    return _told(answer.responses[0].error_code, None)


def _told(error_code: int, result: object) -> tuple[str, object]:
    if not error_code:
        return OK, result
    code = ErrorCode.of(error_code)
    return REFUSED if code in REFUSALS else UNKNOWN, code.name
