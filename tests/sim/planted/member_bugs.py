"""Bugs that have no effect until a node joins the quorum or leaves it."""

from __future__ import annotations

import asyncio

import pytest

from chronik.metadata.commands.command import Command, Reply
from chronik.metadata.leased_reads import LEASE_GRANT, LeasedReads
from chronik.metadata.leases import Grant, encode_grant
from chronik.metadata.quorum import QuorumDuties
from chronik.raft import appending, changes, membership
from chronik.raft.changes import ChangeSet
from chronik.raft.core import Core
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Entry, Membership, Role
from chronik.raft.quorum import committed_index
from chronik.raft.read_points import ReadPoints


def commits_counted_by_the_members_before(patch: pytest.MonkeyPatch) -> None:
    """The leader continues to count as before the last change."""
    before: dict[Core, Membership] = {}
    apply = membership.apply

    def remember(node: Core, change: ChangeSet) -> Membership:
        before[node] = node.members
        return apply(node, change)

    def advance_commit(node: Core) -> bool:
        voters = before.get(node, node.members).voters
        index = committed_index([each for each in voters if each in node.progress], lambda at: node.progress[at].match)
        return node.log.matches(index, node.term) and node.log.commit_to(index)

    patch.setattr(membership, "apply", remember)
    patch.setattr(appending, "advance_commit", advance_commit)


def changes_made_at_once(patch: pytest.MonkeyPatch) -> None:
    """The previous change is not awaited."""
    work = QuorumDuties._work

    async def unlocked(self: QuorumDuties, raft: RaftNode, command: Command) -> Reply:
        self._changing = asyncio.Lock()
        return await work(self, raft, command)

    def may_propose(node: Core, entry: Entry) -> bool:
        return changes.changed(node.members, ChangeSet.of(entry).changes) is not None

    patch.setattr(QuorumDuties, "_work", unlocked)
    patch.setattr(appending, "may_propose", may_propose)


def followers_pass_changes_over(patch: pytest.MonkeyPatch) -> None:
    """Only the leader applies them; the others would elect with the former members."""
    apply = membership.apply

    def by_leaders(node: Core, change: ChangeSet) -> Membership:
        return apply(node, change) if node.role is Role.LEADER else node.members

    patch.setattr(membership, "apply", by_leaders)


def leases_for_nodes_that_were_removed(patch: pytest.MonkeyPatch) -> None:
    """Every node that asks gets one, so commits wait for nodes that receive no entries."""

    def answer(self: LeasedReads, peer: int, number: int) -> None:
        raft, now_ns = self._raft, self._clock.monotonic_ns()
        if self.grants is None or len(raft.members.voters) == 1 or not raft.holds_lease(now_ns):
            return
        duration_ns = self.grants.grant_ns(peer, now_ns, raft.lease_until_ns)
        if duration_ns:
            raft.require(self.grants.holders(now_ns))
            grant = Grant(number, raft.term, raft.commit_index, duration_ns)
            self._notes.send_note(peer, LEASE_GRANT + encode_grant(grant))

    patch.setattr(LeasedReads, "_answer", answer)


def voters_that_would_not_vote(patch: pytest.MonkeyPatch) -> None:
    """A node that waits for a leader before it votes is one of the voters that are needed to elect one. It asks again
    only after a while if its first request reached no node."""
    patch.setattr(RaftNode, "may_vote", lambda self, node_id: True)
    patch.setattr(ReadPoints, "leader_changed", lambda self: None)
