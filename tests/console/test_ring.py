"""Series over an hour and a day, in memory that does not grow."""

from __future__ import annotations

from chronik.console.ring import SERIES_MAX, STEP_MS, STEPS, History, Ring
from chronik.runtime.units import MINUTE_MS


def test_a_moment_without_a_value_is_null_and_not_zero() -> None:
    ring = Ring(1_000, 10)
    ring.put(1_000, 1.0)
    ring.put(4_000, 4.0)
    assert ring.read(0, 5_000) == (0, [None, 1.0, None, None, 4.0, None])


def test_what_is_older_than_the_ring_is_forgotten() -> None:
    ring = Ring(1_000, 4)
    for second in range(10):
        ring.put(second * 1_000, float(second))
    assert ring.read(0, 9_000) == (6_000, [6.0, 7.0, 8.0, 9.0])


def test_a_gap_longer_than_the_ring_leaves_nothing_of_before() -> None:
    """Otherwise values of the last round would show up as new ones."""
    ring = Ring(1_000, 4)
    for second in range(4):
        ring.put(second * 1_000, 1.0)
    ring.put(5_000, 2.0)
    assert ring.read(0, 5_000)[1] == [1.0, 1.0, None, 2.0]
    ring.put(100_000, 3.0)
    assert ring.read(0, 100_000)[1] == [None, None, None, 3.0]


def test_a_clock_that_was_set_back_does_not_break_the_ring() -> None:
    ring = Ring(1_000, 4)
    ring.put(10_000, 1.0)
    ring.put(9_000, 2.0)
    ring.put(1_000, 3.0)
    assert ring.read(0, 10_000)[1] == [None, None, 2.0, 1.0]


def test_minutes_are_means_of_what_was_measured_in_them() -> None:
    history = History()
    for index, value in enumerate((2.0, 4.0, 9.0)):
        history.put(index * STEP_MS, {"rate": value})
    history.put(MINUTE_MS, {"rate": 1.0})
    assert history.read("rate", MINUTE_MS, 0, MINUTE_MS) == (0, [5.0, 1.0])


def test_an_unknown_series_is_all_nulls() -> None:
    assert History().read("nothing", STEP_MS, 0, 2 * STEP_MS) == (0, [None, None, None])


def test_only_so_many_series_are_kept() -> None:
    history = History()
    history.put(0, {f"topic-{number}": 1.0 for number in range(SERIES_MAX + 5)})
    assert history.read(f"topic-{SERIES_MAX - 1}", STEP_MS, 0, 0)[1] == [1.0]
    assert history.read(f"topic-{SERIES_MAX}", STEP_MS, 0, 0)[1] == [None]


def test_change_is_per_second_from_first_to_last() -> None:
    history = History()
    for second, lag in ((0, 100.0), (2, 90.0), (10, 50.0)):
        history.put(second * 1_000, {"lag": lag})
    assert history.change_per_s("lag", 60_000, 10_000) == -5.0
    assert history.change_per_s("lag", 1_000, 10_000) is None


def test_an_hour_is_kept() -> None:
    history = History()
    for step in range(STEPS + 10):
        history.put(step * STEP_MS, {"a": float(step)})
    start_ms, values = history.read("a", STEP_MS, 0, (STEPS + 9) * STEP_MS)
    assert (start_ms, len(values), values[0]) == (10 * STEP_MS, STEPS, 10.0)
