"""How much a reader is given at once, and whose turn it is when that is less than it asked for.

A client that catches up asks for a megabyte of each partition. One that is near works through half a megabyte in its
caches and asks again: given all it asked for, it spends twice the CPU on a record, and everybody else waits for the
loop meanwhile. One that is far away loses a round trip with each answer and needs all it can get. Neither says which it
is, so the size is found by trying: twice as much, and half as much, in turns with what it gets now, now and then.

A portion always has a whole batch. Who waits for more than a byte gets all it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.limits import KIB, MIB

if TYPE_CHECKING:
    from chronik.broker.fetch_sessions import Wanted

SMALLEST_BYTES = 512 * KIB
LARGEST_BYTES = 64 * MIB  # more than any client asks for by default
TRIAL_ANSWERS = 4  # of each size: one may meet a pause of the client or of the machine
ANSWERS_BETWEEN_TRIALS = 128
LARGER_IS_WORTH = 1.25  # the rate it must reach; what costs others their turn must gain something
SMALLER_IS_WORTH = 0.9


class Portions:
    """Of one connection. `size_bytes` is for the next answer."""

    __slots__ = (
        "_answers_left",
        "_best_rates",
        "_given_bytes",
        "_given_ns",
        "_goes_up",
        "_last_served",
        "_tried_bytes",
        "_usual_bytes",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.size_bytes = SMALLEST_BYTES
        self._last_served: Wanted | None = None
        self._usual_bytes = SMALLEST_BYTES
        self._tried_bytes = 0  # outside a trial
        self._answers_left = 0  # in the trial, or before the next one
        self._goes_up = False  # the trial under way, or the last one
        self._best_rates = (0.0, 0.0)  # bytes a nanosecond, of the usual and of the tried size
        self._given_bytes = self._given_ns = 0
        self._begin_trial()

    def given(self, size_bytes: int, now_ns: int, served: list[Wanted]) -> None:
        """An answer of this size leaves, with records of these partitions."""
        self._given_bytes, self._given_ns = size_bytes, now_ns
        if served:
            self._last_served = served[-1]

    def first_of(self, wanted: list[Wanted]) -> int:
        """The index of the partition to begin with: behind the last that had its turn."""
        last = self._last_served
        if last is None:
            return 0
        for index, (name, topic_id, partition) in enumerate(wanted, 1):
            if partition.partition == last.partition.partition and (name, topic_id) == (last.name, last.topic_id):
                return index % len(wanted)
        return 0

    def asked(self, now_ns: int) -> None:
        """The next request has come, by which the reader says that it has the last answer."""
        size_bytes, self._given_bytes = self._given_bytes, 0
        if not size_bytes:
            return
        if size_bytes < self.size_bytes // 2:  # there was no more, or no more was asked for: that says nothing
            self._end_trial()
            return
        if self._tried_bytes:
            self._judge(size_bytes / max(1, now_ns - self._given_ns))
        elif self._answers_left:
            self._answers_left -= 1
        else:
            self._begin_trial()

    def _begin_trial(self) -> None:
        self._goes_up = self._usual_bytes == SMALLEST_BYTES or (self._usual_bytes < LARGEST_BYTES and not self._goes_up)
        self._tried_bytes = self._usual_bytes * 2 if self._goes_up else self._usual_bytes // 2
        self._answers_left = 2 * TRIAL_ANSWERS
        self._best_rates = (0.0, 0.0)

    def _judge(self, rate: float) -> None:
        usual, tried = self._best_rates
        if self.size_bytes == self._usual_bytes:
            self._best_rates = max(rate, usual), tried
            self.size_bytes = self._tried_bytes
        else:
            self._best_rates = usual, max(rate, tried)
            self.size_bytes = self._usual_bytes
        self._answers_left -= 1
        if self._answers_left:
            return
        usual, tried = self._best_rates
        if tried < usual * (LARGER_IS_WORTH if self._goes_up else SMALLER_IS_WORTH):
            self._end_trial()
            return
        goes_up, self._usual_bytes = self._goes_up, self._tried_bytes
        self._end_trial()
        if SMALLEST_BYTES < self._usual_bytes < LARGEST_BYTES:  # what was right may be right once more
            self._goes_up = not goes_up
            self._begin_trial()

    def _end_trial(self) -> None:
        self._tried_bytes = 0
        self._answers_left = ANSWERS_BETWEEN_TRIALS
        self.size_bytes = self._usual_bytes
