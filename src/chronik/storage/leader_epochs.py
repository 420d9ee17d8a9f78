"""Which leader epoch wrote which offsets of a log (KIP-101, KIP-279). Pure state, no I/O.

Entries are (epoch, start offset), both strictly increasing. They can be derived from the batches, which contain the
epoch. The node's checkpoint stores them, so that a log need not be read from its beginning on every start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from chronik.runtime.invariants import broken


class EpochEnd(NamedTuple):
    epoch: int  # -1: unknown
    end_offset: int  # the first offset not written by it; -1: unknown


class LeaderEpochs:
    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = -1
        for epoch, start in entries:
            self.assign(epoch, start)

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """The batch at `start_offset` was written in `epoch`. No effect unless it is later than the known epochs."""
        if epoch <= self.latest:
            return
        while self._starts and self._starts[-1] >= start_offset:  # an epoch without records
            self._starts.pop()
            self._epochs.pop()
        if self._epochs and self._epochs[-1] >= epoch:
            broken("11 leader epochs rise with offsets", epoch=epoch, before=self._epochs[-1], offset=start_offset)
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote the record there; -1 if it is older than all entries."""
        index = bisect_right(self._starts, offset) - 1
        return self._epochs[index] if index >= 0 else -1

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above the requested one, and its end, as returned by OffsetForLeaderEpoch."""
        if epoch < 0 or not self._epochs or epoch > self.latest:
            return EpochEnd(-1, -1)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        index = bisect_right(self._epochs, epoch)
        if index == 0:  # older than all entries: nothing is known about this epoch
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[index - 1], self._starts[index])

    def truncate_end(self, offset: int) -> None:
        """Drops epochs that start at or after `offset`: their records are gone."""
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        self.latest = self._epochs[-1] if self._epochs else -1

    def truncate_start(self, offset: int) -> None:
        """The log starts at `offset` now; the epoch that wrote this offset starts there too."""
        index = bisect_right(self._starts, offset) - 1
        if index >= 0:
            del self._starts[:index], self._epochs[:index]
            self._starts[0] = offset

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.latest = -1
