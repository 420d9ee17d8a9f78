"""Invariant 3: what any node takes for committed is on the platters of a majority at that moment, or was until a disk
was lost; it is one entry, no other is ever committed at its index; and a leader commits by an entry of its own term.

Whose majority: that of the members in force. A change of members is in force once it is applied, so it is committed by
those before it. What is committed together with it may be so by either: a look does not show which came first. A leader
that has begun again may not know yet that the last change was committed: its term's first entry may be committed by
those before that change, and any two such majorities have a node in common.
"""

from __future__ import annotations

import zlib

from chronik.raft.driver import RaftNode
from chronik.raft.messages import Entry, EntryKind, Membership, Role
from chronik.sim.checkers.interface import Checker, Quorum
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class DurableCommit(Checker):
    name = "3 committed is fsynced on a majority"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._committed: dict[int, tuple[int, int]] = {}  # by index: term and checksum of the entry
        self._members: dict[int, Membership] = {}  # by node: in force when it was last looked at
        self._before: dict[Membership, Membership] = {}  # of each that a change led to

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        # One that leads at the first look was the only voter when it began; it may have let others in since.
        began_alone = Membership(voters=(machine.node_id,), learners=())
        self._members[machine.node_id] = began_alone if now.role is Role.LEADER else raft.members

    def changed(self, machine: SimMachine, raft: RaftNode, before: Quorum, now: Quorum) -> None:
        members, self._members[machine.node_id] = self._members[machine.node_id], raft.members
        if members != raft.members:
            self._before[raft.members] = members
        if now.committed == before.committed:
            return
        entries = raft._core.log.entries(before.committed + 1, 1 << 62, now.committed + 1)
        if not entries:
            return  # by a snapshot: its entries were judged when somebody first committed them
        newest = change = None
        for entry in entries:
            found = (entry.term, zlib.crc32(entry.data))
            known = self._committed.get(entry.index)
            if known is None:
                self._committed[entry.index] = found
                newest = entry
                change = change or (entry if entry.kind is not EntryKind.NORMAL else None)
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
        if change is not None:
            self._require_majority(machine, change, members)
        if newest is not change:
            is_first = self._committed.get(newest.index - 1, (0, 0))[0] < newest.term
            earlier = [self._before[raft.members]] if is_first and raft.members in self._before else []
            self._require_majority(machine, newest, *earlier, members, raft.members)

    def _require_majority(self, machine: SimMachine, entry: Entry, *either: Membership) -> None:
        for members in either:
            holders = [voter for voter in members.voters if self._holds(voter, entry)]
            if 2 * len(holders) > len(members.voters):
                return
        voters = either[-1].voters
        holders = [voter for voter in voters if self._holds(voter, entry)]
        self.violated(
            f"node {machine.node_id} commits index {entry.index} of term {entry.term}, "
            f"which only {holders} of {list(voters)} have on disk"
        )

    def _holds(self, voter: int, entry: Entry) -> bool:
        machine = self.cluster.machines[voter]
        for log in (machine.durable_log, *machine.lost_logs):
            log.refresh()
            if log.holds(entry.index, entry.term):
                return True
        return False
