"""How fast something is used: a rate over samples of a second, and a bucket of tokens. Pure; the time is told.

Both compute what Kafka's `Rate` and `TokenBucket` compute, so that a client is asked to wait as long as Kafka would ask
it to. Times are milliseconds of any clock that never goes back.
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
    """Units per second over the last `samples` windows of `window_ms`, however long ago the first one was recorded."""

    __slots__ = ("_current", "_samples", "_samples_max", "last_ms", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples: list[_Sample] = []
        self._samples_max = samples
        self._current = 0
        self.window_ms = window_ms
        self.last_ms = 0  # when something was last recorded

    def record(self, value: float, now_ms: int) -> None:
        self.last_ms = now_ms
        sample = self._sample(now_ms)
        if now_ms - sample.start_ms >= self.window_ms:
            # One more sample than windows: the oldest may overlap the beginning of the span.
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
        """The time that the rate is taken over."""
        self._sample(now_ms)
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._samples_max * self.window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        missing = self._samples_max - 1 - elapsed_ms // self.window_ms
        return max(elapsed_ms + max(missing, 0) * self.window_ms, 1)

    def over_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is down to `bound`; 0 if it is not above it."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return rounded((rate - bound) / bound * self.span_ms(now_ms))

    def _sample(self, now_ms: int) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        return self._samples[self._current]


class TokenBucket:
    """`per_second` tokens come in every second, at most as many as fit; it may be overdrawn once, and is then empty."""

    __slots__ = ("_tokens", "last_ms")

    def __init__(self) -> None:
        self._tokens = 0.0
        self.last_ms = 0

    def take(self, tokens: float, now_ms: int, *, per_second: float, seconds_max: float) -> None:
        self._refill(now_ms, per_second, seconds_max)
        self._tokens = min(per_second * seconds_max, self._tokens - tokens)

    def over_ms(self, now_ms: int, *, per_second: float, seconds_max: float) -> int:
        """How long nothing may be taken; 0 if the bucket is not overdrawn."""
        self._refill(now_ms, per_second, seconds_max)
        return rounded(-self._tokens / per_second * 1000) if self._tokens < 0 else 0

    def _refill(self, now_ms: int, per_second: float, seconds_max: float) -> None:
        self._tokens = min(per_second * seconds_max, self._tokens + per_second * (now_ms - self.last_ms) / 1000)
        self.last_ms = now_ms


def rounded(value: float) -> int:
    """Half up, as Java rounds."""
    return int(value + 0.5) if value < 2**62 else 2**62
