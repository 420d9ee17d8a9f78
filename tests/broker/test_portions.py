"""How much a reader gets at once, held against readers of three kinds: near, far away, and at the end of the log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from chronik.broker.fetch_sessions import Wanted
from chronik.broker.portions import LARGEST_BYTES, SMALLEST_BYTES, Portions
from chronik.wire.messages.fetch import FetchPartition

MS, US = 1_000_000, 1_000
CACHE_BYTES = 1 << 20


def near(size_bytes: int) -> int:
    """Nanoseconds for an answer: what leaves the cache takes twice as long, and asking costs next to nothing."""
    return 50 * US + size_bytes * (1 if size_bytes <= CACHE_BYTES else 2)


def far(size_bytes: int) -> int:
    """Over a line of a gigabyte a second to another continent."""
    return 100 * MS + size_bytes


def busy(size_bytes: int) -> int:
    """It does its work between two requests, whatever it got."""
    return 20 * MS


def read(portions: Portions, takes_ns: Callable[[int], int], answers: int, asked_bytes: int = 1 << 30) -> list[int]:
    """Sizes of so many answers to a reader that never reaches the end."""
    sizes: list[int] = []
    now_ns = 0
    for _ in range(answers):
        portions.asked(now_ns)
        sizes.append(min(asked_bytes, portions.size_bytes))
        portions.given(sizes[-1], now_ns, [])
        now_ns += takes_ns(sizes[-1])
    return sizes


def test_a_reader_that_is_near_gets_little_at_a_time() -> None:
    sizes = read(Portions(), near, 2000)
    assert sizes.count(SMALLEST_BYTES) > 1800
    assert max(sizes) <= 2 * SMALLEST_BYTES


def test_larger_answers_are_tried_again_and_again() -> None:
    """A laptop goes home with its consumer, and what was near is far away."""
    portions = Portions()
    read(portions, near, 1000)
    assert read(portions, far, 1000)[-1] > 8 * SMALLEST_BYTES


@pytest.mark.parametrize("reader", [far, busy])
def test_a_reader_that_is_far_away_or_slow_soon_gets_much(reader: Callable[[int], int]) -> None:
    assert max(read(Portions(), reader, 8)) == 2 * SMALLEST_BYTES
    assert read(Portions(), reader, 60)[-1] >= 32 * SMALLEST_BYTES


def test_a_reader_that_comes_nearer_gets_less_again() -> None:
    portions = Portions()
    assert read(portions, busy, 1000)[-1] >= LARGEST_BYTES // 2
    sizes = read(portions, near, 2000)
    assert sizes[-1] <= 2 * SMALLEST_BYTES


def test_a_pause_now_and_then_misleads_nobody() -> None:
    chance = Random(1)
    sizes = read(Portions(), lambda size: near(size) + (chance.random() < 0.2) * 40 * MS, 2000)
    assert sizes.count(SMALLEST_BYTES) > 1600


def test_who_never_asks_for_more_is_offered_no_more() -> None:
    portions = Portions()
    assert set(read(portions, far, 500, asked_bytes=SMALLEST_BYTES // 4)) == {SMALLEST_BYTES // 4}
    assert portions.size_bytes == SMALLEST_BYTES


def test_a_reader_at_the_end_of_the_log_says_nothing_about_sizes() -> None:
    portions = Portions()
    read(portions, far, 100)
    size_bytes = portions.size_bytes
    for now_ns in range(0, 1000 * MS, MS):
        portions.asked(now_ns)
        portions.given(100, now_ns, [])
    assert portions.size_bytes == size_bytes


def wanted(*indices: int, name: str = "t") -> list[Wanted]:
    return [
        Wanted(name, bytes(16), FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1))
        for index in indices
    ]


def test_the_one_behind_the_last_served_comes_first() -> None:
    portions, asked = Portions(), wanted(5, 6, 7)
    assert portions.first_of(asked) == 0
    portions.given(1, 0, asked[:2])
    assert portions.first_of(asked) == 2
    portions.given(1, 0, asked[2:])
    assert portions.first_of(asked) == 0
    assert portions.first_of(wanted(7, 5, 6)) == 1
    assert portions.first_of(wanted(7, 5, 6, name="other")) == 0
    assert portions.first_of([]) == 0


def test_an_answer_without_records_changes_no_turn() -> None:
    portions, asked = Portions(), wanted(5, 6, 7)
    portions.given(1, 0, asked[:1])
    portions.given(0, 0, [])
    assert portions.first_of(asked) == 1
