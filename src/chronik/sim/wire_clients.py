"""Client processes that change and read topics over the network, through any node.

They use the product's own connection and nothing above it: no routing, no retries, so that every answer in the history
is one node's answer to one request. A client that gets no answer in time disconnects, and the outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from chronik.client.addresses import Address
from chronik.client.errors import ClientError
from chronik.metadata.image import ResourceType
from chronik.peer.connection import Connection, connect
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, UNKNOWN, History, Operation
from chronik.sim.loop import ProcessLoop
from chronik.sim.network import SimNetwork
from chronik.sim.programs import BROKER_PORT, host_of
from chronik.sim.workload import KINDS, VALUE_KEY, told
from chronik.sim.world import World
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from chronik.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from chronik.wire.notation import ZERO_UUID

PATIENCE_MS = 3000
CONNECT_MS = 1000


class WireClient:
    """One client: a process, and a connection to each node that it uses."""

    def __init__(self, name: str, loop: ProcessLoop, network: SimNetwork) -> None:
        self.name, self.loop, self.network = name, loop, network
        self._connections: dict[int, Connection] = {}

    async def detach(self, node_id: int) -> Connection:
        """Returns the current connection to the node and leaves it open; the client continues with a new one."""
        connection = await self.to(node_id)
        del self._connections[node_id]
        return connection

    def hang_up(self, node_id: int) -> None:
        """Closes the connection; the next request opens a new one."""
        connection = self._connections.pop(node_id, None)
        if connection is not None:
            connection.close()

    async def to(self, node_id: int) -> Connection:
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            address = Address(host_of(node_id), BROKER_PORT)
            connection = await connect(self.network, address, client_id=self.name, timeout_ms=CONNECT_MS)
            self._connections[node_id] = connection
        return connection


class ClientTasks:
    """The clients' tasks. One that fails with an unexpected error is a violation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, client: WireClient, work: Coroutine[Any, Any, None]) -> None:
        task = client.loop.create_task(work, name=client.name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    @property
    def are_done(self) -> bool:
        return all(task.done() for task in self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._world.violated("no unhandled error", f"{task.get_name()}: {error!r}")


class TopicClients:
    """Many clients, each with one operation in flight."""

    def __init__(
        self, cluster: SimCluster, history: History, *, client_count: int, think_ms: tuple[int, int], topic_count: int
    ) -> None:
        world = cluster.world
        self.cluster, self.history, self.world = cluster, history, world
        self._think_ms = think_ms
        self._topics = [f"topic-{number}" for number in range(topic_count)]
        self._is_over = False
        self._tasks = ClientTasks(world)
        self.clients = [make_client(cluster, f"client-{number}") for number in range(1, client_count + 1)]

    def begin(self) -> None:
        for client in self.clients:
            self._tasks.start(client, self._work(client))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    async def _work(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            node_id = random.choice(list(self.cluster.machines))
            kind, topic = random.choice(KINDS), random.choice(self._topics)
            await self.ask(client, node_id, kind, topic)

    async def ask(self, client: WireClient, node_id: int, kind: str, topic: str) -> Operation | None:
        """None: the connection failed, so nothing was asked."""
        try:
            connection = await client.to(node_id)
        except ClientError:
            return None
        operation = self.history.invoke(client.name, host_of(node_id), kind, topic)
        operation.value = None if kind in ("read", "delete") else str(1_000_000 + operation.number)
        try:
            status, result = await ASKED[kind](connection, operation)
        except ClientError as error:
            status, result = UNKNOWN, type(error).__name__
        self.history.complete(operation, status, result)
        return operation


def make_client(cluster: SimCluster, name: str) -> WireClient:
    loop = cluster.world.time.process(name)
    loop.on_unhandled = lambda context: cluster.world.violated("no unhandled error", f"{name}: {context}")
    return WireClient(name, loop, SimNetwork(cluster.world.wires, name, loop))


async def _create(connection: Connection, operation: Operation) -> tuple[str, object]:
    config = CreatableTopicConfig(name=VALUE_KEY, value=operation.value)
    topic = CreatableTopic(name=operation.key, num_partitions=1, replication_factor=1, assignments=[], configs=[config])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=PATIENCE_MS)
    answer = await connection.ask(request, CreateTopicsResponse, timeout_ms=PATIENCE_MS)
    return told("create", answer.topics[0].error_code)


async def _delete(connection: Connection, operation: Operation) -> tuple[str, object]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=operation.key, topic_id=ZERO_UUID)], timeout_ms=PATIENCE_MS
    )
    answer = await connection.ask(request, DeleteTopicsResponse, version_min=6, timeout_ms=PATIENCE_MS)
    return told("delete", answer.responses[0].error_code)


async def _set(connection: Connection, operation: Operation) -> tuple[str, object]:
    config = AlterableConfig(name=VALUE_KEY, config_operation=0, value=operation.value)
    resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=operation.key, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = await connection.ask(request, IncrementalAlterConfigsResponse, timeout_ms=PATIENCE_MS)
    return told("set", answer.responses[0].error_code)


async def _read(connection: Connection, operation: Operation) -> tuple[str, object]:
    resource = DescribeConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=operation.key, configuration_keys=[VALUE_KEY]
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = await connection.ask(request, DescribeConfigsResponse, timeout_ms=PATIENCE_MS)
    result = answer.results[0]
    if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return OK, None
    if result.error_code:
        return UNKNOWN, ErrorCode.of(result.error_code).name
    return OK, result.configs[0].value


ASKED = {"create": _create, "delete": _delete, "set": _set, "read": _read}
