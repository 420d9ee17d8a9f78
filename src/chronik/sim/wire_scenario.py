"""As topics; meanwhile strangers speak on the quorum's port, frames arrive twice, and by name somebody plays back what
nodes have said to each other. Nothing comes of it: metadata stays linearizable, and all serve in the end."""

from __future__ import annotations

from collections.abc import Mapping

from chronik.sim.broker_scenarios import TopicsScenario
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import Fault
from chronik.sim.intruders import WIRE_FAULTS, Tap
from chronik.sim.swarm_scenario import FIRST_IDS
from chronik.sim.world import World

# What is played back is told from what a node sends only where the quorum has a secret: by name only.
NODES = (3, 3, 5)  # of five, two votes that are counted twice are a majority
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
        cluster.tap = Tap(cluster)  # from the start: hellos come first
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
