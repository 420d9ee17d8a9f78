"""Measures use: a rate over windows of a second, and a token bucket. Pure; callers pass the time.

Both compute the same values as Kafka's `Rate` and `TokenBucket`, so that throttle times are the same as Kafka's. Times
are in milliseconds of any clock that never goes back.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """Units per second over the last `samples` windows of `window_ms`, even if the first one was recorded later."""

    __slots__ = ("_current", "_samples", "_samples_max", "last_ms", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples: list[_Sample] = []
        self._samples_max = samples
        self._current = 0
        self.window_ms = window_ms
        self.last_ms = 0  # time of the last record

    def record(self, value: float, now_ms: int) -> None:
        self.last_ms = now_ms
        sample = self._sample(now_ms)
        if now_ms - sample.start_ms >= self.window_ms:
            # One more sample than windows, because the oldest one may overlap the beginning of the span.
            self._current = (self._current + 1) % (self._samples_max + 1)
            if self._current >= len(self._samples):
                self._samples.append(_Sample(now_ms, now_ms))
            else:
                self._samples[self._current].reset(now_ms)
            sample = self._samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        span_ms = self.span_ms(now_ms)
        return sum(sample.value for sample in self._samples) / (span_ms / 1000)

    def span_ms(self, now_ms: int) -> int:
        """The time over which the rate is computed."""
        self._sample(now_ms)
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._samples_max * self.window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = self._samples_max - 1 - elapsed_ms // self.window_ms
        return max(elapsed_ms + max(missing, 0) * self.window_ms, 1)

    def over_ms(self, bound: float, now_ms: int) -> int:
        """The time without use until the rate is down to `bound`; 0 if it is not above it."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return rounded((rate - bound) / bound * self.span_ms(now_ms))

    def _sample(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        return self._samples[self._current]


class TokenBucket:
    """Gets `per_second` tokens every second, up to its capacity. It may be overdrawn once, and is then empty."""

    __slots__ = ("_tokens", "last_ms")

    def __init__(self) -> None:
        self._tokens = 0.0
        self.last_ms = 0

    def take(self, tokens: float, now_ms: int, *, per_second: float, seconds_max: float) -> None:
        self._refill(now_ms, per_second, seconds_max)
        self._tokens = min(per_second * seconds_max, self._tokens - tokens)

    def over_ms(self, now_ms: int, *, per_second: float, seconds_max: float) -> int:
        """The time until the bucket is no longer overdrawn; 0 if it is not."""
        self._refill(now_ms, per_second, seconds_max)
        return rounded(-self._tokens / per_second * 1000) if self._tokens < 0 else 0

    def _refill(self, now_ms: int, per_second: float, seconds_max: float) -> None:
        self._tokens = min(per_second * seconds_max, self._tokens + per_second * (now_ms - self.last_ms) / 1000)
        self.last_ms = now_ms


def rounded(value: float) -> int:
    """Rounds half up, as in Java."""
    return int(value + 0.5) if value < 2**62 else 2**62
