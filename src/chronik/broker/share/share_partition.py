"""One share partition on the leader of its partition: records, their state at the share coordinator, and lock timers.

Loaded when a member first fetches, and ended when this node leads the partition no longer, or when the share
coordinator says that another leader has taken over. A partition that has ended serves nothing; the next fetch makes
another one, which loads what was written.

One write is under way at most. What begins meanwhile waits, and goes in the next write together. A client hears of its
acknowledgement when it is written. The end of a lock does not wait for anything: the record is available at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol

from chronik.broker.apis.list_offsets import find_offset
from chronik.broker.share.acquisition import Acknowledgement, Acquired, Acquisition, Written
from chronik.broker.share.choosing import Choice
from chronik.broker.share.runs import Span
from chronik.broker.share.unwritten import latest
from chronik.coordinator.groups.share.settings import ResetStrategy, ShareGroupSettings
from chronik.coordinator.share.persister import UNKNOWN_OFFSET, SharePartitionKey, ShareState, StateBatch
from chronik.replication.errors import NotYetAvailable
from chronik.replication.replica import Replica
from chronik.runtime.interfaces import Clock, Lane
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST

log = logging.getLogger("chronik.broker.share")

FENCED: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.FENCED_STATE_EPOCH})
TOLD_AS: Final = {
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
FINAL: Final = FENCED | {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class States(Protocol):
    """The part of a persister that leaders use."""

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode: ...

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode: ...


class Parts(NamedTuple):
    """What share partitions are made of."""

    persister: States
    settings: Callable[[str], ShareGroupSettings]  # of a group, as they are now
    clock: Clock
    lane: Lane  # for batches that are looked into
    start: Callable[[str, Coroutine[Any, Any, None]], object]  # runs a coroutine as a task of the node


class Watcher(Protocol):
    def __call__(self, partition: SharePartition, /) -> None: ...


class _Change(NamedTuple):
    """What waits to be written. Without a transition it has happened already."""

    batches: Sequence[StateBatch]
    transition: Written | None = None
    written: asyncio.Future[ErrorCode] | None = None


class SharePartition:
    """`error` is why it has ended. `ended` is called once, when it has; `went_idle` when `is_idle` becomes true."""

    def __init__(
        self,
        key: SharePartitionKey,
        replica: Replica,
        parts: Parts,
        *,
        ended: Callable[[SharePartition], None],
        went_idle: Callable[[SharePartition], None],
    ) -> None:
        self.key, self.replica = key, replica
        self.records: Acquisition | None = None  # None until it is loaded
        self.error: ErrorCode | None = None
        self.leader_epoch = self._seen_epoch = replica.leader_epoch
        self._state_epoch = 0
        self._parts, self._ended, self._went_idle = parts, ended, went_idle
        self._watchers: dict[Watcher, None] = {}
        self._queue: list[_Change] = []
        self._unwritten: list[StateBatch] = []  # what ended locks changed, if its write failed: the next one has it
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = 0
        self._moved = asyncio.Event()  # the replica has, while the start is looked for
        replica.watch(self._replica_moved)
        parts.start(f"load share partition {self.name}", self._load())

    @property
    def name(self) -> str:
        return f"{self.key.group_id} of {self.replica.name}"

    @property
    def settings(self) -> ShareGroupSettings:
        return self._parts.settings(self.key.group_id)

    @property
    def is_idle(self) -> bool:
        """Whether ending it now loses nothing that is not written."""
        return not self._is_writing and (self.records is None or self.records.is_idle)

    @property
    def is_committed_only(self) -> bool:
        return self.settings.isolation_level == READ_COMMITTED

    @property
    def end_of_reading(self) -> int:
        """Members get nothing from here on: it may still be lost, or aborted."""
        return self.replica.last_stable_offset if self.is_committed_only else self.replica.high_watermark

    # --- beginning and end

    async def _load(self) -> None:
        persister, key = self._parts.persister, self.key
        state = await persister.read(key, self.leader_epoch)
        if not isinstance(state, ShareState):
            return self.end(state)
        self._state_epoch, start_offset = state.state_epoch, state.start_offset
        if start_offset == UNKNOWN_OFFSET:
            found = await self._first_offset()
            if found is None or self.error is not None:
                return None
            # Written before a record is delivered: the next leader must not begin further on.
            error = await persister.write(key, self.leader_epoch, self._state_epoch, found, 0, [])
            if error:
                return self.end(error)
            start_offset = found
        if self.error is None:
            self.records = Acquisition(start_offset, state.batches)
            self._begin_at_log_start()
            self.wake()
        return None

    async def _first_offset(self) -> int | None:
        """As the group's share.auto.offset.reset says. None if it ends meanwhile."""
        reset, clock = self.settings.offset_reset, self._parts.clock
        spec = {ResetStrategy.EARLIEST: EARLIEST, ResetStrategy.LATEST: LATEST}.get(reset.strategy)
        if spec is None:
            spec = max(0, clock.wall_ms() - reset.duration_ms)
        while self.error is None:
            self._moved.clear()
            try:
                offset = (await find_offset(self.replica, spec, self._parts.lane, committed_only=False))[0]
                if offset < 0:  # no record is so young
                    offset = (await find_offset(self.replica, LATEST, self._parts.lane, committed_only=False))[0]
            except NotYetAvailable:
                await self._moved.wait()
            else:
                return offset
        return None

    def end(self, error: ErrorCode) -> None:
        """`error` as the share coordinator says it."""
        if self.error is not None:
            return
        self.error = TOLD_AS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)
        if error in FENCED:
            log.info(
                "share partition %s ends here: another leader or another state took over (%s)", self.name, error.name
            )
        self.replica.unwatch(self._replica_moved)
        if self._timer is not None:
            self._timer.cancel()
        queue, self._queue = self._queue, []
        for change in queue:
            _tell(change, self.error)
        self._moved.set()
        self._ended(self)
        self.wake()

    def _replica_moved(self, replica: Replica) -> None:
        """More is committed, or another node leads. Led here again right away, nobody can have led in between."""
        is_led = replica.is_leader and not replica.is_gone and replica.leader_epoch <= self._seen_epoch + 1
        self._seen_epoch = replica.leader_epoch
        if not is_led:
            return self.end(ErrorCode.FENCED_LEADER_EPOCH)
        self._moved.set()
        self._wake_for_more()
        return None

    # --- waiting

    def watch(self, wake: Watcher) -> None:
        """Calls `wake` whenever more may be acquired, or when this partition ends, until `unwatch`."""
        self._watchers[wake] = None

    def unwatch(self, wake: Watcher) -> None:
        self._watchers.pop(wake, None)

    def wake(self) -> None:
        for wake in list(self._watchers):
            wake(self)

    def _wake_for_more(self) -> None:
        """If there is something to acquire. Most acknowledgements only make room, and there is room already."""
        if self._watchers:
            offset = self.next_fetch_offset(self.settings.record_locks_max)
            if offset is not None and offset < self.end_of_reading:
                self.wake()

    # --- records

    def next_fetch_offset(self, locks_max: int) -> int | None:
        """None: as many records are in flight as may be, or it is not loaded."""
        if self.records is None or self.error is not None:
            return None
        self._begin_at_log_start()
        return self.records.next_fetch_offset if self.records.can_acquire(locks_max) else None

    def _begin_at_log_start(self) -> None:
        if self.records is not None and self.records.start_offset < self.replica.log.start_offset:
            self.records.log_begins_at(self.replica.log.start_offset)

    def acquire(
        self, batches: Sequence[Span], aborted: Sequence[Span], member_id: str, choice: Choice
    ) -> tuple[list[Acquired], bool]:
        """As `Acquisition.acquire`, without the batches of aborted transactions."""
        assert self.records is not None
        lock_ends_ns = self._parts.clock.monotonic_ns() + self.settings.record_lock_duration_ms * NS_PER_MS
        acquired, may_have_more = self.records.acquire(batches, member_id, choice, lock_ends_ns)
        if aborted:
            acquired = self.records.archive_aborted(aborted, acquired)
        if acquired:
            self._expire_at(lock_ends_ns)
        return acquired, may_have_more

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> ErrorCode | asyncio.Future[ErrorCode]:
        if self.error is not None or self.records is None:
            return self.error or ErrorCode.INVALID_RECORD_STATE
        settings = self.settings
        lock_ends_ns = self._parts.clock.monotonic_ns() + settings.record_lock_duration_ms * NS_PER_MS
        self._begin_at_log_start()
        begun = self.records.acknowledge(
            member_id,
            acknowledgements,
            delivery_count_max=settings.delivery_count_limit,
            renewed_until_ns=lock_ends_ns if settings.renews_locks else None,
        )
        return begun if isinstance(begun, ErrorCode) else self._write(begun)

    def release(self, member_id: str) -> ErrorCode | asyncio.Future[ErrorCode]:
        """All that this member holds."""
        if self.error is not None or self.records is None:
            return self.error or ErrorCode.NONE
        return self._write(self.records.release(member_id, delivery_count_max=self.settings.delivery_count_limit))

    # --- locks

    def _expire_at(self, time_ns: int) -> None:
        """One timer for all locks. It may ring for one that was given back: then it is set for the next."""
        if self._timer is not None:
            if self._timer_ns <= time_ns:
                return
            self._timer.cancel()
        self._timer_ns = time_ns
        wait_ns = max(0, time_ns - self._parts.clock.monotonic_ns())
        self._timer = asyncio.get_running_loop().call_later(wait_ns / 1_000_000_000, self._expire)

    def _expire(self) -> None:
        self._timer = None
        if self.records is None or self.error is not None:
            return
        now_ns = self._parts.clock.monotonic_ns()
        released = self.records.expire(now_ns, delivery_count_max=self.settings.delivery_count_limit)
        next_ns = self.records.next_lock_end_ns
        if next_ns is not None:
            self._expire_at(next_ns)
        if released:
            self._queue_write(_Change(released))
            self._wake_for_more()

    # --- writing

    def _write(self, transition: Written) -> ErrorCode | asyncio.Future[ErrorCode]:
        if not transition.batches:
            return ErrorCode.NONE
        written: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self._queue_write(_Change(transition.batches, transition, written))
        return written

    def _queue_write(self, change: _Change) -> None:
        self._queue.append(change)
        if not self._is_writing:
            self._is_writing = True
            self._parts.start(f"write share partition {self.name}", self._write_queue())

    async def _write_queue(self) -> None:
        changes: list[_Change] = []
        try:
            while self._queue and self.error is None:
                changes, self._queue = self._queue, []
                assert self.records is not None
                error = await self._parts.persister.write(
                    self.key,
                    self.leader_epoch,
                    self._state_epoch,
                    self.records.start_offset,
                    self.records.complete_count,
                    latest([self._unwritten, *(change.batches for change in changes)]),
                )
                self._wrote(changes, error)
        finally:
            self._is_writing = False
            for change in changes:  # not told yet: the node is stopping
                _tell(change, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self.error is None and self.is_idle:
            self._went_idle(self)

    def _wrote(self, changes: list[_Change], error: ErrorCode) -> None:
        assert self.records is not None
        if self.error is None and not error:
            self._unwritten = []
            for change in changes:
                if change.transition is not None:
                    self.records.complete(change.transition)
        elif self.error is None and error in FINAL:
            self.end(error)
        elif self.error is None:
            self._was_not_written(self.records, changes, error)
        told = self.error or (TOLD_AS.get(error, ErrorCode.UNKNOWN_SERVER_ERROR) if error else error)
        for change in changes:
            _tell(change, told)
        self._wake_for_more()

    def _was_not_written(self, records: Acquisition, changes: list[_Change], error: ErrorCode) -> None:
        log.warning("the state of share partition %s was not written: %s", self.name, error.name)
        count_max = self.settings.delivery_count_limit
        now_ns = self._parts.clock.monotonic_ns()
        released: list[Sequence[StateBatch]] = [self._unwritten]
        released += [change.batches for change in changes if change.transition is None]
        for change in changes:
            if change.transition is not None:
                released.append(records.roll_back(change.transition, now_ns, delivery_count_max=count_max))
        # How often a record was delivered must not be forgotten.
        self._unwritten = latest(released)
        next_ns = records.next_lock_end_ns
        if next_ns is not None:
            self._expire_at(next_ns)


def _tell(change: _Change, error: ErrorCode) -> None:
    if change.written is not None and not change.written.done():
        change.written.set_result(error)
