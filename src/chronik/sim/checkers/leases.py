"""Invariant 6, as visible on nodes: no leader is elected while another may still answer by its lease. `linearizability`
checks the clients' side: lease reads return everything acknowledged.

A candidate that counts its votes after a majority has moved on to a later term leads no node: its messages are refused,
so it can commit nothing and gets no lease. Such an election does not affect the lease of the later term.
"""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimMachine


class Leases(Checker):
    name = "6 leases never overlap"

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.lease_until_ns == before.lease_until_ns and now.role is before.role:
            return
        is_elected = now.role is Role.LEADER and before.role is not Role.LEADER
        if not is_elected and not self._holds(machine):
            return
        for other in self.cluster.machines.values():
            if other is not machine and self._holds(other):
                if is_elected and now.term < self._term(other):
                    continue
                what = "is elected while" if is_elected else "holds a lease and"
                self.violated(f"node {machine.node_id} {what} node {other.node_id} holds one")

    def _term(self, machine: SimMachine) -> int:
        return machine.program.raft.term if machine.program is not None and machine.program.raft is not None else 0

    def _holds(self, machine: SimMachine) -> bool:
        raft = machine.program.raft if machine.program is not None else None
        if raft is None or machine.clock is None or raft.stopped:
            return False
        return raft.holds_lease(machine.clock.monotonic_ns())
