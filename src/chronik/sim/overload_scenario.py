"""Three overloaded nodes: hundreds of partitions, many clients, large requests, clients that retry immediately after a
timeout, and a follower that was away and catches up meanwhile.

Computing takes time in this scenario. Whatever the load, no callback blocks a loop for long and no node exceeds its
memory budget. When the load ends, every partition serves within ten seconds: the overload does not outlast its cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar

from chronik.client.admin.topics import NewTopic
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.metadata.image import NO_LEADER
from chronik.runtime.units import NS_PER_MS
from chronik.sim.broker_scenarios import RecordsScenario, create_topic, run_in, settled_image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import OVERLOAD_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import Fault, Weight
from chronik.sim.history import History
from chronik.sim.load_clients import LOAD_TOPIC, LoadClients
from chronik.sim.record_clients import routing_of
from chronik.sim.scenario import Clients, Together
from chronik.sim.wire_clients import WireClient, make_client
from chronik.sim.world import World

LOAD_PARTITIONS = (50, 120, 240)
LOAD_CLIENTS = (7, 12, 18)
SLOWNESS_PERCENT = (100, 100, 200)
LOOK_NS = 50 * NS_PER_MS  # between checks of all partitions, which are many
ATTEMPT_MS = 8000
WEIGHTS = (
    Weight("slow link", 4, (500, 2500), (5, 200)),
    Weight("slow disk", 4, (500, 2500), (5, 60)),
    Weight("kill", 2, (100, 1500)),
)


class OverloadScenario(RecordsScenario):
    name = "overload"
    fault_ms = 3_500
    fault_count = (0, 2)
    weights = WEIGHTS
    checkers: Sequence[type[Checker]] = OVERLOAD_CHECKERS
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "memory_budget_bytes": 16 << 20}

    def __init__(self) -> None:
        self._load: LoadClients | None = None
        self._probe: asyncio.Task[None] | None = None
        self._looked_ns = 0
        self._is_whole = False

    def configure(self, world: World) -> Mapping[str, object]:
        random = world.random("overload")
        self.slowness_percent = random.choice(SLOWNESS_PERCENT)
        self._load_partitions, self._load_clients = random.choice(LOAD_PARTITIONS), random.choice(LOAD_CLIENTS)
        return {
            "slowness": self.slowness_percent,
            "partitions under load": self._load_partitions,
            "clients": self._load_clients,
        }

    def draw_faults(self, world: World) -> list[Fault]:
        """A node is always away for a while, and has to catch up while the others are busy."""
        random = world.random("away")
        away = Fault(random.randint(200, 800), "pause", random.randint(1, 3), random.randint(1500, 2600))
        return sorted([*super().draw_faults(world), away])

    def prepare(self, world: World, cluster: SimCluster) -> None:
        super().prepare(world, cluster)
        client = make_client(cluster, "founder of the load")

        async def create() -> None:
            routing = routing_of(cluster, client)
            new = NewTopic(LOAD_TOPIC, partition_count=self._load_partitions, replication_factor=3)
            await create_topic(routing, new)
            await routing.close()

        run_in(world, client, create())

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        self._load = LoadClients(cluster, partition_count=self._load_partitions, client_count=self._load_clients)
        return Together([self._clients(cluster, history, (20, 400)), self._load])

    def has_recovered(self, cluster: SimCluster) -> bool:
        """After the load has ended, every partition accepts a record, and all replicas are in sync."""
        assert self._load is not None
        now_ns = cluster.world.time.now_ns
        if self._probe is None:
            self._load.end()
            cluster.world.note(
                "load", f"ends: {self._load.answered_count} answered, {self._load.given_up_count} given up"
            )
            client = make_client(cluster, "probe")
            self._probe = client.loop.create_task(self._take_records(cluster, client), name=client.name)
        if not self._is_whole and now_ns - self._looked_ns >= LOOK_NS:
            self._looked_ns = now_ns
            self._is_whole = _is_whole(cluster)
        return self._is_whole and self._probe.done()

    async def _take_records(self, cluster: SimCluster, client: WireClient) -> None:
        left = set(range(self._load_partitions))
        while left:
            routing = routing_of(cluster, client)
            producer = Producer(routing, delivery_timeout_ms=ATTEMPT_MS, linger_ms=0)
            try:
                sent = {index: await producer.send(LOAD_TOPIC, b"probe", partition=index) for index in sorted(left)}
                done = await asyncio.gather(*sent.values(), return_exceptions=True)
                left -= {index for index, result in zip(sent, done, strict=True) if not isinstance(result, Exception)}
            except ClientError as error:
                cluster.world.note(client.name, f"{type(error).__name__} {error}")
            finally:
                await producer.close(flushes=False)
                await routing.close()


def _is_whole(cluster: SimCluster) -> bool:
    image = settled_image(cluster)
    return image is not None and all(
        partition.leader != NO_LEADER and set(partition.replicas) == set(partition.isr)
        for topic in image.all_topics()
        for partition in topic.partitions
    )
