"""Clients of the metadata quorum: they create, delete, configure and read a few topics through all nodes.

They call the store of a node directly, without a broker; each has one operation in flight. A client whose node dies or
is silent gives up after a while; the outcome is then unknown. Clients judge nothing.
"""

from __future__ import annotations

from random import Random

from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.errors import MetadataError, MetadataRefused
from chronik.metadata.image import ResourceType
from chronik.metadata.store import MetadataStore
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import OK, REFUSED, UNKNOWN, History, Operation
from chronik.wire.error_codes import ErrorCode

VALUE_KEY = "retention.ms"  # a config that accepts any number: each write sets a unique one
PATIENCE_MS = 3000
KINDS = ("create", "create", "delete", "set", "set", "read", "read", "read")


class MetadataClients:
    def __init__(
        self, cluster: SimCluster, history: History, *, client_count: int, think_ms: tuple[int, int], topic_count: int
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self.random: Random = cluster.world.random("clients")
        self._client_count, self._think_ms = client_count, think_ms
        self._topics = [f"topic-{number}" for number in range(topic_count)]
        self._is_over = False
        self._under_way: dict[int, Operation] = {}

    @property
    def are_answered(self) -> bool:
        return not self._under_way

    def begin(self) -> None:
        for number in range(1, self._client_count + 1):
            self._later(f"client-{number}")

    def end(self) -> None:
        """No new operations."""
        self._is_over = True

    def _later(self, client: str) -> None:
        self.world.time.after_ms(self.random.randint(*self._think_ms), self._next, client)

    def _next(self, client: str) -> None:
        if self._is_over:
            return
        machine = self._choose_machine()
        if machine is None:
            self._later(client)
            return
        self._ask(client, machine, self.random.choice(KINDS), self.random.choice(self._topics))

    def _choose_machine(self) -> SimMachine | None:
        """Any machine, including paused ones: a client cannot tell."""
        ready = [each for each in self.cluster.machines.values() if each.loop is not None and each.is_ready]
        return self.random.choice(ready) if ready else None

    def _ask(self, client: str, machine: SimMachine, kind: str, topic: str) -> None:
        store = machine.program.store if machine.program is not None else None
        assert store is not None
        operation = self.history.invoke(client, machine.host, kind, topic)
        operation.value = None if kind in ("read", "delete") else str(1_000_000 + operation.number)
        self._under_way[operation.number] = operation
        give_up = self.world.time.after_ms(PATIENCE_MS, self._done, client, operation, UNKNOWN, "no answer")

        async def perform() -> None:
            status, result = await perform_on(store, operation)
            give_up.cancel()
            self._done(client, operation, status, result)

        assert machine.loop is not None
        machine.loop.create_task(perform(), name=f"operation {operation.number}")

    def _done(self, client: str, operation: Operation, status: str, result: object) -> None:
        if operation.number not in self._under_way:
            return  # already given up
        del self._under_way[operation.number]
        self.history.complete(operation, status, result)
        self._later(client)


async def perform_on(store: MetadataStore, operation: Operation) -> tuple[str, object]:
    try:
        if operation.kind == "read":
            image = await store.read()
            if image.topic_named(operation.key) is None:
                return OK, None
            return OK, image.config(ResourceType.TOPIC, operation.key).get(VALUE_KEY)
        return told(operation.kind, await _write(store, operation))
    except MetadataRefused as refused:
        return UNKNOWN, refused.error_code.name
    except MetadataError as error:
        return UNKNOWN, type(error).__name__


async def _write(store: MetadataStore, operation: Operation) -> int:
    if operation.kind == "create":
        value = ConfigValue(key=VALUE_KEY, value=operation.value)
        new = NewTopic(name=operation.key, partition_count=1, replication_factor=1, configs=[value])
        return (await store.submit(CreateTopics(topics=[new]))).topics[0].error_code
    if operation.kind == "delete":
        return (await store.submit(DeleteTopics(topics=[TopicName(name=operation.key)]))).topics[0].error_code
    change = ConfigChange(key=VALUE_KEY, value=operation.value)
    resource = ResourceChange(resource_type=ResourceType.TOPIC, resource_name=operation.key, configs=[change])
    reply = await store.submit(AlterConfigs(resources=[resource], incremental=True))
    return reply.resources[0].error_code


REFUSALS = {
    "create": ErrorCode.TOPIC_ALREADY_EXISTS,
    "delete": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "set": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def told(kind: str, error_code: int) -> tuple[str, object]:
    if error_code == 0:
        return OK, None
    if error_code == REFUSALS[kind]:
        return REFUSED, ErrorCode.of(error_code).name
    return UNKNOWN, ErrorCode.of(error_code).name
