"""Invariant 6, the part that nodes show: never do two nodes hold a lease at one moment, and who holds one has applied
everything that any client was told."""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import Machine


class Leases(Checker):
    name = "6 leases never overlap"

    def changed(self, machine: Machine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.lease_until_ns == before.lease_until_ns and now.role is before.role:
            return
        if not self._holds(machine):
            return
        for other in self.cluster.machines.values():
            if other is not machine and self._holds(other):
                self.violated(f"node {machine.node_id} and node {other.node_id} hold a lease at once")

    def _holds(self, machine: Machine) -> bool:
        raft = machine.program.raft if machine.program is not None else None
        if raft is None or machine.clock is None or raft.stopped:
            return False
        return raft.holds_lease(machine.clock.monotonic_ns())
