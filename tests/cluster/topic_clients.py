"""Clients that create, change, delete and read topics through all nodes at once, and whether what they were told fits.

Every answer is one node's answer to one request: no routing, no retries. Who hears nothing in time hangs up and does
not know what became of its request. The requests and the judge are the simulator's; the nodes are real.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from random import Random

from chronik.client.addresses import Address
from chronik.client.errors import ClientError
from chronik.peer.connection import Connection, connect
from chronik.runtime.real import real_runtime
from chronik.sim.checkers.linearizability import find_order, topic
from chronik.sim.history import OK, UNKNOWN, Operation
from chronik.sim.wire_clients import ASKED
from chronik.sim.workload import KINDS
from chronik.testing import Cluster
from chronik.testing.ports import HOST
from tests.cluster.load import eventually

CLIENTS = 12
TOPICS = 6  # of one round: histories of one topic must stay short enough to be judged
THINK_MS = (5, 40)
CONNECT_MS = 1000
SHOWN_MAX = 12


class TopicClients:
    """Work from when they are made until `stop`, on a thread of their own."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.operations: list[Operation] = []
        self._cluster, self._seed = cluster, seed
        self._round = 0
        self._is_over = False
        self._network = real_runtime().network
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), daemon=True)
        self._thread.start()

    def next_round(self) -> None:
        """From now on they work on topics that are new to them."""
        self._round += 1

    def wait_for_more(self, count: int = 8) -> None:
        """Writes that were carried out, through any node."""
        wanted = self._written() + count
        eventually(lambda: self._written() >= wanted, f"{count} more writes of metadata")

    def _written(self) -> int:
        return sum(operation.status == OK and operation.kind != "read" for operation in self.operations)

    def stop(self) -> None:
        """Ends with a read of everything through every node."""
        self._is_over = True
        self._thread.join()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(CLIENTS):
                clients.create_task(_Client(self, number).work())
        last = _Client(self, CLIENTS)
        for key in sorted({operation.key for operation in self.operations}):
            for node_id in range(1, len(self._cluster.ports) + 1):
                while (read := await last.ask(node_id, "read", key)) is None or read.status != OK:
                    pass
        last.close()
        await asyncio.sleep(0)  # the loop's turn to let go of them

    def check(self) -> None:
        """One order explains every answer."""
        by_topic: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            by_topic[operation.key].append(operation)
        for name, operations in by_topic.items():
            if find_order(operations, topic, None) is None:
                shown = "\n".join(map(str, operations[-SHOWN_MAX:]))
                raise AssertionError(
                    f"no order explains the {len(operations)} answers about {name}; the last:\n{shown}"
                )


class _Client:
    def __init__(self, owner: TopicClients, number: int) -> None:
        self._owner, self._name = owner, f"client-{number}"
        self._random = Random(owner._seed * CLIENTS + number)
        self._connections: dict[int, Connection] = {}

    async def work(self) -> None:
        owner, random = self._owner, self._random
        while not owner._is_over:
            await asyncio.sleep(random.randint(*THINK_MS) / 1000)
            node_id = random.randint(1, len(owner._cluster.ports))
            await self.ask(node_id, random.choice(KINDS), f"round-{owner._round}-{random.randrange(TOPICS)}")
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    async def ask(self, node_id: int, kind: str, key: str) -> Operation | None:
        """None: no connection could be made, so nothing was asked."""
        try:
            connection = await self._to(node_id)
        except ClientError:
            return None
        operations = self._owner.operations
        number = len(operations)
        value = None if kind in ("read", "delete") else str(1_000_000 + number)
        operation = Operation(number, self._name, f"node {node_id}", kind, key, value, time.monotonic_ns())
        operations.append(operation)
        try:
            operation.status, operation.result = await ASKED[kind](connection, operation)
        except ClientError as error:
            operation.status, operation.result = UNKNOWN, type(error).__name__
        if operation.status != UNKNOWN:
            operation.returned_ns = time.monotonic_ns()
        return operation

    async def _to(self, node_id: int) -> Connection:
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            address = Address(HOST, self._owner._cluster.ports[node_id - 1])
            connection = await connect(self._owner._network, address, client_id=self._name, timeout_ms=CONNECT_MS)
            self._connections[node_id] = connection
        return connection
