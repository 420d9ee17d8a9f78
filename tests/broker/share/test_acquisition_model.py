"""The acquisition of records, against a model that keeps one entry for each offset.

The product keeps runs of equal records, splits and joins them. The model does none of this, so it shows whether an
offset is ever lost, held twice, or counted wrong, whatever members, clocks, logs and the share coordinator do.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chronik.broker.share.acquisition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Acquisition,
    Written,
)
from chronik.broker.share.choosing import BATCH_OPTIMIZED, RECORD_LIMIT, Choice
from chronik.broker.share.runs import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, RecordState, Span, Transition
from chronik.coordinator.share.persister import StateBatch
from chronik.wire.error_codes import ErrorCode

LOCK_NS, COUNT_MAX, LOCKS_MAX = 30, 3, 40
MEMBERS = st.sampled_from(["a", "b", "c"])
TARGETS = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}


@dataclass
class Record:
    state: RecordState
    count: int
    member: str = ""
    lock_ends_ns: int = 0
    transition: Transition | None = None
    target: RecordState | None = None

    def free(self, state: RecordState) -> None:
        self.state, self.member, self.lock_ends_ns, self.transition, self.target = state, "", 0, None, None

    def released(self) -> RecordState:
        return ARCHIVED if self.count >= COUNT_MAX else AVAILABLE


class AcquisitionMachine(RuleBasedStateMachine):
    @initialize(start=st.integers(0, 20), parts=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 4)), max_size=4))
    def load(self, start: int, parts: list[tuple[int, int]]) -> None:
        """Batches with gaps between them, as a new leader reads them."""
        self.records: dict[int, Record] = {}
        self.now_ns, self.log_start = 0, 0
        self.under_way: list[Written] = []
        batches, at = [], start
        for number, (length, gap) in enumerate(parts):
            for offset in range(at, at + gap):
                self.records[offset] = Record(AVAILABLE, 0)
            at += gap
            state = (AVAILABLE, ACKNOWLEDGED, ARCHIVED)[number % 3]
            batches.append(StateBatch(at, at + length - 1, state, 1 + number % 2))
            for offset in range(at, at + length):
                self.records[offset] = Record(state, 1 + number % 2)
            at += length
        self.start, self.end = start, at
        self.subject = Acquisition(start, batches)
        self._advance()

    def _advance(self) -> None:
        while self.start < self.end and self.records[self.start].state >= ACKNOWLEDGED:
            del self.records[self.start]
            self.start += 1

    def _next_fetch_offset(self) -> int:
        return next((o for o in range(self.start, self.end) if self.records[o].state is AVAILABLE), self.end)

    @rule(
        member=MEMBERS,
        mode=st.sampled_from([BATCH_OPTIMIZED, RECORD_LIMIT]),
        records_max=st.integers(1, 12),
        batch_size=st.integers(1, 5),
        lengths=st.lists(st.tuples(st.integers(1, 7), st.sampled_from([0, 0, 0, 2])), min_size=1, max_size=4),
        begins_before=st.integers(0, 3),
    )
    def acquire(
        self,
        member: str,
        mode: int,
        records_max: int,
        batch_size: int,
        lengths: list[tuple[int, int]],
        begins_before: int,
    ) -> None:
        """The log returns the batch that holds the offset and those behind it; compaction may have left holes."""
        offset = self._next_fetch_offset()
        if not self.subject.can_acquire(LOCKS_MAX):
            return
        at, batches = offset - begins_before, []
        for number, (length, hole) in enumerate(lengths):
            at += hole if number or not begins_before else 0
            last = max(at + length - 1, offset) if number == 0 else at + length - 1
            batches.append(Span(at, last))
            at = last + 1
        choice = Choice(offset, records_max, mode, batch_size, COUNT_MAX, LOCKS_MAX)
        before = {o: r.count for o, r in self.records.items() if r.state is AVAILABLE}
        room = LOCKS_MAX - (self.end - self.start)
        acquired, _ = self.subject.acquire(batches, member, choice, self.now_ns + LOCK_NS)
        first = max(batches[0].first, self.start)
        for gone in range(offset, min(batches[0].first, self.end)):
            if self.records[gone].state is AVAILABLE:
                self.records[gone].free(ARCHIVED)
        new = [each for each in acquired if each.last_offset >= self.end]
        if new:
            for gone in range(self.end, new[0].first_offset):
                self.records[gone] = Record(ARCHIVED, 0)
            last = new[-1].last_offset
            if mode == RECORD_LIMIT:  # what is left of the batch is known from now on
                last = next((each.last for each in batches if each.first <= last <= each.last), last)
            for fresh in range(new[0].first_offset, last + 1):
                self.records[fresh] = Record(AVAILABLE, 0)
            self.end = last + 1
        taken = 0
        for each in acquired:
            for o in range(each.first_offset, each.last_offset + 1):
                record = self.records[o]
                assert first <= o <= batches[-1].last
                assert record.state is AVAILABLE
                record.state, record.member, record.lock_ends_ns = ACQUIRED, member, self.now_ns + LOCK_NS
                record.count += 1
                assert record.count == each.delivery_count <= COUNT_MAX
                taken += 1
                if record.count == COUNT_MAX:
                    assert acquired == [each], "the last attempt goes alone"
                    assert each.first_offset == each.last_offset, "the last attempt goes alone"
        if mode == RECORD_LIMIT:
            assert taken <= records_max
        if any(first <= o <= batches[-1].last for o in before) or (room > 0 and batches[-1].last >= self.end):
            assert taken, "what can be acquired is"
        self._advance()

    @precondition(lambda self: self.end > self.start)
    @rule(member=MEMBERS, data=st.data(), is_single=st.booleans(), parts=st.integers(1, 2))
    def acknowledge(self, member: str, data: st.DataObject, is_single: bool, parts: int) -> None:
        wanted, at = [], max(0, self.start - 2)
        for _ in range(parts):
            first = data.draw(st.integers(at, max(at, self.end)))
            last = data.draw(st.integers(first, max(first, min(first + 8, self.end))))
            kinds = st.sampled_from([GAP, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW])
            types = [data.draw(kinds)] if is_single else [data.draw(kinds) for _ in range(first, last + 1)]
            wanted.append(Acknowledgement(first, last, types))
            at = last
        until = self.now_ns + LOCK_NS
        begun = self.subject.acknowledge(member, wanted, delivery_count_max=COUNT_MAX, renewed_until_ns=until)
        asked: dict[int, int] = {}
        is_wrong = False
        for each in wanted:
            for index, o in enumerate(range(each.first_offset, each.last_offset + 1)):
                if each.last_offset < self.start or o < self.start:
                    continue
                kind = each.types[0] if len(each.types) == 1 else each.types[index]
                record = self.records.get(o)
                is_held = record is not None and (record.state, record.member) == (ACQUIRED, member)
                is_wrong |= not is_held or record is None or record.transition is not None or o in asked
                asked[o] = kind
        assert isinstance(begun, ErrorCode) is is_wrong
        if isinstance(begun, ErrorCode):
            return
        for o, kind in asked.items():
            record = self.records[o]
            if kind == RENEW:
                record.lock_ends_ns = until
            else:
                target = TARGETS[kind]
                record.transition, record.target = begun, record.released() if target is AVAILABLE else target
        self._began(begun)

    @rule(member=MEMBERS)
    def close_session(self, member: str) -> None:
        begun = self.subject.release(member, delivery_count_max=COUNT_MAX)
        for record in self.records.values():
            if (record.state, record.member, record.transition) == (ACQUIRED, member, None):
                record.transition, record.target = begun, record.released()
        self._began(begun)

    def _began(self, begun: Written) -> None:
        told = {o: (s, c) for first, last, s, c in begun.batches for o in range(first, last + 1)}
        assert told == {o: (r.target, r.count) for o, r in self.records.items() if r.transition is begun}
        if begun.batches:
            self.under_way.append(begun)

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def is_written(self, data: st.DataObject) -> None:
        written = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        self.subject.complete(written)
        for record in self.records.values():
            if record.transition is written:
                assert record.target is not None
                record.free(record.target)
        self._advance()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def is_not_written(self, data: st.DataObject) -> None:
        failed = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        for record in self.records.values():
            if record.transition is failed:
                record.transition = record.target = None
        self._compare_released(self.subject.roll_back(failed, self.now_ns, delivery_count_max=COUNT_MAX))

    @rule(passed_ns=st.integers(0, 40))
    def time_passes(self, passed_ns: int) -> None:
        self.now_ns += passed_ns
        self._compare_released(self.subject.expire(self.now_ns, delivery_count_max=COUNT_MAX))

    def _compare_released(self, told: list[StateBatch]) -> None:
        released = {}
        for o, record in self.records.items():
            is_held = record.state is ACQUIRED and record.transition is None
            if is_held and record.lock_ends_ns <= self.now_ns:
                record.free(record.released())
                released[o] = (record.state, record.count)
        assert {o: (s, c) for first, last, s, c in told for o in range(first, last + 1)} == released
        self._advance()

    @rule(more=st.integers(1, 15))
    def log_start_moves(self, more: int) -> None:
        offset = self.log_start = max(self.log_start, self.start) + more
        self.subject.log_begins_at(offset)
        self.records = {o: record for o, record in self.records.items() if o >= offset}
        self.start, self.end = max(self.start, offset), max(self.end, offset)
        self._advance()

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "subject"):
            return
        subject = self.subject
        assert (subject.start_offset, subject.end_offset) == (self.start, self.end)
        told = {
            o: Record(
                r.state, r.delivery_count, r.member_id, r.lock_ends_ns, r.transition, r.target if r.transition else None
            )
            for r in subject.runs
            for o in range(r.first, r.last + 1)
        }
        assert told == self.records
        assert subject.next_fetch_offset == self._next_fetch_offset()
        states = [r.target if r.transition else r.state for r in self.records.values()]
        assert subject.complete_count == sum(state is not None and state >= ACKNOWLEDGED for state in states)
        held = [r.lock_ends_ns for r in self.records.values() if r.state is ACQUIRED and r.transition is None]
        assert subject.next_lock_end_ns == min(held, default=None)
        runs = list(subject.runs)
        assert not any(one.is_like(other) for one, other in pairwise(runs)), "equal runs are joined"


TestAcquisition = AcquisitionMachine.TestCase
TestAcquisition.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
