"""Invariant 2: the durable term and commit index never decrease, whatever happens to the process."""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class DurableProgress(Checker):
    name = "2 durable term and commit never go back"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._seen: dict[int, tuple[int, int]] = {}
        self._wipes: dict[int, int] = {}

    def starting(self, machine: SimMachine) -> None:
        if machine.wipes > self._wipes.get(machine.node_id, 0):
            self._wipes[machine.node_id] = machine.wipes
            self._seen.pop(machine.node_id, None)  # the disk is empty, so nothing can decrease

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        term, commit = self._seen.get(machine.node_id, (0, 0))
        if now.term < term or now.committed < commit:
            self.violated(
                f"node {machine.node_id} begins with term {now.term} and commit {now.committed}, "
                f"its disk held {term} and {commit}"
            )
        self._look(machine)

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.term < before.term or now.committed < before.committed:
            self.violated(f"node {machine.node_id} went from {before} to {now}")
        if now.term != before.term or now.committed != before.committed:
            self._look(machine)

    def _look(self, machine: SimMachine) -> None:
        node_id, log = machine.node_id, machine.durable_log
        log.refresh()
        now = log.hard_state
        term, commit = self._seen.get(node_id, (0, 0))
        if now.term < term or now.commit < commit:
            self.violated(f"the disk of node {node_id} went from term {term}, commit {commit} to {now}")
        self._seen[node_id] = (max(term, now.term), max(commit, now.commit))
