"""Bugs that replication really had somewhere, as patches: the stories in this folder must catch every one of them.

Each is a function that breaks one rule through pytest's monkeypatch. test_planted_bugs.py runs them.
"""

from __future__ import annotations

from typing import Any

import pytest

from chronik.metadata.decisions import elections
from chronik.metadata.decisions.elections import Elections
from chronik.replication import isr_changes
from chronik.replication.assignment import Replicas
from chronik.replication.fetcher import Fetcher
from chronik.replication.isr_changes import IsrChanges
from chronik.replication.progress import FollowerProgress
from chronik.replication.replica import Replica
from chronik.replication.sessions import FollowerSession
from chronik.storage.log import Log


def follower_asks_for_more_before_its_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offset in its request is then not durable: acknowledged records are lost if two nodes lose power."""

    def settle(self: Fetcher) -> None:
        self._is_scheduled = False
        for log in self._unsettled:
            log.when_durable(log.end_offset)
        self._unsettled.clear()
        if self._link is not None:
            self._send_if_due(self._link)

    monkeypatch.setattr(Fetcher, "_settle", settle)


def leader_counts_itself_before_its_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Replica._commit

    def early(self: Replica) -> None:
        durable, self.log._durable_offset = self.log._durable_offset, self.log.end_offset
        try:
            commit(self)
        finally:
            self.log._durable_offset = durable

    monkeypatch.setattr(Replica, "_commit", early)


def high_watermark_is_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: Replica, *arguments: Any, **named: Any) -> Any:
        appended = original(self, *arguments, **named)
        self.high_watermark = self.log.high_watermark = self.log.end_offset
        return appended

    original = Replica.append
    monkeypatch.setattr(Replica, "append", append)


def truncation_to_the_high_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before KIP-101: a new follower truncates to its own high watermark, which may lag."""
    begin = Replica._begin_epoch

    def cut(self: Replica) -> None:
        if not self.is_leader:
            self.log.truncate_to(self.high_watermark)
        begin(self)

    monkeypatch.setattr(Replica, "_begin_epoch", cut)


def no_truncation_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower's history is not compared: records that only it has stay below the records that it fetches."""

    def compare(self: FollowerSession, progress: FollowerProgress, replica: Replica) -> None:
        if progress.end_offset <= replica.log.end_offset:
            replica.count(progress)

    monkeypatch.setattr(FollowerSession, "_compare", compare)


def in_sync_member_not_counted_while_it_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(self: Replica) -> None:
        others = self._others
        ends = [self.followers[each].end_offset for each in others if each in self.followers]
        self._others = tuple(
            each for each in others if each in self.followers and self.followers[each].end_offset == max(ends)
        )
        try:
            original(self)
        finally:
            self._others = others

    original = Replica._commit
    monkeypatch.setattr(Replica, "_commit", commit)


def new_leader_counts_followers_of_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a follower reported in an earlier epoch may have been truncated since."""
    commit = Replica._commit

    def lax(self: Replica) -> None:
        for progress in self.followers.values():
            progress.counted_epoch = self.state.leader_epoch
        commit(self)

    monkeypatch.setattr(Replica, "_commit", lax)


def members_on_their_way_in_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller may have let them in already, and may elect one of them (KIP-497)."""

    def ask(self: Replica, isr: tuple[int, ...] | None) -> None:
        self.isr_pending = isr

    monkeypatch.setattr(Replica, "ask_for_isr", ask)


def laggard_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def consider(self: Replica, progress: FollowerProgress) -> None:
        self._keeper.caught_up(self, progress)

    monkeypatch.setattr(Replica, "_consider", consider)


def shrinks_take_effect_before_the_controller_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def reckon(self: Replica) -> None:
        members = dict.fromkeys(self.isr_pending or self.state.isr)
        members.pop(self.node_id, None)
        self._others = tuple(members)
        self._commit()

    monkeypatch.setattr(Replica, "_reckon_isr", reckon)


def stale_leader_serves_from_an_image_of_the_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was down believes what its disk says of leaders and in-sync sets, before it has registered."""
    init = Replicas.__init__

    def eager(self: Replicas, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        self._has_begun = True

    monkeypatch.setattr(Replicas, "__init__", eager)


def epoch_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader writes in the epoch of the last one: where histories part cannot be told any more."""

    def append(self: Replica, batch: Any, *arguments: Any, **named: Any) -> Any:
        state = self.state
        self.state = state._replace(leader_epoch=max(0, self.log.epochs.latest - 1, state.leader_epoch - 1))
        self.log.epochs.truncate_end(self.log.end_offset)
        self.state = state._replace(leader_epoch=max(0, self.log.epochs.latest))
        try:
            return original(self, batch, *arguments, **named)
        finally:
            self.state = state

    original = Replica.append
    monkeypatch.setattr(Replica, "append", append)


def controller_elects_whoever_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Elections._first

    def anybody(self: Elections, replicas: Any, eligible: Any) -> int:
        return first(self, replicas, replicas)

    monkeypatch.setattr(elections.Elections, "_first", anybody)


def committed_without_the_eligible(monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-966 relies on a high watermark that does not advance while the ISR is too small."""
    commit = Replica._commit

    def lax(self: Replica) -> None:
        self.is_elr_kept = False
        state, self.state = self.state, self.state._replace(elr=())
        commit(self)
        self.state = state

    monkeypatch.setattr(Replica, "_commit", lax)


def replica_is_told_committed_what_it_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def learn(self: Replica, leader_high_watermark: int, leader_start_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, leader_high_watermark)

    monkeypatch.setattr(Replica, "learn", learn)


def answer_is_lost_and_the_change_taken_for_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that got no answer may hold all the same."""
    submit = IsrChanges._command

    def forget(self: IsrChanges, asked: Any) -> Any:
        command, waiting = submit(self, asked)
        for replica in waiting.values():
            pending, replica.isr_pending = replica.isr_pending, None
            replica._reckon_isr()
            replica.isr_pending = pending
        return command, waiting

    monkeypatch.setattr(isr_changes.IsrChanges, "_command", forget)


def epochs_forget_that_they_were_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Log.truncate_to

    def forgetful(self: Log, offset: int) -> None:
        entries = self.epochs.entries()
        cut(self, offset)
        for epoch, start in entries:
            self.epochs.assign(epoch, start)

    monkeypatch.setattr(Log, "truncate_to", forgetful)


ALL = [
    follower_asks_for_more_before_its_fsync,
    leader_counts_itself_before_its_fsync,
    high_watermark_is_the_end_of_the_log,
    truncation_to_the_high_watermark,
    no_truncation_at_all,
    in_sync_member_not_counted_while_it_is_behind,
    new_leader_counts_followers_of_the_last_epoch,
    members_on_their_way_in_do_not_count,
    laggard_is_let_in,
    shrinks_take_effect_before_the_controller_agrees,
    stale_leader_serves_from_an_image_of_the_past,
    epoch_is_used_again,
    controller_elects_whoever_is_alive,
    committed_without_the_eligible,
    replica_is_told_committed_what_it_does_not_hold,
    answer_is_lost_and_the_change_taken_for_refused,
    epochs_forget_that_they_were_cut,
]
