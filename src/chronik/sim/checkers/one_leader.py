"""Invariant 1: a term has one leader, and a node gives one vote in a term, restarts included."""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.raft.messages import NOBODY, Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import Cluster, Machine
from chronik.sim.history import History
from chronik.sim.world import World


class OneLeader(Checker):
    name = "1 one leader and one vote per term"

    def __init__(self, world: World, cluster: Cluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._leaders: dict[int, int] = {}  # by term
        self._votes: dict[tuple[int, int], int] = {}  # by node and term: whom

    def started(self, machine: Machine, raft: RaftNode, now: Quorum) -> None:
        self._look(machine.node_id, now)

    def changed(self, machine: Machine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        self._look(machine.node_id, now)

    def _look(self, node_id: int, now: Quorum) -> None:
        if now.role is Role.LEADER and self._leaders.setdefault(now.term, node_id) != node_id:
            self.violated(f"term {now.term} is led by node {self._leaders[now.term]} and node {node_id}")
        if now.vote != NOBODY:
            earlier = self._votes.setdefault((node_id, now.term), now.vote)
            if earlier != now.vote:
                self.violated(f"in term {now.term} node {node_id} voted for {earlier}, then for {now.vote}")
