"""The state of one partition of `__transaction_state`: its transactional ids.

The state is derived from the log. Replaying a record also starts the next step: a timer for an ongoing transaction,
markers for one that commits or aborts. Loading does this for every id. So a decision that was committed late, or by the
previous leader, takes effect like any other.

Each id has at most one pending transition. It stays pending while its record may still be committed, even if the client
received a timeout, because a second decision on the old state could contradict the first. There is one exception: the
next transaction may begin while the completion of the previous one is pending, so that one commit covers both. The log
keeps their order: the beginning is committed only if the completion is.

Invariants: a transaction completes only when every partition has its marker; markers are ordered only for a decision
that is committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, cast

from chronik.coordinator.open_transactions import OpenTransactions
from chronik.coordinator.shard import CoordinatorRecord, Decision, OnWritten, Writer, ignore
from chronik.coordinator.timers import Timers
from chronik.coordinator.transactions import transitions
from chronik.coordinator.transactions.config import TransactionsConfig
from chronik.coordinator.transactions.markers import MarkerOrder, MarkerWriter
from chronik.coordinator.transactions.retries import Retries
from chronik.coordinator.transactions.transaction import (
    RECORD_TYPES,
    State,
    TopicPartition,
    Transaction,
    from_record,
    removal,
    to_record,
)
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue

log = logging.getLogger("chronik.coordinator.transactions")

TRANSACTION_FEATURE = "transaction.version"
REMOVALS_PER_BATCH = 1_000

Abort = Callable[[str, Callable[[], None]], None]


class Entry:
    """One transactional id. `current` is committed; None until its first record is."""

    __slots__ = ("awaited", "connection", "current", "following", "is_removing", "pending", "when_open")

    def __init__(self) -> None:
        self.current: Transaction | None = None
        self.pending: Transaction | None = None
        self.following: Transaction | None = None  # the next transaction, which began while a completion is pending
        self.is_removing = False
        # The newest connection of a served producer with the current id and epoch; 0: none, or served by another
        # leader.
        self.connection = 0
        self.when_open: list[Callable[[], None]] = []  # called once the next transaction may begin
        # Partitions of a decided transaction that have no committed marker yet.
        self.awaited: set[TopicPartition] = set()

    @property
    def is_pending(self) -> bool:
        """Whether a request must wait for a pending transition, including its markers."""
        if self.pending is not None or self.is_removing:
            return True
        return self.current is not None and self.current.state.is_prepared

    @property
    def is_completing(self) -> bool:
        """Whether the last transaction is complete once the log is committed, and no other has begun."""
        pending = self.pending
        return pending is not None and pending.state.is_complete and self.following is None and not self.is_removing

    def tell_open(self) -> None:
        if self.when_open and (self.is_completing or not self.is_pending):
            self.tell_all()

    def tell_all(self) -> None:
        waiting, self.when_open = self.when_open, []
        for tell in waiting:
            tell()


class Known(NamedTuple):
    """The input of decisions about a transactional id."""

    current: Transaction | None  # the committed state
    is_pending: bool  # a transition is pending
    transaction_version: int  # the cluster's level
    connection: int  # the newest connection of a served producer with the current id and epoch


class TransactionShard:
    record_types = RECORD_TYPES

    def __init__(
        self,
        index: int,
        coordinator_epoch: int,
        config: TransactionsConfig,
        clock: Clock,
        writer: Writer,
        timers: Timers,
        markers: MarkerWriter,
        time_out: Abort,
    ) -> None:
        """`time_out` aborts an id's ongoing transaction, for which it may have to get a producer id. If it fails, it
        calls its second argument."""
        self.index = index
        self.coordinator_epoch = coordinator_epoch
        self.open_transactions = OpenTransactions()
        self.entries: dict[str, Entry] = {}
        self.transaction_version = 0
        self._config = config
        self._clock = clock
        self._writer = writer
        self._timers = timers
        self._retries = Retries(timers)
        self._markers = markers
        self._time_out = time_out
        self._serves = False

    # --- called by the runtime

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        transactional_id = cast(TransactionLogKey, record.key).transactional_id
        value = cast("TransactionLogValue | None", record.value)
        if value is None:
            removed = self.entries.pop(transactional_id, None)
            self._timers.cancel(transactional_id)
            if removed is not None:
                removed.is_removing = False
                removed.tell_open()
            return
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = self.entries[transactional_id] = Entry()
        pending, before = entry.pending, entry.current
        if pending is None:
            entry.current = from_record(transactional_id, value)
        else:
            check(
                (pending.state, pending.producer_id, pending.producer_epoch)
                == (value.transaction_status, value.producer_id, value.producer_epoch),
                "15 a transactional id has one transition on its way",
                id=transactional_id,
                pending=pending.state.name,
                replayed=value.transaction_status,
            )
            # The pending value also has fields that the log does not hold.
            entry.current, entry.pending, entry.following = pending, entry.following, None
        if before is not None and before.producer != entry.current.producer:
            entry.connection = 0
        if self._serves:
            self._retries.taken()
            self._follow(entry, entry.current)
            entry.tell_open()

    def loaded(self) -> None:
        self._serves = True
        for entry in list(self.entries.values()):
            if entry.current is not None:
                self._follow(entry, entry.current)

    def unloaded(self) -> None:
        self._serves = False
        self._markers.forget(self.index)
        for entry in self.entries.values():
            entry.tell_all()

    def image_changed(self, image: Image, changes: Changes) -> None:
        self.transaction_version = image.features.get(TRANSACTION_FEATURE, 0)

    # --- transitions

    def find(self, transactional_id: str) -> Known:
        entry = self.entries.get(transactional_id)
        if entry is None:
            return Known(None, False, self.transaction_version, 0)
        return Known(entry.current, entry.is_pending, self.transaction_version, entry.connection)

    def find_to_begin(self, transactional_id: str) -> Known:
        """Like `find`, for a request that begins a transaction: a pending completion counts as complete."""
        entry = self.entries.get(transactional_id)
        if entry is None or not entry.is_completing:
            return self.find(transactional_id)
        return Known(entry.pending, False, self.transaction_version, entry.connection)

    def served(self, transaction: Transaction, connection: int) -> None:
        """A request on this connection made this transition."""
        entry = self.entries.get(transaction.transactional_id)
        if entry is not None and entry.current is not None and entry.current.producer == transaction.producer:
            entry.connection = max(entry.connection, connection)

    def when_open(self, transactional_id: str, tell: Callable[[], None]) -> None:
        """Calls back once the id's next transaction may begin, or once this shard has ended. A record that the callback
        writes shares the commit of the completion before it."""
        self.entries[transactional_id].when_open.append(tell)

    def change(self, transaction: Transaction, written: OnWritten = ignore) -> Decision:
        """Sets the pending transition. Until it is settled, no other decision about this id is made."""
        entry = self.entries.get(transaction.transactional_id)
        if entry is None:
            entry = self.entries[transaction.transactional_id] = Entry()
        begins = entry.is_completing and transaction.state is State.ONGOING
        check(
            begins or (entry.pending is None and not entry.is_removing),
            "15 a transactional id has one transition on its way",
            id=transaction.transactional_id,
            state=transaction.state.name,
        )
        if begins:
            entry.following = transaction
        else:
            entry.pending = transaction
        return Decision([to_record(transaction, self.transaction_version)], written)

    def take_back(self, transactional_id: str) -> None:
        """Removes the id's pending transition, because the log refused its record. A transition that the log accepted
        stays pending, even if it was reported as failed."""
        entry = self.entries.get(transactional_id)
        if entry is None or not self._serves:
            return
        if entry.following is not None:
            entry.following = None
        else:
            entry.pending, entry.is_removing = None, False
        entry.tell_open()
        if entry.current is None:
            del self.entries[transactional_id]

    # --- effects of committed records

    def _follow(self, entry: Entry, current: Transaction) -> None:
        transactional_id = current.transactional_id
        if current.state is State.ONGOING:
            if not current.is_two_phase:
                self._timers.set(transactional_id, self._left_ms(current), partial(self._timed_out, transactional_id))
            return
        self._timers.cancel(transactional_id)
        if current.state.is_prepared:
            entry.awaited = set(current.partitions)
            order = self._order(current)
            for partition in sorted(current.partitions):
                self._markers.write(self.index, order, partition, partial(self._finished, order))
            if not entry.awaited:
                self._complete(order)

    def _left_ms(self, current: Transaction) -> int:
        """The time until the timeout. If the clock was set back, at most a whole timeout."""
        return min(max(current.start_ms + current.timeout_ms - self._clock.wall_ms(), 0), current.timeout_ms)

    def _timed_out(self, transactional_id: str) -> None:
        known = self.find(transactional_id)
        if known.current is None or known.current.state is not State.ONGOING:
            return
        if not known.is_pending:  # otherwise the record is in the log, and its replay sets the deadline again
            self._time_out(transactional_id, partial(self._abort_later, transactional_id))

    def _abort_later(self, transactional_id: str) -> None:
        """Retries the abort of an overdue transaction until it succeeds, so that no transaction hangs."""
        if self._serves:
            self._retries.put(transactional_id, partial(self._timed_out, transactional_id))

    def _order(self, current: Transaction) -> MarkerOrder:
        return MarkerOrder(
            current.transactional_id,
            current.producer_id,
            current.producer_epoch,
            current.state is State.PREPARE_COMMIT,
            current.client_version,
            self.coordinator_epoch,
        )

    def _finished(self, order: MarkerOrder, partition: TopicPartition) -> None:
        entry = self.entries.get(order.transactional_id)
        if not self._serves or entry is None or entry.current is None or self._order(entry.current) != order:
            return
        entry.awaited.discard(partition)
        if not entry.awaited:
            self._complete(order)

    def _complete(self, order: MarkerOrder) -> None:
        entry = self.entries.get(order.transactional_id)
        if not self._serves or entry is None or entry.current is None or entry.pending is not None:
            return
        if not entry.current.state.is_prepared:
            return
        check(
            not entry.awaited,
            "14 a transaction completes when every partition has its marker",
            id=order.transactional_id,
            awaited=len(entry.awaited),
        )
        completed = transitions.complete(entry.current, self._clock.wall_ms())
        records, written = self.change(completed, partial(self._completed, order))
        if not self._writer.write(records, written):
            self.take_back(order.transactional_id)
        entry.tell_open()

    def _completed(self, order: MarkerOrder, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE and self._serves:
            self._retries.put(order.transactional_id, partial(self._complete, order))

    # --- expiry of ids

    def expire(self, now_ms: int) -> None:
        """Removes ids that were not used for a long time. An id with an open transaction stays."""
        for transactional_ids in self._unused(now_ms - self._config.id_expiration_ms):
            for transactional_id in transactional_ids:
                self.entries[transactional_id].is_removing = True
            removals = [removal(transactional_id) for transactional_id in transactional_ids]
            if not self._writer.write(removals, partial(self._removed, len(removals))):
                for transactional_id in transactional_ids:
                    self.take_back(transactional_id)

    def _unused(self, limit_ms: int) -> Iterator[list[str]]:
        found = [
            transactional_id
            for transactional_id, entry in self.entries.items()
            if not entry.is_pending
            and entry.current is not None
            and entry.current.state is not State.ONGOING
            and entry.current.last_update_ms <= limit_ms
        ]
        for start in range(0, len(found), REMOVALS_PER_BATCH):
            yield found[start : start + REMOVALS_PER_BATCH]

    def _removed(self, count: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            log.info("removed %d transactional ids unused for %d ms", count, self._config.id_expiration_ms)
