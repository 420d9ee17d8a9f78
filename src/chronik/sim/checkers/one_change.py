"""Majorities before and after a membership change overlap, which invariants 1 and 3 depend on: one voter changes at a
time, and a leader accepts no change before it has applied the previous one."""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.raft.messages import EntryKind, Membership, Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class OneChange(Checker):
    name = "3 one change of members at a time"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._members: dict[int, Membership] = {}  # node: members when last observed

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        self._members[machine.node_id] = raft.members

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        earlier, self._members[machine.node_id] = self._members[machine.node_id], raft.members
        if before.role is not Role.LEADER or before.term != now.term:
            return  # a follower may apply many changes at once
        if len(set(earlier.voters) ^ set(raft.members.voters)) > 1:
            self.violated(f"node {machine.node_id} leads and goes from {earlier} to {raft.members}")
        log = raft._core.log
        unapplied = log.entries(max(before.applied + 1, log.first_index), 1 << 62) or ()
        changes = [entry.index for entry in unapplied if entry.kind is not EntryKind.NORMAL]
        if len(changes) > 1:
            self.violated(f"node {machine.node_id} leads, has applied {before.applied}, and holds changes at {changes}")
