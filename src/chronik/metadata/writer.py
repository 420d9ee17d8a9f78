"""The controller's write path: decides commands as they arrive and proposes them to the quorum, many in one entry.

Everything decided while one entry is being replicated becomes the next entry (group commit). Only one entry is in
flight, because the next is decided on top of it: if it fails, nothing after it may succeed.

A reply or refusal is sent only once the state it was decided on is committed and applied here. A batch without changes
proves that with a read index instead of an entry: otherwise a controller that was deposed without knowing could refuse
or confirm based on outdated state. Serves one leadership; after `stop` it answers nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from chronik.metadata.commands.command import ControllerCommand, Reply, RequestId
from chronik.metadata.controller import Controller
from chronik.metadata.decisions.decision import Decision
from chronik.metadata.errors import MetadataError, MetadataRefused, NotController, StoreClosed, refuse
from chronik.metadata.new_topics import partition_count
from chronik.metadata.records import PARTITION, MetadataRecord, NewTopicRecord, PartitionsChangeRecord, encode_batch
from chronik.raft.driver import RaftNode
from chronik.raft.errors import Stopped
from chronik.runtime.buggify import SMALL_BATCH, WRITER_FULL
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode

WAITING_MAX = 10_000  # commands; more are refused, so that a slow disk cannot exhaust memory
# Limits a batch, in records plus the partitions that they create: it is applied in well under 100 ms.
BATCH_SIZE = 5_000


class Batch:
    """Commands decided together, and their callers."""

    __slots__ = ("answers", "data", "records", "size")

    def __init__(self) -> None:
        self.records: list[MetadataRecord] = []
        self.size = 0
        self.answers: list[tuple[asyncio.Future[Reply], Reply | MetadataRefused]] = []
        self.data = b""  # the entry, once proposed

    def add(self, records: list[MetadataRecord]) -> None:
        self.records += records
        if self.data != b"":
            broken("5 nothing is added to a batch that was proposed", records=len(records))
        self.size += sum([_size_of(record) for record in records])


class Writer:
    def __init__(
        self, controller: Controller, raft: RaftNode, clock: Clock, *, batching: bool, on_failure: Callable[[], None]
    ) -> None:
        """`on_failure` is called after a proposal failed and all its callers got an error."""
        self.controller = controller
        self._raft, self._clock, self._batching, self._on_failure = raft, clock, batching, on_failure
        self._loop = asyncio.get_running_loop()
        self._batches: deque[Batch] = deque()  # the last one accepts commands
        self._under_way: Batch | None = None
        self._waiting = 0
        self._flush_is_due = False
        self._stopped = False

    def submit(self, command: ControllerCommand[Any], request: RequestId) -> asyncio.Future[Reply]:
        """Decides before it returns. Cancelling the future does not undo the command."""
        is_full = self._waiting >= WAITING_MAX or (WRITER_FULL.is_on and WRITER_FULL.fires())
        if is_full and not self.controller.has_decided(request):
            # A repetition of a command that waits here is still accepted: refusing it would tell its caller that
            # nothing happens, while the command is about to be applied.
            refuse(ErrorCode.REQUEST_TIMED_OUT, f"{WAITING_MAX} metadata commands are waiting already: try again later")
        done: asyncio.Future[Reply] = self._loop.create_future()
        self._waiting += 1
        try:
            decision = self.controller.handle(command, request, self._clock.monotonic_ns())
        except MetadataRefused as refused:
            self._open_batch().answers.append((done, refused))
            return done
        *parts, last = _parts_of(decision)
        for part in parts:
            self._open_batch().add(part)
        batch = self._open_batch()
        batch.add(last)
        batch.answers.append((done, decision.reply))
        return done

    def write(self, records: list[MetadataRecord]) -> None:
        """Records of a new cluster, which belong to no command."""
        self.controller.assume(records)
        self._open_batch().add(records)

    def records_in(self, data: bytes) -> list[MetadataRecord] | None:
        """The records of the entry in flight, if `data` is that entry, so that its encoder need not decode it."""
        batch = self._under_way
        return batch.records if batch is not None and batch.data is data else None

    def stop(self, error: MetadataError) -> None:
        """Fails all waiting callers."""
        if self._stopped:
            return
        self._stopped = True
        for batch in (*([self._under_way] if self._under_way else []), *self._batches):
            for done, _ in batch.answers:
                if not done.done():
                    done.set_exception(error)

    def _open_batch(self) -> Batch:
        if (
            not self._batches
            or not self._batching
            or self._batches[-1].size >= BATCH_SIZE
            or (SMALL_BATCH.is_on and SMALL_BATCH.fires())
        ):
            self._batches.append(Batch())
        if self._under_way is None and not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)
        return self._batches[-1]

    def _flush(self) -> None:
        self._flush_is_due = False
        if self._stopped or self._under_way is not None or not self._batches:
            return
        batch = self._under_way = self._batches.popleft()
        if len(batch.data) != 0:
            broken("5 a batch is proposed once", records=len(batch.records))
        done: asyncio.Future[int]
        if batch.records:
            batch.data = encode_batch(batch.records)
            done = self._raft.propose(batch.data)
            self.controller.settle()
        else:
            done = asyncio.ensure_future(self._raft.read_index())
        done.add_done_callback(self._finished)

    def _finished(self, done: asyncio.Future[int]) -> None:
        error = asyncio.CancelledError() if done.cancelled() else done.exception()
        if self._stopped:
            return
        if error is not None:
            self.stop(StoreClosed() if isinstance(error, Stopped) else NotController(self._raft.leader_id))
            self._on_failure()
            return
        batch, self._under_way = self._under_way, None
        assert batch is not None
        if self._waiting < len(batch.answers):
            broken("26 as many commands wait as were submitted", waiting=self._waiting, answered=len(batch.answers))
        self._waiting -= len(batch.answers)
        for waiter, answer in batch.answers:
            if waiter.done():
                continue
            if isinstance(answer, MetadataRefused):
                waiter.set_exception(answer)
            else:
                waiter.set_result(answer)
        self._flush()


def _parts_of(decision: Decision[Reply]) -> list[list[MetadataRecord]]:
    """The records by entry: one entry, unless the decision is large and divisible."""
    if not decision.divisible:
        return [decision.records]
    parts: list[list[MetadataRecord]] = [[]]
    size = 0
    for record in decision.records:
        if size >= BATCH_SIZE:
            parts.append([])
            size = 0
        parts[-1].append(record)
        size += _size_of(record)
    check(
        sum(map(len, parts)) == len(decision.records),
        "5 a decision is written whole",
        records=len(decision.records),
        parts=len(parts),
    )
    return parts


def _size_of(record: MetadataRecord) -> int:
    if type(record) is NewTopicRecord:
        return 1 + partition_count(record)
    if type(record) is PartitionsChangeRecord:
        return len(record.partitions) // PARTITION.size
    return 1
