"""Invariant 3: what any node takes for committed is on the platters of a majority at that moment; it is one entry, no
other is ever committed at its index; and a leader commits by an entry of its own term."""

from __future__ import annotations

import zlib

from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import Cluster, Machine
from chronik.sim.history import History
from chronik.sim.world import World


class DurableCommit(Checker):
    name = "3 committed is fsynced on a majority"

    def __init__(self, world: World, cluster: Cluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._committed: dict[int, tuple[int, int]] = {}  # by index: term and checksum of the entry

    def changed(self, machine: Machine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        if now.committed == before.committed:
            return
        entries = raft._core.log.entries(before.committed + 1, 1 << 62, now.committed + 1)
        if not entries:
            return  # by a snapshot: its entries were judged when somebody first committed them
        newest = None
        for entry in entries:
            found = (entry.term, zlib.crc32(entry.data))
            known = self._committed.get(entry.index)
            if known is None:
                self._committed[entry.index] = found
                newest = entry
            elif known != found:
                self.violated(
                    f"index {entry.index} was committed with term {known[0]}, node {machine.node_id} "
                    f"commits another entry of term {entry.term} there"
                )
        if newest is None:
            return
        if now.role is Role.LEADER and newest.term != now.term:
            # Counted by itself it could still be overwritten by a later leader; only one of the own term carries it.
            self.violated(f"node {machine.node_id} leads term {now.term} and commits an entry of term {newest.term}")
        voters = raft.members.voters
        holders = []
        for voter in voters:
            log = self.cluster.machines[voter].durable_log
            log.refresh()
            if log.holds(newest.index, newest.term):
                holders.append(voter)
        if 2 * len(holders) <= len(voters):
            self.violated(
                f"node {machine.node_id} commits index {newest.index} of term {newest.term}, "
                f"which only {holders} of {list(voters)} have on disk"
            )
