"""Latencies in buckets: percentiles near enough, and nothing left out because a loop was waiting."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from chronik.bench.histogram import VALUE_MAX, Histogram

VALUES = st.lists(st.integers(0, VALUE_MAX), min_size=1, max_size=300)


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(values=VALUES, percent=st.floats(0.1, 100))
def test_a_percentile_is_that_of_the_sorted_values_within_one_percent(values: list[int], percent: float) -> None:
    """The obvious twin: sort, and take the value at the rank."""
    exact = sorted(values)[max(1, math.ceil(round(len(values) * percent / 100, 9))) - 1]
    assert exact <= filled(values).percentile(percent) <= exact * 1.008 + 1


@given(first=VALUES, second=VALUES)
def test_two_histograms_together_are_one_of_all_values(first: list[int], second: list[int]) -> None:
    """The live line shows its own histogram; the end adds them up."""
    merged = filled(first)
    merged.merge(filled(second))
    assert list(merged) == list(filled(first + second))
    assert merged.count == len(first) + len(second)


def test_small_values_are_exact_and_impossible_ones_are_kept_in_range() -> None:
    """A clock that steps back must not break a run."""
    assert [value for value, _ in filled(list(range(256)))] == list(range(256))
    assert filled([-5]).percentile(50) == 0
    assert filled([VALUE_MAX * 8]).largest >= VALUE_MAX * 0.99
    assert Histogram().percentile(99) == 0


def test_requests_that_were_not_sent_while_one_took_long_are_counted() -> None:
    """A loop that asks every 10 ms and waits 100 ms once has missed nine, which would have waited 90, 80, ... 10."""
    histogram = filled([10] * 90 + [100])
    corrected = dict(histogram.corrected(10))
    assert {value: count for value, count in corrected.items() if value != 10} == dict.fromkeys(range(20, 101, 10), 1)
    assert corrected[10] == 91
    assert histogram.percentile(98) == 10
    assert histogram.corrected(10).percentile(98) == 80


@given(values=VALUES, interval=st.integers(0, 10**6))
def test_correcting_only_adds(values: list[int], interval: int) -> None:
    """And never takes long, however large a value is against the interval."""
    before, after = filled(values), filled(values).corrected(interval)
    assert after.largest == before.largest
    assert all(dict(after)[value] >= count for value, count in before)
