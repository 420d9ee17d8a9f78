"""Invariant 4: nodes that have applied the log up to the same index have the same state and members, whether by log or
by snapshot; and at the end all members agree on the membership.

Hashing a whole image is expensive, so it is done at every fourth version, on all nodes, and at the end.
"""

from __future__ import annotations

from chronik.metadata.snapshot import state_hash
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Membership
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World

EVERY = 4


class SameState(Checker):
    name = "4 equal index, equal state"
    every = EVERY

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._hashes: dict[int, tuple[str, int]] = {}  # version: (hash, first node with it)
        self._last: dict[int, int] = {}
        self._members: dict[int, tuple[Membership, int]] = {}  # applied index: (members, first node with them)

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.applied != before.applied:
            self._look(machine, every=self.every)
            known, who = self._members.setdefault(now.applied, (raft.members, machine.node_id))
            if known != raft.members:
                self.violated(
                    f"at index {now.applied} node {who} has {known}, node {machine.node_id} has {raft.members}"
                )

    def finish(self) -> None:
        members: dict[int, object] = {}
        for machine in self.cluster.members():
            self._look(machine, every=1)
            raft = machine.program.raft if machine.program is not None else None
            if raft is not None:
                members[machine.node_id] = raft.members
        if len(set(members.values())) > 1:
            self.violated(f"the nodes do not agree who belongs to the quorum: {members}")

    def _look(self, machine: SimMachine, every: int) -> None:
        store = machine.program.store if machine.program is not None else None
        if store is None or store.image.version % every or self._last.get(machine.node_id) == store.image.version:
            return
        version = self._last[machine.node_id] = store.image.version
        found = state_hash(store.image)
        known, who = self._hashes.setdefault(version, (found, machine.node_id))
        if known != found:
            self.violated(f"at version {version} node {who} and node {machine.node_id} have different states")


class SameStateAtEveryVersion(SameState):
    """For runs in which a node may have forgotten entries: the entries that replace them may be few."""

    every = 1
