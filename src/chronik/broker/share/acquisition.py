"""The acquisition of records of one share partition: who holds which record, for how long, and what became of it.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                     |--reject, gap--> ARCHIVED
        |                     |--release, session closed, lock ran out: delivered too often--> ARCHIVED
        '---------------------'                 otherwise: back to AVAILABLE

Pure: no clock, no log, no share coordinator. Times are the caller's, and so is the writing: an acknowledgement begins
a transition, which the caller writes, and then completes or rolls back. Until then the record stays ACQUIRED, no
other member can acknowledge it, and the end of its lock waits for the outcome.

Invariants: a record has one holder at most. The start moves only over what is acknowledged or archived and written, and
over what the log has lost. An offset between start and end that nothing is known of, as after a failover, is AVAILABLE
with a delivery count of 0: it is fetched again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from chronik.broker.share.choosing import RECORD_LIMIT, Choice, choose_delivered, choose_new, end_of_batch
from chronik.broker.share.runs import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    RecordState,
    Run,
    Runs,
    Span,
    Transition,
)
from chronik.coordinator.share.persister import StateBatch
from chronik.runtime.invariants import broken
from chronik.wire.error_codes import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # types of acknowledgements
TARGETS: Final = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
DELIVERY_COUNT_MAX: Final = 2**15 - 1  # of what the protocol can say


class Acknowledgement(NamedTuple):
    """`types` has one for each offset, or one for all."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Written(Transition):
    """What the caller has to write for a transition."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []


class Acquisition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """`batches` are in order and do not overlap, as the share coordinator keeps them."""
        self._runs = Runs(start_offset)
        self._none_available_before = start_offset  # a lower bound of the first available record
        for batch in batches:
            first, last = max(batch.first_offset, self._runs.end), batch.last_offset
            if last < first:
                continue
            if first > self._runs.end:
                self._runs.append(Run(Span(self._runs.end, first - 1), AVAILABLE, 0))
            self._runs.append(Run(Span(first, last), RecordState(batch.delivery_state), batch.delivery_count))
        self._runs.drop_final()

    @property
    def start_offset(self) -> int:
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """One after the last record that was ever acquired."""
        return self._runs.end

    @property
    def runs(self) -> Iterable[Run]:
        return self._runs

    @property
    def next_fetch_offset(self) -> int:
        """The first record that can be acquired, if the log has it."""
        for run in self._runs.within(self._none_available_before, self._runs.end):
            if run.state is AVAILABLE:
                self._none_available_before = run.first
                return run.first
        self._none_available_before = self._runs.end
        return self._runs.end

    @property
    def is_idle(self) -> bool:
        """Whether no member holds a record."""
        return not any(run.state is ACQUIRED for run in self._runs)

    @property
    def next_lock_end_ns(self) -> int | None:
        """When the first lock ends whose record is not about to change."""
        ends = [run.lock_ends_ns for run in self._runs if run.state is ACQUIRED and run.transition is None]
        return min(ends, default=None)

    @property
    def complete_count(self) -> int:
        """Records from the start on that are done with, or will be once what has begun is written."""
        return sum(run.size for run in self._runs if run.will_be_final)

    @property
    def in_flight_count(self) -> int:
        return self._runs.end - self._runs.start

    def can_acquire(self, locks_max: int) -> bool:
        return self.next_fetch_offset < self.end_offset or self.in_flight_count < locks_max

    # --- acquiring

    def acquire(
        self, batches: Sequence[Span], member_id: str, choice: Choice, lock_ends_ns: int
    ) -> tuple[list[Acquired], bool]:
        """`batches` are those that the log returned for `choice.fetch_offset`, the next fetch offset, by their offsets.
        False: nothing more may go with these records, because one of them may be poison.

        Offsets that the log skips are gone: before the first batch they are archived here, behind it they are acquired
        and the client reports them as gaps.
        """
        self._archive_missing(choice.fetch_offset, batches[0].first)
        at, last = max(batches[0].first, self.start_offset), batches[-1].last
        if last < at:
            return [], True
        known = list(self._available(at, min(last, self.end_offset - 1)))
        delivered, is_isolated = choose_delivered(known, batches, choice)
        acquired = [self._deliver(each.span, each.batch, member_id, lock_ends_ns) for each in delivered]
        left = choice.records_max - sum(each.span.size for each in delivered)
        first_new = max(self.end_offset, at)
        records_max = min(left, choice.locks_max - (first_new - self.start_offset))
        if not is_isolated and records_max > 0 and first_new <= last:
            if first_new > self.end_offset:
                self._archive_gap(first_new - 1)
            for span in choose_new(Span(first_new, last), batches, choice, records_max):
                self._runs.append(Run(span, AVAILABLE, 0))
                acquired.append(self._deliver(span, span, member_id, lock_ends_ns))
            if choice.mode == RECORD_LIMIT:
                self._append_rest(first_new, min(end_of_batch(batches, self.end_offset - 1), last))
        self._runs.drop_final()
        return acquired, not is_isolated

    def _append_rest(self, first: int, last: int) -> None:
        """What a limit left of a batch stays a part of it."""
        if last >= self.end_offset:
            rest = Span(self.end_offset, last)
            self._runs.append(Run(rest, AVAILABLE, 0, Span(first, last)))
            self._may_be_available(rest.first)

    def _available(self, first: int, last: int) -> Iterable[tuple[Span, int, Span]]:
        """What can be acquired in this range: offsets, delivery count, and the batch that it was acquired with."""
        for run in self._runs.within(first, last):
            if run.state is AVAILABLE:
                yield Span(max(run.first, first), min(run.last, last)), run.delivery_count, run.batch

    def _deliver(self, span: Span, batch: Span, member_id: str, lock_ends_ns: int) -> Acquired:
        count = 0

        def take(run: Run) -> None:
            nonlocal count
            if run.state is not AVAILABLE:
                broken("31 a record has one holder", run=run, member=member_id)
            run.state = run.target = ACQUIRED
            count = run.delivery_count = min(run.delivery_count + 1, DELIVERY_COUNT_MAX)
            run.member_id, run.lock_ends_ns, run.batch = member_id, lock_ends_ns, batch

        self._runs.change(*span, take)
        return Acquired(*span, count)

    def _archive_missing(self, fetch_offset: int, first_in_log: int) -> None:
        """Records that compaction has removed since they were found available."""
        for span, _, _ in list(self._available(fetch_offset, min(first_in_log, self.end_offset) - 1)):
            self._runs.change(*span, lambda run: run.become(ARCHIVED))
        self._runs.drop_final()

    def _archive_gap(self, last: int) -> None:
        if self._runs.start == self._runs.end:
            self._runs.drop_before(last + 1)
        else:
            self._runs.append(Run(Span(self._runs.end, last), ARCHIVED, 0))

    def archive_aborted(self, spans: Iterable[Span], acquired: Iterable[Acquired]) -> list[Acquired]:
        """What is left of the records just acquired without those of aborted transactions, which are archived."""
        left = list(acquired)
        for span in spans:
            parts = []
            for each in left:
                first, last = max(span.first, each.first_offset), min(span.last, each.last_offset)
                if first > last:
                    parts.append(each)
                    continue
                self._runs.change(first, last, lambda run: run.become(ARCHIVED))
                if each.first_offset < first:
                    parts.append(each._replace(last_offset=first - 1))
                if last < each.last_offset:
                    parts.append(each._replace(first_offset=last + 1))
            left = parts
        self._runs.drop_final()
        return left

    # --- acknowledging

    def acknowledge(
        self,
        member_id: str,
        acknowledgements: Sequence[Acknowledgement],
        *,
        delivery_count_max: int,
        renewed_until_ns: int | None = None,
    ) -> Written | ErrorCode:
        """Begins what all of these ask for, or nothing. Without `renewed_until_ns` locks cannot be renewed.

        What lies before the start was decided earlier, and is passed over in silence.
        """
        wanted: list[tuple[Span, int]] = []
        checked_to = self.start_offset - 1
        for each in acknowledgements:
            if each.last_offset < self.start_offset:
                continue
            refusal = self._refusal(member_id, max(each.first_offset, checked_to + 1), each.last_offset)
            if each.first_offset <= checked_to and checked_to >= self.start_offset:
                refusal = ErrorCode.INVALID_RECORD_STATE  # twice in one request
            if refusal is not None:
                return refusal
            checked_to = each.last_offset
            for span, kind in _by_type(each, self.start_offset):
                if kind == RENEW and renewed_until_ns is None:
                    return ErrorCode.INVALID_RECORD_STATE
                wanted.append((span, kind))
        transition = Written()
        for span, kind in wanted:
            if kind == RENEW:
                self._runs.change(*span, lambda run: setattr(run, "lock_ends_ns", renewed_until_ns))
            else:
                self._begin(transition, span, TARGETS[kind], delivery_count_max)
        return transition

    def _refusal(self, member_id: str, first: int, last: int) -> ErrorCode | None:
        if not len(self._runs):
            return ErrorCode.INVALID_RECORD_STATE
        if last >= self.end_offset:
            return ErrorCode.INVALID_REQUEST
        for run in self._runs.within(first, last):
            if run.state is not ACQUIRED or run.transition is not None or run.member_id != member_id:
                return ErrorCode.INVALID_RECORD_STATE
        return None

    def release(self, member_id: str, *, delivery_count_max: int) -> Written:
        """Begins to release all that this member holds."""
        transition = Written()
        held = [
            Span(run.first, run.last)
            for run in self._runs
            if run.state is ACQUIRED and run.member_id == member_id and run.transition is None
        ]
        for span in held:
            self._begin(transition, span, AVAILABLE, delivery_count_max)
        return transition

    def _begin(self, transition: Written, span: Span, target: RecordState, delivery_count_max: int) -> None:
        def begin(run: Run) -> None:
            run.transition = transition
            run.target = ARCHIVED if target is AVAILABLE and run.delivery_count >= delivery_count_max else target
            _add(transition.batches, run.first, run.last, run.target, run.delivery_count)

        self._runs.change(*span, begin)

    def complete(self, transition: Written) -> None:
        """It is written."""
        for span in self._under_way(transition):
            self._runs.change(*span, lambda run: run.become(run.target))
            self._may_be_available(span.first)
        self._runs.drop_final()

    def roll_back(self, transition: Written, now_ns: int, *, delivery_count_max: int) -> list[StateBatch]:
        """The write failed: members hold the records as before. Records whose lock has ended meanwhile are released,
        and returned to be written."""
        for span in self._under_way(transition):

            def back(run: Run) -> None:
                run.target, run.transition = run.state, None

            self._runs.change(*span, back)
        return self.expire(now_ns, delivery_count_max=delivery_count_max)

    def _under_way(self, transition: Written) -> list[Span]:
        """Parts may be gone because the log has lost them."""
        return [
            Span(run.first, run.last)
            for batch in transition.batches
            for run in self._runs.within(batch.first_offset, batch.last_offset)
            if run.transition is transition
        ]

    # --- what nobody asks for

    def expire(self, now_ns: int, *, delivery_count_max: int) -> list[StateBatch]:
        """Releases records whose lock has ended; returns what has to be written."""
        ended = [
            Span(run.first, run.last)
            for run in self._runs
            if run.state is ACQUIRED and run.transition is None and run.lock_ends_ns <= now_ns
        ]
        released: list[StateBatch] = []

        def release(run: Run) -> None:
            run.become(ARCHIVED if run.delivery_count >= delivery_count_max else AVAILABLE)
            _add(released, run.first, run.last, run.state, run.delivery_count)

        for span in ended:
            self._runs.change(*span, release)
            self._may_be_available(span.first)
        self._runs.drop_final()
        return released

    def log_begins_at(self, offset: int) -> None:
        """Records before it are gone, also for members that hold them."""
        self._runs.drop_before(offset)
        self._runs.drop_final()

    def _may_be_available(self, offset: int) -> None:
        self._none_available_before = min(self._none_available_before, offset)


def _add(batches: list[StateBatch], first: int, last: int, state: RecordState, delivery_count: int) -> None:
    if batches:
        before = batches[-1]
        if (before.last_offset + 1, *before[2:]) == (first, state, delivery_count):
            batches[-1] = before._replace(last_offset=last)
            return
    batches.append(StateBatch(first, last, int(state), delivery_count))


def _by_type(each: Acknowledgement, start_offset: int) -> Iterable[tuple[Span, int]]:
    """The ranges of equal type, without what lies before the start."""
    first = max(each.first_offset, start_offset)
    if len(each.types) == 1:
        yield Span(first, each.last_offset), each.types[0]
        return
    while first <= each.last_offset:
        kind = each.types[first - each.first_offset]
        last = first
        while last < each.last_offset and each.types[last + 1 - each.first_offset] == kind:
            last += 1
        yield Span(first, last), kind
        first = last + 1
