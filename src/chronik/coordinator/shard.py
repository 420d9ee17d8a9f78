"""The interface between a coordinator's state machine and the runtime, and the runtime's interface to the partition.

A shard is the state that one partition of an internal topic holds. It decides: a command becomes records and a reply,
and nothing of what the log holds is changed. It replays: records of the log are the only thing that changes that state,
the same when they were written a moment ago and when they are loaded after a failover. Loading, writing, waiting and
timing exist once, in `runtime`; a shard never sees a byte, a future or the event loop.
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

OnWritten = Callable[[ErrorCode], None]  # NONE: committed and replayed; otherwise what to tell the client


def ignore(error: ErrorCode) -> None:
    """For writes nobody waits for; the runtime has logged a failure."""


class CoordinatorRecord(NamedTuple):
    """One change of state, as the topic's schemas write it."""

    key: InternalRecord
    value: InternalRecord | None  # None removes what the key names
    version: int = 0  # of the value's schema


class Decision(NamedTuple):
    """What a request comes to: records to write, and what to do once they are committed or have failed.

    The caller writes the decision's records, in the same loop iteration. Without records nothing is written
    and `written` is not called.
    """

    records: list[CoordinatorRecord]
    written: OnWritten = ignore


NOTHING_TO_WRITE: Final = Decision([])


class RecordType(NamedTuple):
    """What a topic's records of one type are, and when those that this node writes are replayed.

    At commit, unless said otherwise: decisions and readers see committed state only, and two decisions in flight about
    one thing would both be made on the state before. With `at_append` the second decision sees the first one's records.
    It sees them before they are committed, so its own answer has to wait for them: write its records, or none
    (`Writer.write`), and answer when told.
    """

    key: type[InternalRecord]
    value: type[InternalRecord]
    at_append: bool = False


class StatePartition(Protocol):
    """One partition of an internal topic, led by this node. A replica is one."""

    @property
    def index(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    def append(self, batch: bytes, transaction_version: int = 0, guard: Guard | None = None) -> int:
        """Appends one record batch and returns the offset behind it. Its errors carry `kafka_error`.

        `transaction_version` is that of the transaction that a marker ends. A transactional batch needs its `guard`,
        unless the transaction is open in this partition.
        """

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        """Resolves when everything before `offset` survives; None when it already does."""

    def read(self, offset: int, bytes_max: int) -> list[memoryview]:
        """Whole batches from `offset` up to the end of the log: at least one, unless there is none."""

    def delete_before(self, offset: int) -> None:
        """Begins to delete what is before `offset`, which is committed. Until it is done, a failover may undo it."""


class Writer(Protocol):
    """How a shard changes what the log holds."""

    def write(self, records: list[CoordinatorRecord], written: OnWritten, *, producer: Producer | None = None) -> bool:
        """Appends the records as one batch; calls `written` once they are committed and replayed, or have failed.
        False: the log refused them. `written` has been called then, and they will never be replayed.

        Without records it only waits until everything in the log is committed. Records of a `producer` belong to its
        transaction: once committed they are in the shard's open transactions, and are replayed when the transaction
        commits.

        A refused append leaves the shard as it was. After the append, records of which failure was told may still be
        replayed later: a batch that was too slow is not taken back.
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
        """Calls back once everything that is in the log now is committed and replayed; at once when it already is."""

    def unsettled(self) -> Iterator[CoordinatorRecord]:
        """Records in the log that are not committed, or belong to an open transaction. Code that removes state by age
        must spare what they are about."""


class Shard(Protocol):
    @property
    def record_types(self) -> Mapping[int, RecordType]:
        """The records it knows, by the number in front of their keys. Others are skipped when loading."""

    @property
    def open_transactions(self) -> OpenTransactions:
        """Made by the shard, empty; kept by the runtime."""

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        """The only way in which what the log holds changes."""

    def loaded(self) -> None:
        """Everything in the log has been replayed: requests follow. Timers are set here."""

    def image_changed(self, image: Image, changes: Changes) -> None:
        """The metadata is `image` now. Called for each change while the shard serves, and once, without changes, right
        before `loaded`. It runs while the metadata log is applied, so it must not take long."""

    def unloaded(self) -> None:
        """Another node leads the partition now. Pending requests fail with NOT_COORDINATOR."""
