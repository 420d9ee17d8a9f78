"""Three replicating nodes, and a fault that does not end: a node stays off, a link stays cut, a disk stays slow.

All other faults are healed. Within ten seconds of that, and of the start of the lasting fault, the healthy majority
acknowledges records in every partition and commits again. Checks do not depend on the faulty node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from chronik.client.admin import offsets as group_offsets
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.sim.broker_scenarios import RecordsScenario
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import SWARM_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import LASTING, LEADER, Fault
from chronik.sim.history import OK, History
from chronik.sim.record_clients import TOPIC, routing_of
from chronik.sim.scenario import PACES_MS, Clients
from chronik.sim.wire_clients import WireClient, make_client
from chronik.sim.world import World

AMOUNTS: Mapping[str, tuple[int, int]] = {
    "slowed disk": (20, 600),  # milliseconds
    "slowed link": (20, 1500),
    "filled disk": (0, 20_000),  # bytes
}

ATTEMPT_MS = 4000  # for one client's request
PAUSE_S = 0.1  # before the next attempt


class LastingScenario(RecordsScenario):
    name = "lasting"
    slowness_percent = 100
    checkers: Sequence[type[Checker]] = SWARM_CHECKERS
    fault_count = (0, 4)
    selectable = tuple(LASTING)
    answered_ms_max = 60_000  # clients of the faulty node wait for it up to their own timeout

    def __init__(self) -> None:
        self._probe: asyncio.Task[None] | None = None

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("lasting")
        kind = self.only or random.choice(tuple(LASTING))
        node = random.choice((LEADER, *range(1, self.node_count + 1)))
        at_ms, other = random.randint(500, self.fault_ms), random.randint(1, self.node_count)
        lasting = Fault(at_ms, kind, node, 0, other, random.randint(*AMOUNTS.get(kind, (0, 0))))
        return sorted([*super().draw_faults(world), lasting])

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._clients(cluster, history, cluster.world.random("pace").choice(PACES_MS[:2]))

    def contacts(self, cluster: SimCluster) -> list[int]:
        return [node_id for node_id, machine in cluster.machines.items() if not machine.is_ill]

    def has_recovered(self, cluster: SimCluster) -> bool:
        if self._probe is None:
            client = make_client(cluster, "probe")
            self._probe = client.loop.create_task(self._serve_probe(cluster, client), name=client.name)
        return self._probe.done()

    async def _serve_probe(self, cluster: SimCluster, client: WireClient) -> None:
        """Produces to every partition, and commits as a member of a group."""
        needs: list[Need] = [self._commit, *(partial(self._produce, index) for index in range(self.partition_count))]
        await asyncio.gather(*(_until_served(cluster, client, need, self.contacts(cluster)) for need in needs))

    async def _commit(self, history: History, routing: ClusterClient, attempt: int) -> None:
        committed = group_offsets.Committed(attempt, -1, "")
        await group_offsets.commit(routing, "probe", {TopicPartition(TOPIC, 0): committed})

    async def _produce(self, partition: int, history: History, routing: ClusterClient, attempt: int) -> None:
        value = f"probe:{partition}:{attempt}"
        operation = history.invoke(f"probe-{partition}", "-", "produce", f"{TOPIC}-{partition}", value)
        producer = Producer(routing, delivery_timeout_ms=ATTEMPT_MS, linger_ms=0)
        try:
            delivery = await producer.send(TOPIC, value.encode(), partition=partition)
            history.complete(operation, OK, (await delivery).offset)
        finally:
            await producer.close(flushes=False)


Need = Callable[[History, ClusterClient, int], Awaitable[None]]


async def _until_served(cluster: SimCluster, client: WireClient, need: Need, contacts: list[int]) -> None:
    """Repeats as a new client that asks a healthy node; pending requests of old clients do not matter."""
    attempt = 0
    while True:
        routing = routing_of(cluster, client, [contacts[attempt % len(contacts)]])
        try:
            async with asyncio.timeout(ATTEMPT_MS / 1000):
                await need(cluster.history, routing, attempt)
            return
        except (ClientError, TimeoutError) as error:
            cluster.world.note(client.name, f"attempt {attempt}: {type(error).__name__} {error}")
        finally:
            await routing.close()
        attempt += 1
        await asyncio.sleep(PAUSE_S)
