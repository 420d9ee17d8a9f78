"""Bugs that Raft implementations really had, as patches: the nets in this folder must catch every one of them.

Each is a function that breaks one rule through pytest's monkeypatch. test_planted_bugs.py runs them.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from chronik.raft import appending, core, heartbeats, journal, journal_format, membership, reads, snapshots
from chronik.raft.core import Core
from chronik.raft.journal_format import Base, JournalItem, Replayed
from chronik.raft.messages import NOBODY, PROMISES, HardState, Message, MessageKind
from chronik.raft.quorum import committed_index
from tests.raft import cluster_of_cores


def vote_sent_before_it_is_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "PROMISES", PROMISES - {MessageKind.VOTE_REPLY})


def entries_acknowledged_before_they_are_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "PROMISES", PROMISES - {MessageKind.APPEND_REPLY})


def vote_not_persisted(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(stream: Iterable[JournalItem]) -> Replayed:
        replayed = journal_format.replay(stream)
        return replayed._replace(hard_state=replayed.hard_state._replace(vote=NOBODY))

    _patch_replay(monkeypatch, forgetful)


def older_terms_committed_by_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance_commit(node: Core) -> bool:
        index = committed_index(node.members.voters, lambda voter: node.progress[voter].match)
        return node.log.commit_to(index)

    monkeypatch.setattr(appending, "advance_commit", advance_commit)


def highest_term_wins_at_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """One entry per index all right, but the one with the highest term instead of the last written."""

    def by_term(stream: Iterable[JournalItem]) -> Replayed:
        stream = list(stream)
        start = max((at for at, record in enumerate(stream) if isinstance(record, Base)), default=0)
        best: dict[int, object] = {}
        for record in stream[start:]:
            if not isinstance(record, Base | HardState) and (
                record.index not in best or best[record.index].term <= record.term
            ):
                best[record.index] = record
        replayed = journal_format.replay(stream)
        entries = [best[index] for index in sorted(best) if index > replayed.base.base_index]
        return replayed._replace(entries=entries)

    _patch_replay(monkeypatch, by_term)


def stale_suffix_kept_at_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overwrite replaces its own index only."""

    def keeping(stream: Iterable[JournalItem]) -> Replayed:
        stream = list(stream)
        replayed = journal_format.replay(stream)
        start = max((at for at, record in enumerate(stream) if isinstance(record, Base)), default=0)
        last = {record.index: record for record in stream[start:] if not isinstance(record, Base | HardState)}
        entries = [last[index] for index in sorted(last) if index > replayed.base.base_index]
        return replayed._replace(entries=entries)

    _patch_replay(monkeypatch, keeping)


def snapshot_without_membership(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetting:
        @staticmethod
        def switch(node: Core, members: object) -> None:
            membership.switch(node, type(node.members)())

    monkeypatch.setattr(snapshots, "membership", Forgetting)


def lost_append_never_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(node: Core, message: Message) -> None:
        peer = node.progress.get(message.sender)
        if peer is not None:
            peer.recently_active = True

    monkeypatch.setitem(core.STEPS[MessageKind.HEARTBEAT_REPLY], core.Role.LEADER, deaf)


def stale_leader_answers_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "_confirm", lambda node, message: reads._answer(node, message, node.log.committed))


def votes_for_shorter_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chronik.raft.log.RaftLog.is_behind_or_equal", lambda self, term, index: True)


def follower_believes_the_leaders_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits up to the heartbeat's commit index, although its own log may differ there."""

    def broadcast(node: Core, context: bytes) -> None:
        for peer in node.progress:
            if peer != node.id:
                node.send(MessageKind.HEARTBEAT, peer, commit=node.log.committed, context=context)

    monkeypatch.setattr(heartbeats, "broadcast", broadcast)


def _patch_replay(monkeypatch: pytest.MonkeyPatch, replacement: object) -> None:
    monkeypatch.setattr(cluster_of_cores, "replay", replacement)
    monkeypatch.setattr(journal, "replay", replacement)
