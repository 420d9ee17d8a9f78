"""Invariant 1: a term has one leader, and a node gives one vote per term, across restarts.

A lost disk takes the vote with it, but the node still must not vote again in that term. A vote counts once it is on the
platter: before that it has not been sent. So a leader must have a majority of votes on platters when it starts to lead;
a voter that has moved on to a later term is assumed to have voted for it.
"""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.raft.messages import NOBODY, Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class OneLeader(Checker):
    name = "1 one leader and one vote per term"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._leaders: dict[int, int] = {}  # term: leader
        self._votes: dict[tuple[int, int], int] = {}  # (node, term): candidate
        self._lost: dict[int, tuple[int, int]] = {}  # node: (wipes, last term it voted in before them)

    def starting(self, machine: SimMachine) -> None:
        node_id = machine.node_id
        if machine.wipes > self._lost.get(node_id, (0, 0))[0]:
            terms = [term for voter, term in self._votes if voter == node_id]
            self._lost[node_id] = (machine.wipes, max(terms, default=0))

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        known = self._votes.get((machine.node_id, now.term), now.vote)
        is_lost = now.vote == NOBODY and now.term <= self._lost.get(machine.node_id, (0, 0))[1]
        if now.vote != known and not is_lost:
            self.violated(f"node {machine.node_id} voted for {known} in term {now.term}, and begins with {now.vote}")
        self._take_vote(machine)

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.term == before.term and now.role is before.role and now.vote == before.vote:
            return
        self._take_vote(machine)
        if now.role is Role.LEADER and (before.role is not Role.LEADER or before.term != now.term):
            self._take_leader(machine, raft, now.term)

    def _take_leader(self, machine: SimMachine, raft: RaftNode, term: int) -> None:
        leader = self._leaders.setdefault(term, machine.node_id)
        if leader != machine.node_id:
            self.violated(f"term {term} is led by node {leader} and node {machine.node_id}")
        voters = raft.members.voters
        votes = [voter for voter in voters if self._has_voted(self.cluster.machines[voter], term, machine.node_id)]
        if 2 * len(votes) <= len(voters):
            self.violated(f"node {machine.node_id} leads term {term} by the votes of {votes} that are on disk")

    def _has_voted(self, machine: SimMachine, term: int, candidate: int) -> bool:
        self._take_vote(machine)
        state = machine.durable_log.hard_state
        return state.term > term or (state.term == term and state.vote == candidate)

    def _take_vote(self, machine: SimMachine) -> None:
        machine.durable_log.refresh()
        state = machine.durable_log.hard_state
        if state.vote != NOBODY:
            earlier = self._votes.setdefault((machine.node_id, state.term), state.vote)
            if earlier != state.vote:
                self.violated(f"in term {state.term} node {machine.node_id} voted for {earlier}, then for {state.vote}")
