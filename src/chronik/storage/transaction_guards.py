"""Guards: proof that nothing ended a transaction while its coordinator was being asked. Pure state, no I/O.

A transactional batch may open a transaction on a partition only if the transaction's coordinator knows the partition.
Otherwise no marker would ever end it. Asking takes time, and a marker may be written meanwhile: then the answer belongs
to a transaction that has ended. So the request starts with a guard, every marker and transactional batch of that
producer invalidates the guard, and the append requires the current guard. Guards are compared by identity: an
invalidated guard never becomes valid again.

One marker does not invalidate the guard. Under transaction version 2 the marker has the epoch of the producer's next
transaction. A guard of that same epoch therefore belongs to the transaction after the marker.

Guards are not durable. A restart or a truncation drops them, and the producer's retry starts a new request.
"""

from __future__ import annotations

from chronik.storage.errors import OutOfOrderSequence


class Guard:
    """Equal to nothing but itself."""

    __slots__ = ()


class Entry:
    __slots__ = ("epoch", "guard", "is_tv2", "lowest_sequence", "since_ms")

    def __init__(self, epoch: int, sequence: int, *, is_tv2: bool) -> None:
        self.guard = Guard()
        self.epoch = epoch
        self.lowest_sequence = sequence  # lowest requested sequence; a higher one must not be written before it
        self.is_tv2 = is_tv2
        self.since_ms = -1  # -1: `expire` has not seen it yet


class TransactionGuards:
    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}  # by producer id

    def begin(self, producer_id: int, epoch: int, first_sequence: int, *, is_tv2: bool) -> Guard:
        """The guard for a request about this producer's transaction; concurrent requests share it."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = Entry(epoch, first_sequence, is_tv2=is_tv2)
        elif epoch > entry.epoch:  # sequences start again
            entry.epoch, entry.lowest_sequence, entry.is_tv2 = epoch, first_sequence, is_tv2
        elif epoch == entry.epoch:
            entry.lowest_sequence = min(entry.lowest_sequence, first_sequence)
        return entry.guard

    def is_current(self, producer_id: int, guard: Guard | None) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.guard is guard

    def check_sequence(self, producer_id: int, first_sequence: int, *, has_batches: bool) -> None:
        """A batch with a lower sequence may have been refused and may be resent: it comes first."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if entry.is_tv2 and first_sequence and not has_batches:  # version 2 begins every epoch at 0
            raise OutOfOrderSequence(producer_id, first_sequence, 0)
        if first_sequence > entry.lowest_sequence:
            raise OutOfOrderSequence(producer_id, first_sequence, entry.lowest_sequence)

    def written(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """A transactional batch or a marker of the producer was written."""
        entry = self.entries.get(producer_id)
        if entry is not None and not (is_marker and entry.is_tv2 and entry.epoch == epoch):
            del self.entries[producer_id]

    def expire(self, now_ms: int, limit_ms: int) -> None:
        """Drops unfinished verifications. Their time starts with the first call that sees the entry."""
        for producer_id, entry in list(self.entries.items()):
            if entry.since_ms < 0:
                entry.since_ms = now_ms
            elif entry.since_ms < limit_ms:
                del self.entries[producer_id]
