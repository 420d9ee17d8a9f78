"""Invariant 21: after a failed fsync a node answers no client until it is restarted.

Clients are those of the broker's port; invariant 3 covers messages between quorum members.
"""

from __future__ import annotations

from chronik.sim.checkers.interface import Checker
from chronik.sim.cluster import SimCluster
from chronik.sim.history import History
from chronik.sim.network import Host
from chronik.sim.programs import BROKER_PORT
from chronik.sim.world import World


class Silence(Checker):
    name = "21 nothing is acknowledged after a failed fsync"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        world.wires.on_broken_silence = self._heard

    def _heard(self, host: Host, port: int) -> None:
        if port == BROKER_PORT:
            self.violated(f"{host.name} answered a client after its disk had failed")
