"""How much data a fetch response contains.

A consumer that is catching up asks for a megabyte of each partition. A consumer near the broker works best with half a
megabyte per response: given six megabytes at once, librdkafka takes five times the page faults and twice the CPU for
records of 100 bytes, and other clients wait for the loop meanwhile. A distant consumer loses a round trip per response
and needs as much as it can get, and so does one with so many partitions that each request is expensive. Consumers do
not say which kind they are. So the broker measures: now and then it tries twice and half the current size.

A response always contains a complete batch. A consumer with min_bytes above 1 gets as much as it asks for.
"""

from __future__ import annotations

from chronik.runtime.invariants import check
from chronik.runtime.units import KIB, MIB

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
        "_asked_ns",
        "_best_rates",
        "_given_bytes",
        "_given_ns",
        "_goes_up",
        "_since_ns",
        "_small_left",
        "_tried_bytes",
        "_usual_bytes",
        "size_bytes",
    )

    def __init__(self) -> None:
        self.size_bytes = SMALLEST_BYTES
        self._usual_bytes = SMALLEST_BYTES
        self._tried_bytes = 0  # outside a trial
        self._answers_left = 0  # in the trial, or before the next one
        self._small_left = 0  # answers that tell nothing, before the trial is given up
        self._goes_up = False  # the trial under way, or the last one
        self._best_rates = (0.0, 0.0)  # bytes a nanosecond, of the usual and of the tried size
        self._asked_ns = self._given_ns = 0
        self._given_bytes = self._since_ns = 0  # of the last answer, and from when on it took time
        self._begin_trial()

    def given(self, size_bytes: int, now_ns: int, *, has_waited: bool) -> None:
        """An answer of this size leaves. Reading it counts as part of its time, waiting for records does not."""
        self._given_bytes, self._given_ns = size_bytes, now_ns
        self._since_ns = now_ns if has_waited else self._asked_ns

    def asked(self, now_ns: int) -> None:
        """A request has come, by which the reader says that it has the last answer."""
        size_bytes, self._given_bytes = self._given_bytes, 0
        self._asked_ns = now_ns
        if not size_bytes or now_ns <= self._given_ns:  # it was sent before the answer, and says nothing about it
            return
        if size_bytes < self.size_bytes // 2:
            self._was_small()
        elif self.size_bytes < min(size_bytes, LARGEST_BYTES):
            self._was_one_batch(size_bytes)
        elif self._tried_bytes:
            self._judge(size_bytes / (now_ns - self._since_ns))
        elif self._answers_left:
            self._answers_left -= 1
        else:
            self._begin_trial()

    def _was_small(self) -> None:
        """No more data existed or was requested. One means nothing; many in a row mean that none will follow."""
        if self._tried_bytes:
            self._small_left -= 1
            if not self._small_left:
                self._end_trial()
                self._answers_left = 0  # once there is more, it is tried soon

    def _was_one_batch(self, size_bytes: int) -> None:
        """A batch that is larger than the portion: for this reader there is none so small."""
        while self._usual_bytes < min(size_bytes, LARGEST_BYTES):
            self._usual_bytes *= 2
        self._end_trial()
        self._goes_up = False
        self._begin_trial()

    def _begin_trial(self) -> None:
        self._goes_up = self._usual_bytes == SMALLEST_BYTES or (self._usual_bytes < LARGEST_BYTES and not self._goes_up)
        self._tried_bytes = self._usual_bytes * 2 if self._goes_up else self._usual_bytes // 2
        check(
            SMALLEST_BYTES <= self._tried_bytes <= LARGEST_BYTES and self._tried_bytes != self._usual_bytes,
            "23 portions stay within their bounds",
            usual=self._usual_bytes,
            tried=self._tried_bytes,
        )
        self._answers_left = self._small_left = 2 * TRIAL_ANSWERS
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
        check(
            SMALLEST_BYTES <= self._usual_bytes <= LARGEST_BYTES,
            "23 portions stay within their bounds",
            usual=self._usual_bytes,
        )
        self._tried_bytes = 0
        self._answers_left = ANSWERS_BETWEEN_TRIALS
        self.size_bytes = self._usual_bytes
