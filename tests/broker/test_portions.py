"""How much a reader gets at once, held against readers of every kind: near, far away, busy, at the end of the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from random import Random

import pytest

from chronik.broker.portions import ANSWERS_BETWEEN_TRIALS, LARGEST_BYTES, SMALLEST_BYTES, TRIAL_ANSWERS, Portions

MS, US = 1_000_000, 1_000
CACHE_BYTES = 1 << 20
MUCH_BYTES = 1 << 30
Takes = Callable[[int], int]


def near(size_bytes: int) -> int:
    """The nanoseconds for a response: a size beyond the cache takes twice as long, and a request costs almost
    nothing."""
    return 50 * US + size_bytes * (1 if size_bytes <= CACHE_BYTES else 2)


def far(size_bytes: int) -> int:
    """Over a line of a gigabyte a second to another continent."""
    return 100 * MS + size_bytes


def busy(size_bytes: int) -> int:
    """It does its work between two requests, whatever it got."""
    return 20 * MS


class Reader:
    """Fetches repeatedly and records the sizes. The log has batches of one size, and a fixed time per response."""

    def __init__(self, takes_ns: Takes, *, batch_bytes: int = 1, reading_ns: int = 0) -> None:
        self.portions = Portions()
        self.takes_ns, self.batch_bytes, self.reading_ns = takes_ns, batch_bytes, reading_ns
        self.now_ns = 1

    def read(self, answers: int, there_bytes: Iterable[int] = repeat(MUCH_BYTES)) -> list[int]:
        sizes: list[int] = []
        for _, there in zip(range(answers), there_bytes, strict=False):
            self.portions.asked(self.now_ns)
            whole = self.portions.size_bytes // self.batch_bytes * self.batch_bytes
            sizes.append(min(there, max(whole, self.batch_bytes)))
            self.now_ns += self.reading_ns
            self.portions.given(sizes[-1], self.now_ns, has_waited=False)
            self.now_ns += self.takes_ns(sizes[-1])
        return sizes


def test_a_reader_that_is_near_gets_little_at_a_time() -> None:
    sizes = Reader(near).read(2000)
    assert sizes.count(SMALLEST_BYTES) > 1800
    assert max(sizes) <= 2 * SMALLEST_BYTES


@pytest.mark.parametrize("takes_ns", [far, busy])
def test_a_reader_that_is_far_away_or_slow_soon_gets_much(takes_ns: Takes) -> None:
    sizes = Reader(takes_ns).read(60)
    assert max(sizes[: 2 * TRIAL_ANSWERS]) == 2 * SMALLEST_BYTES
    assert sizes[-1] >= 32 * SMALLEST_BYTES


def test_a_portion_has_its_bounds() -> None:
    sizes = Reader(busy).read(3000)
    assert max(sizes) == LARGEST_BYTES
    assert min(sizes) == SMALLEST_BYTES


def test_larger_answers_are_tried_again_and_again() -> None:
    """A consumer on a laptop may move, and its latency changes."""
    reader = Reader(near)
    reader.read(1000)
    reader.takes_ns = far
    assert reader.read(1000)[-1] > 8 * SMALLEST_BYTES


def test_a_reader_that_comes_nearer_gets_less_again() -> None:
    reader = Reader(busy)
    assert reader.read(1000)[-1] >= LARGEST_BYTES // 2
    reader.takes_ns = near
    assert reader.read(2500)[-1] <= 2 * SMALLEST_BYTES


def test_a_pause_now_and_then_misleads_nobody() -> None:
    chance = Random(1)
    sizes = Reader(lambda size: near(size) + (chance.random() < 0.2) * 40 * MS).read(2000)
    assert sizes.count(SMALLEST_BYTES) > 1600


def test_nor_does_it_keep_a_reader_that_is_far_away_from_more() -> None:
    def paused(chance: Random) -> Takes:
        return lambda size_bytes: far(size_bytes) + (chance.random() < 0.2) * 400 * MS

    climbed = [Reader(paused(Random(seed))).read(60)[-1] >= 8 << 20 for seed in range(20)]
    assert climbed.count(True) >= 18


@pytest.mark.parametrize("batch_bytes", [300_000, 600_000, 1_000_000, 5_000_000])
def test_large_batches_keep_nobody_at_one_of_them(batch_bytes: int) -> None:
    sizes = Reader(far, batch_bytes=batch_bytes).read(200)
    assert min(sizes) >= batch_bytes
    assert sizes[-1] >= 8 << 20


@pytest.mark.parametrize("batch_bytes", [600_000, 1_000_000])
def test_a_reader_of_large_batches_that_is_near_gets_them_one_by_one(batch_bytes: int) -> None:
    sizes = Reader(near, batch_bytes=batch_bytes).read(2000)
    assert sizes.count(batch_bytes) > 1800


def test_a_batch_that_is_larger_than_any_portion_comes_alone() -> None:
    assert set(Reader(far, batch_bytes=2 * LARGEST_BYTES).read(300)) == {2 * LARGEST_BYTES}


def test_reading_many_partitions_for_little_is_not_worth_it() -> None:
    """Each response costs the broker all requested partitions, however little it contains."""
    sizes = Reader(near, reading_ns=30 * MS).read(60)
    assert sizes[-1] >= 8 * SMALLEST_BYTES


def test_waiting_for_records_is_no_time_of_the_reader() -> None:
    portions, now_ns = Portions(), 1
    for _ in range(500):
        portions.asked(now_ns)
        size_bytes = portions.size_bytes
        assert size_bytes <= 2 * SMALLEST_BYTES
        now_ns += 500 * MS
        portions.given(size_bytes, now_ns, has_waited=True)
        now_ns += near(size_bytes)


def test_who_never_asks_for_more_is_offered_no_more() -> None:
    reader = Reader(far)
    assert set(reader.read(500, repeat(SMALLEST_BYTES // 4))) == {SMALLEST_BYTES // 4}
    assert reader.portions.size_bytes == SMALLEST_BYTES


def test_who_gets_all_it_asks_for_gets_less_again_when_it_comes_nearer() -> None:
    """Its own limit is less than half of the next size: no answer will ever tell how good that is."""
    reader = Reader(far)
    assert reader.read(200, repeat(6 << 20))[-1] == 6 << 20
    reader.takes_ns = near
    assert reader.read(2000, repeat(6 << 20))[-1] <= 2 * SMALLEST_BYTES


@pytest.mark.parametrize("every", [3, 7, 100])
def test_answers_that_were_short_keep_nobody_from_finding_its_size(every: int) -> None:
    """At the end of a segment, or of the log."""

    def there() -> Iterable[int]:
        while True:
            yield 100
            yield from repeat(MUCH_BYTES, every - 1)

    reader = Reader(far)
    assert max(reader.read(600, there())) >= 8 << 20
    reader.takes_ns = near
    sizes = reader.read(6000, there())
    assert max(sizes[-300:]) <= 2 * SMALLEST_BYTES


def test_who_falls_behind_after_a_long_time_at_the_end_is_soon_given_much() -> None:
    reader = Reader(far)
    reader.read(1000, repeat(100))
    assert reader.read(60)[-1] >= 8 << 20


def test_a_request_that_was_sent_ahead_says_nothing() -> None:
    """As if all sizes were equally good: none of the answers was waited for."""
    portions = Portions()
    for now_ns in range(1, 1000):
        portions.asked(now_ns)
        assert portions.size_bytes == SMALLEST_BYTES
        portions.given(SMALLEST_BYTES, now_ns + 1, has_waited=False)


def test_between_trials_the_size_stays() -> None:
    sizes = Reader(near).read(2 * TRIAL_ANSWERS + ANSWERS_BETWEEN_TRIALS)
    assert set(sizes[2 * TRIAL_ANSWERS + 1 :]) == {SMALLEST_BYTES}
