"""The interface between a coordinator's state machine and the runtime, and the runtime's interface to the partition.

A shard is the state in one partition of an internal topic. It decides: a request becomes records and a response,
without a change of the state. It replays: only records from the log change the state, in the same way after a write and
when they are loaded after a failover. `runtime` loads, writes, waits and sets timers for all shards; a shard does not
deal with bytes, futures or the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import InternalRecord
from chronik.wire.records import ControlType

if TYPE_CHECKING:
    from chronik.coordinator.open_transactions import OpenTransactions, Producer
    from chronik.storage.transaction_guards import Guard

OnWritten = Callable[[ErrorCode], None]  # NONE: committed and replayed; otherwise the error for the client


def ignore(error: ErrorCode) -> None:
    """For writes that no request waits for; the runtime logs failures."""


class CoordinatorRecord(NamedTuple):
    """One change of state, in the form of the topic's schemas."""

    key: InternalRecord
    value: InternalRecord | None  # None removes the key
    version: int = 0  # of the value's schema


class Decision(NamedTuple):
    """The result of a request: records to write, and what to do once they are committed or have failed.

    The caller writes the records in the same loop iteration. Without records, nothing is written and `written` is not
    called.
    """

    records: list[CoordinatorRecord]
    written: OnWritten = ignore


NOTHING_TO_WRITE: Final = Decision([])


class RecordType(NamedTuple):
    """A type of records of a topic, and when records that this node writes are replayed.

    By default at commit: decisions and readers see only committed state, and two concurrent decisions about the same
    key are both made on the state before. With `at_append`, the second decision sees the first one's records before
    they are committed. So its response must wait for them: write its records, or an empty list (`Writer.write`), and
    respond in the callback.
    """

    key: type[InternalRecord]
    value: type[InternalRecord]
    at_append: bool = False


class StatePartition(Protocol):
    """One partition of an internal topic that this node leads. A replica implements it."""

    @property
    def index(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def append(self, batch: bytes, transaction_version: int = 0, guard: Guard | None = None) -> int:
        """Appends one record batch and returns the offset after it. Its errors carry `kafka_error`.

        `transaction_version` is that of the transaction that a marker ends. A transactional batch needs its `guard`,
        unless the transaction is open in this partition.
        """

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` is committed; None if it already is."""

    def read(self, offset: int, bytes_max: int) -> list[memoryview]:
        """Whole batches from `offset` to the end of the log, at least one unless there is none."""

    def delete_before(self, offset: int) -> None:
        """Begins to delete what is before `offset`, which is committed. Until it is done, a failover may undo it."""


class Writer(Protocol):
    """Writes a shard's records to the log."""

    def write(self, records: list[CoordinatorRecord], written: OnWritten, *, producer: Producer | None = None) -> bool:
        """Appends the records as one batch; calls `written` once they are committed and replayed, or have failed.
        Returns False if the log refused them: then `written` was called already, and they will never be replayed.

        Without records, it only waits until everything in the log is committed. Records of a `producer` belong to its
        transaction: once committed they are in the shard's open transactions, and are replayed when the transaction
        commits.

        A refused append does not change the shard. After an append, records that were reported as failed may still be
        replayed later, because a batch that timed out stays in the log.
        """

    def end_transaction(
        self,
        producer: Producer,
        outcome: ControlType,
        coordinator_epoch: int,
        written: OnWritten,
        transaction_version: int = 0,
    ) -> None:
        """Appends the marker that ends the producer's transaction in this partition. Once the marker is committed, the
        transaction's records are replayed (COMMIT) or dropped (ABORT)."""

    def when_settled(self, settled: OnWritten) -> None:
        """Calls back once everything that is in the log now is committed and replayed; at once if it already is."""

    def unsettled(self) -> Iterator[CoordinatorRecord]:
        """Records in the log that are not committed, or belong to an open transaction. Code that expires state must
        keep the state that they refer to."""


class Shard(Protocol):
    @property
    def record_types(self) -> Mapping[int, RecordType]:
        """The record types that it knows, by the number at the start of their keys. Others are skipped on loading."""

    @property
    def open_transactions(self) -> OpenTransactions:
        """Created by the shard, empty; maintained by the runtime."""

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        """Changes the state. Nothing else does."""

    def loaded(self) -> None:
        """Everything in the log has been replayed; requests will follow. Set timers here."""

    def image_changed(self, image: Image, changes: Changes) -> None:
        """The metadata changed to `image`. Called for each change while the shard serves, and once, without changes,
        right before `loaded`. It runs while the metadata log is applied, so it must be fast."""

    def unloaded(self) -> None:
        """This node no longer leads the partition. Pending requests fail with NOT_COORDINATOR."""
