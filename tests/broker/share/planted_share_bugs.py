"""The traps of share groups, each as a patch of the product that falls into it. See `test_share_traps`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from chronik.broker.share import acquisition, reading, share_partition
from chronik.broker.share.acquisition import Acquisition
from chronik.broker.share.runs import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Run, Runs, Span
from chronik.broker.share.sessions import ShareSession, ShareSessions
from chronik.broker.share.share_partition import SharePartition
from chronik.broker.share.share_partitions import SharePartitions
from chronik.coordinator.share.persister import StateBatch

Patch = pytest.MonkeyPatch


def gaps_count_as_done_after_a_failover(patch: Patch) -> None:
    made = Acquisition.__init__

    def init(self: Acquisition, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        made(self, start_offset, batches)
        for run in list(self._runs):
            if run.state is AVAILABLE and run.delivery_count == 0:
                self._runs.change(run.first, run.last, lambda run: run.become(ARCHIVED))
        self._runs.drop_final()

    patch.setattr(Acquisition, "__init__", init)


def the_state_is_read_as_by_nobody(patch: Patch) -> None:
    """Without the leader epoch an older leader may go on writing."""
    load = SharePartition._load

    async def loaded(self: SharePartition) -> None:
        epoch, self.leader_epoch = self.leader_epoch, -1
        try:
            await load(self)
        finally:
            self.leader_epoch = epoch

    patch.setattr(SharePartition, "_load", loaded)


def a_fenced_leader_goes_on(patch: Patch) -> None:
    patch.setattr(share_partition, "FINAL", frozenset())


def what_is_held_can_be_acquired(patch: Patch) -> None:
    def available(self: Acquisition, first: int, last: int) -> Iterable[tuple[Span, int, Span]]:
        for run in self._runs.within(first, last):
            if run.state in (AVAILABLE, ACQUIRED):
                yield Span(max(run.first, first), min(run.last, last)), run.delivery_count, run.batch

    patch.setattr(Acquisition, "_available", available)
    patch.setattr(Acquisition, "next_fetch_offset", property(lambda self: self.start_offset))


def the_count_is_not_written_with_a_release(patch: Patch) -> None:
    def add(batches: list[StateBatch], first: int, last: int, state: int, delivery_count: int) -> None:
        batches.append(StateBatch(first, last, int(state), delivery_count if state >= ACKNOWLEDGED else 0))

    patch.setattr(acquisition, "_add", add)


def counts_of_ended_locks_are_forgotten_with_a_failed_write(patch: Patch) -> None:
    failed = SharePartition._was_not_written

    def was_not_written(self: SharePartition, *args: Any) -> None:
        failed(self, *args)
        self._unwritten = []

    patch.setattr(SharePartition, "_was_not_written", was_not_written)


def the_timer_of_a_lock_releases_what_is_acknowledged(patch: Patch) -> None:
    expire = Acquisition.expire

    def expired(self: Acquisition, now_ns: int, *, delivery_count_max: int) -> list[StateBatch]:
        released = expire(self, now_ns, delivery_count_max=delivery_count_max)
        for run in list(self._runs):
            if run.state is ACKNOWLEDGED:
                self._runs.change(run.first, run.last, lambda run: run.become(AVAILABLE))
                self._may_be_available(run.first)
        return released

    patch.setattr(Acquisition, "expire", expired)


def a_failed_acknowledgement_gives_back_a_lock_that_has_ended(patch: Patch) -> None:
    def roll_back(self: Acquisition, transition: Any, now_ns: int, *, delivery_count_max: int) -> list[StateBatch]:
        for span in self._under_way(transition):

            def back(run: Run) -> None:
                run.target, run.transition, run.lock_ends_ns = run.state, None, 2**62

            self._runs.change(*span, back)
        return []

    patch.setattr(Acquisition, "roll_back", roll_back)


def the_start_moves_over_what_is_available(patch: Patch) -> None:
    def drop_final(self: Runs) -> None:
        while self._runs and (self._runs[0].is_final or self._runs[0].state is AVAILABLE):
            self.start = self._runs.pop(0).last + 1

    patch.setattr(Runs, "drop_final", drop_final)


def the_start_moves_before_it_is_written(patch: Patch) -> None:
    patch.setattr(Run, "is_final", property(lambda self: self.target >= ACKNOWLEDGED))


def what_is_not_committed_is_read(patch: Patch) -> None:
    patch.setattr(SharePartition, "end_of_reading", property(lambda self: self.replica.log.end_offset))


def aborted_records_are_delivered(patch: Patch) -> None:
    patch.setattr(reading, "aborted_spans", lambda batches, transactions: [])


def open_transactions_are_read(patch: Patch) -> None:
    patch.setattr(SharePartition, "end_of_reading", property(lambda self: self.replica.high_watermark))


def the_start_of_the_log_is_not_noticed(patch: Patch) -> None:
    patch.setattr(SharePartition, "_begin_at_log_start", lambda self: None)


def a_closed_session_leaves_its_records_locked(patch: Patch) -> None:
    def left(self: SharePartitions, session: ShareSession) -> list[Any]:
        return []

    patch.setattr(SharePartitions, "left", left)


def a_lost_connection_leaves_its_session_open(patch: Patch) -> None:
    patch.setattr(ShareSessions, "_lost", lambda self, session: None)
