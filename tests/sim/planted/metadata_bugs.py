"""Bugs of the metadata quorum, each a patch that breaks one rule. The simulator must catch every one of them.

They are bugs that real systems had, or that ours had for a while; none is a typo that any test would find.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from chronik.metadata.controller import Controller
from chronik.metadata.leased_reads import LeasedReads
from chronik.metadata.leases import FollowerLease
from chronik.raft import appending, core, journal, journal_format, membership, reads, rounds, snapshots
from chronik.raft.config import RaftConfig
from chronik.raft.core import Core, CoreConfig
from chronik.raft.driver import RaftNode
from chronik.raft.journal_format import Base, JournalItem, Replayed
from chronik.raft.leases import Lease
from chronik.raft.messages import NOBODY, PROMISES, Entry, HardState, Message, MessageKind, Role
from chronik.raft.quorum import committed_index
from chronik.runtime.interfaces import Randomness


def promise_forgotten_at_restart(patch: pytest.MonkeyPatch) -> None:
    """A node back from a restart votes at once, though it may have promised a leader not to."""
    original = RaftConfig.core_config

    def core_config(self: RaftConfig, node_id: int, randomness: Randomness, *, may_have_promised: bool) -> CoreConfig:
        return original(self, node_id, randomness, may_have_promised=False)

    patch.setattr(RaftConfig, "core_config", core_config)


def entries_acknowledged_before_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(core, "PROMISES", PROMISES - {MessageKind.APPEND_REPLY})


def journal_never_synced(patch: pytest.MonkeyPatch) -> None:
    """Acknowledged as written, and never on the platter."""

    def append(rounds_: rounds.Rounds, entries: list[Entry]) -> asyncio.Future[None]:
        rounds_._journal.append(rounds_._hard_state, entries)
        return rounds_._lane.sync([])

    patch.setattr(rounds.Rounds, "_append", append)


def highest_term_wins_at_recovery(patch: pytest.MonkeyPatch) -> None:
    """Of two records at one index recovery takes the one with the higher term, not the later one."""

    def by_term(stream: Iterable[JournalItem]) -> Replayed:
        records = list(stream)
        best: dict[int, JournalItem] = {}
        for record in _entries_behind_last_base(records):
            known = best.get(record.index)  # type: ignore[union-attr]
            if known is None or known.term <= record.term:  # type: ignore[union-attr]
                best[record.index] = record  # type: ignore[union-attr]
        return _with_entries(journal_format.replay(records), best)

    patch.setattr(journal, "replay", by_term)


def stale_suffix_kept_at_recovery(patch: pytest.MonkeyPatch) -> None:
    """An entry that is written again only replaces its own index; the entries after it come back."""

    def keeping(stream: Iterable[JournalItem]) -> Replayed:
        records = list(stream)
        last = {record.index: record for record in _entries_behind_last_base(records)}  # type: ignore[union-attr]
        return _with_entries(journal_format.replay(records), last)

    patch.setattr(journal, "replay", keeping)


def _entries_behind_last_base(records: list[JournalItem]) -> list[JournalItem]:
    start = max((at for at, record in enumerate(records) if isinstance(record, Base)), default=0)
    return [record for record in records[start:] if not isinstance(record, Base | HardState)]


def _with_entries(replayed: Replayed, by_index: dict[int, JournalItem]) -> Replayed:
    entries = [by_index[index] for index in sorted(by_index) if index > replayed.base.base_index]
    return replayed._replace(entries=entries)  # type: ignore[arg-type]


def vote_not_persisted(patch: pytest.MonkeyPatch) -> None:
    def forgetful(stream: Iterable[JournalItem]) -> Replayed:
        replayed = journal_format.replay(stream)
        return replayed._replace(hard_state=replayed.hard_state._replace(vote=NOBODY))

    patch.setattr(journal, "replay", forgetful)


def lease_longer_than_the_election_timeout(patch: pytest.MonkeyPatch) -> None:
    def too_long(self: Lease, duration_ns: int) -> None:
        original(self, 5 * duration_ns)

    original = Lease.__init__
    patch.setattr(Lease, "__init__", too_long)


def lease_without_a_look_at_what_is_applied(patch: pytest.MonkeyPatch) -> None:
    def may_read(self: LeasedReads) -> bool:
        raft, now_ns = self._raft, self._clock.monotonic_ns()
        if self.grants is not None:
            return raft.holds_lease(now_ns)
        return self.lease.holds(
            term=raft.term, applied_index=raft.applied_index, last_index=raft.last_index, now_ns=now_ns
        )

    patch.setattr(LeasedReads, "may_read", may_read)


def follower_reads_before_it_applied_all_it_holds(patch: pytest.MonkeyPatch) -> None:
    def holds(self: FollowerLease, *, term: int, applied_index: int, last_index: int, now_ns: int) -> bool:
        return now_ns < self._until_ns and term == self._term and applied_index >= self._index

    patch.setattr(FollowerLease, "holds", holds)


def commits_do_not_wait_for_lease_holders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RaftNode, "require", lambda self, lease_holders: None)


def forwarded_command_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """A command that is sent again because its answer got lost is decided again."""
    patch.setattr(Controller, "_reply_to", lambda self, command, request: None)


def older_terms_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    def advance_commit(node: Core) -> bool:
        index = committed_index(node.members.voters, lambda voter: node.progress[voter].match)
        return node.log.commit_to(min([index, *(node.progress[holder].match for holder in node.lease_holders)]))

    patch.setattr(appending, "advance_commit", advance_commit)


def snapshot_without_membership(patch: pytest.MonkeyPatch) -> None:
    class Forgetting:
        @staticmethod
        def switch(node: Core, members: object) -> None:
            membership.switch(node, type(node.members)())

    patch.setattr(snapshots, "membership", Forgetting)


def stale_leader_answers_reads(patch: pytest.MonkeyPatch) -> None:
    """A leader confirms a read by itself, without asking whether it still leads."""
    patch.setattr(reads, "_confirm", lambda node, message: reads._answer(node, message, node.log.committed))


def lost_append_never_sent_again(patch: pytest.MonkeyPatch) -> None:
    def deaf(node: Core, message: Message) -> None:
        peer = node.progress.get(message.sender)
        if peer is not None:
            peer.recently_active = True
            reads.on_heartbeat_acknowledged(node, message)

    patch.setitem(core.STEPS[MessageKind.HEARTBEAT_REPLY], Role.LEADER, deaf)
