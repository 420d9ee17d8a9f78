"""Records of one share partition for one response: reads the log in small steps, until enough records are acquired.

Kafka reads as many bytes as the request allows, and then acquires a few hundred records of them. Here a step reads some
batches, and the next one follows only if the member gets more. Reading and acquiring happen without an await in
between, so nobody else acquires the same records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from chronik.broker.share.acquisition import Acquired
from chronik.broker.share.choosing import Choice
from chronik.broker.share.runs import Span
from chronik.runtime.pieces import Work
from chronik.runtime.units import KIB
from chronik.storage.aborted_index import NotReady
from chronik.wire.batches import BatchView, split

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from chronik.broker.share.share_partition import SharePartition
    from chronik.replication.replica import Replica
    from chronik.storage.producer_state import AbortedTransaction

STEP_BYTES: Final = 256 * KIB


class Wanted(NamedTuple):
    member_id: str
    records_max: int
    bytes_max: int
    mode: int
    batch_size: int
    at_least_one: bool  # a batch may be larger than `bytes_max`


class Taken(NamedTuple):
    """`records` are whole batches; the member holds the acquired ones of them."""

    acquired: list[Acquired]
    records: list[Any]
    size_bytes: int

    @property
    def record_count(self) -> int:
        return sum(each.last_offset - each.first_offset + 1 for each in self.acquired)


def take(
    partition: SharePartition,
    wanted: Wanted,
    *,
    may_go_on: Callable[[], bool],
    mend_index: Callable[[Replica], None],
) -> Work[Taken]:
    """Raises what the log raises. `may_go_on` is asked before each step: the member may leave meanwhile."""
    settings = partition.settings
    log = partition.replica.log
    acquired: list[Acquired] = []
    records: list[Any] = []
    bytes_left, records_left = wanted.bytes_max, wanted.records_max
    while records_left > 0 and may_go_on():
        offset = partition.next_fetch_offset(settings.record_locks_max)
        limit = partition.end_of_reading
        if offset is None or offset >= limit:
            break
        is_any_size_taken = wanted.at_least_one and not records
        if bytes_left <= 0 and not is_any_size_taken:
            break
        found = log.read(offset, bytes_max=max(0, min(bytes_left, STEP_BYTES)), offset_limit=limit)
        if not found.buffers or (found.size_bytes > bytes_left and not is_any_size_taken):
            break
        batches = split(memoryview(found.buffers[0]))
        aborted: list[Span] = []
        if partition.is_committed_only:
            try:
                aborted = aborted_spans(batches, log.aborted_transactions(offset, found.next_offset))
            except NotReady:
                mend_index(partition.replica)
                break
        choice = Choice(
            offset,
            records_left,
            wanted.mode,
            wanted.batch_size,
            settings.delivery_count_limit,
            settings.record_locks_max,
            wanted.records_max - records_left,
        )
        spans = [Span(each.base_offset, each.last_offset) for each in batches]
        more, may_have_more = partition.acquire(spans, aborted, wanted.member_id, choice)
        if more:
            used = overlapping(batches, more)
            acquired += more
            records += used
            bytes_left -= sum(map(len, used))
            records_left -= sum(each.last_offset - each.first_offset + 1 for each in more)
        yield 1 + len(batches) // 16
        if not may_have_more or partition.next_fetch_offset(settings.record_locks_max) == offset:
            break
    return Taken(acquired, records, wanted.bytes_max - bytes_left)


def overlapping(batches: Sequence[BatchView], acquired: Sequence[Acquired]) -> list[memoryview]:
    """The batches between the first and the last acquired record, as one piece of bytes or a few."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    return [each.data for each in batches if each.last_offset >= first and each.base_offset <= last]


def aborted_spans(batches: Sequence[BatchView], transactions: Sequence[AbortedTransaction]) -> list[Span]:
    """The batches of aborted transactions, found in the way of consumers."""
    waiting = sorted(transactions, key=lambda each: each.first_offset, reverse=True)
    aborted: set[int] = set()
    spans = []
    for batch in batches:
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            aborted.add(waiting.pop().producer_id)
        if batch.producer_id not in aborted:
            continue
        if batch.is_control:
            aborted.discard(batch.producer_id)  # its next batches are of another transaction
        elif batch.is_transactional:
            spans.append(Span(batch.base_offset, batch.last_offset))
    return spans
