"""A node starts with what its disk holds: an entry per index as last written, the last term and vote.

Part of invariants 1 and 2, and of any promise across a restart. An independent reader reads the disk before the process
starts, including the page cache; a power cut has already torn unsynced writes by then.
"""

from __future__ import annotations

from chronik.raft.driver import RaftNode
from chronik.raft.messages import HardState, Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class Recovery(Checker):
    name = "2 a restart finds what the disk holds"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._found: dict[int, tuple[HardState, int, list[int]]] = {}  # node: (state, base, terms after it)

    def starting(self, machine: SimMachine) -> None:
        log = machine.found_log()
        self._found[machine.node_id] = (log.hard_state, log.base.base_index, list(log.terms))

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        state, base, terms = self._found[machine.node_id]
        if state == HardState():
            return  # a new node
        # A single voter leads at once, in the next term, before the first observation. No other could lead so soon.
        leads_alone = now.role is Role.LEADER
        kept = (state.term + 1, machine.node_id) if leads_alone else (state.term, state.vote)
        if (now.term, now.vote) != kept:
            self.violated(f"{machine} begins with {now}, its disk held {state}")
        log = raft._stable
        if log.base_index < base or log.base_index > base + len(terms):
            return  # the snapshot is ahead of the journal: the log begins after it
        expected = terms[log.base_index - base :]
        last_index = log.base_index + len(expected) if leads_alone else log.last_index
        found = [log.term(index) for index in range(log.base_index + 1, last_index + 1)]
        if found != expected:
            self.violated(f"{machine} begins with terms {found} behind {log.base_index}, its disk held {expected}")
