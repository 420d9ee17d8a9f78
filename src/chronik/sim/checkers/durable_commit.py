"""Invariant 3: an entry that a node considers committed is on the platters of a majority at that moment, or was until a
disk was lost. No other entry is ever committed at its index. A leader commits by an entry of its own term.

The majority is that of the current members. A membership change takes effect when it is applied, so the previous
members commit it. Entries committed together with it may have either majority, since one observation does not show the
order. A restarted leader may not know that the last change was committed: the previous members may then commit the
first entry of its term. Any two such majorities share a node.
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
        self._committed: dict[int, tuple[int, int]] = {}  # index: (term, checksum) of the entry
        self._members: dict[int, Membership] = {}  # node: members when last observed
        self._before: dict[Membership, Membership] = {}  # members: the members before the change to them

    def started(self, machine: SimMachine, raft: RaftNode, now: Quorum) -> None:
        # A leader at the first observation was the only voter when it started; it may have added members since.
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
            return  # by a snapshot: its entries were checked when a node first committed them
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
            # Counting alone does not commit it: a later leader could overwrite it. An own-term entry after it does.
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
