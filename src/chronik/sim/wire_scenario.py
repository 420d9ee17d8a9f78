"""Like topics; meanwhile strangers use the quorum's port, frames arrive twice, and, if selected by name, recorded
traffic is replayed. None of it has an effect: metadata stays linearizable, and all nodes serve at the end."""

from __future__ import annotations

from collections.abc import Mapping

from chronik.sim.broker_scenarios import TopicsScenario
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import Fault
from chronik.sim.intruders import WIRE_FAULTS, Tap
from chronik.sim.swarm_scenario import FIRST_IDS
from chronik.sim.world import World

# Only a quorum with a secret can detect a replay, so that fault must be selected by name.
NODES = (3, 3, 5)  # among five, two votes counted twice would be a majority
DRAWN = ("doubled frames", "stranger")


class WireScenario(TopicsScenario):
    name = "wire"
    fault_count = (0, 4)
    selectable = tuple(WIRE_FAULTS)
    by_name_only = tuple(kind for kind in WIRE_FAULTS if kind not in DRAWN)

    def configure(self, world: World) -> Mapping[str, object]:
        self.first_id = world.random("ids").choice(FIRST_IDS)
        self.node_count = world.random("nodes").choice(NODES)
        return {"nodes": self.node_count, "first id": self.first_id}

    def build(self, world: World) -> SimCluster:
        cluster = super().build(world)
        cluster.tap = Tap(cluster)  # from the start, to record the hellos
        return cluster

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("wire")
        kinds = [self.only] if self.only else random.sample(DRAWN, random.randint(1, len(DRAWN)))
        faults = super().draw_faults(world)
        for _ in range(random.randint(2, 10)):
            kind = random.choice(kinds)
            durations, amounts = WIRE_FAULTS[kind]
            node, other = random.randint(0, self.node_count), random.randint(1, self.node_count)
            at_ms = random.randrange(self.fault_ms)
            faults.append(Fault(at_ms, kind, node, random.randint(*durations), other, random.randint(*amounts)))
        return sorted(faults)
