"""How much data a fetch response contains.

A consumer that is catching up requests a megabyte per partition. With low latency, half a megabyte per response works
best: with six megabytes at once, librdkafka has five times the page faults and uses twice the CPU for records of 100
bytes, and other clients wait for the event loop meanwhile. With high latency, a consumer needs large responses, because
each one costs a round trip. The same is true with so many partitions that each request is expensive. The broker does
not know which kind a consumer is. So it measures: periodically it tries twice and half the current size.

A response always contains a complete batch. A consumer with min_bytes above 1 gets as much as it requests.
"""

from __future__ import annotations

from chronik.runtime.invariants import check
from chronik.runtime.units import KIB, MIB

SMALLEST_BYTES = 512 * KIB
LARGEST_BYTES = 64 * MIB  # more than clients request by default
TRIAL_ANSWERS = 4  # of each size, because one response may meet a pause of the client or of the machine
ANSWERS_BETWEEN_TRIALS = 128
LARGER_IS_WORTH = 1.25  # a larger size must reach this factor, because it delays other clients
SMALLER_IS_WORTH = 0.9


class Portions:
    """For one connection. `size_bytes` is the size for the next response."""

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
        self._tried_bytes = 0  # the size outside of trials
        self._answers_left = 0  # responses left in the trial, or before the next one
        self._small_left = 0  # small responses, which measure nothing, left before the trial is cancelled
        self._goes_up = False  # direction of the current or last trial
        self._best_rates = (0.0, 0.0)  # bytes per nanosecond, with the usual size and with the tried one
        self._asked_ns = self._given_ns = 0
        self._given_bytes = self._since_ns = 0  # of the last response, and the start of its time
        self._begin_trial()

    def given(self, size_bytes: int, now_ns: int, *, has_waited: bool) -> None:
        """A response of this size is sent. The time to read it counts, the wait for records does not."""
        self._given_bytes, self._given_ns = size_bytes, now_ns
        self._since_ns = now_ns if has_waited else self._asked_ns

    def asked(self, now_ns: int) -> None:
        """A new request has arrived, so the client has received the last response."""
        size_bytes, self._given_bytes = self._given_bytes, 0
        self._asked_ns = now_ns
        # The request was sent before the response, so it measures nothing.
        if not size_bytes or now_ns <= self._given_ns:
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
        """The response was small because no more data existed or was requested. Many of these in a row end a trial."""
        if self._tried_bytes:
            self._small_left -= 1
            if not self._small_left:
                self._end_trial()
                self._answers_left = 0  # the next trial starts soon after there is more data

    def _was_one_batch(self, size_bytes: int) -> None:
        """The response was one batch larger than the size: a smaller size has no effect for this reader."""
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
        if SMALLEST_BYTES < self._usual_bytes < LARGEST_BYTES:  # the same direction may succeed again
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
