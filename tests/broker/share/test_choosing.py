"""Which records a member gets: whole batches, no more than a limit, and fewer the more often they have failed.

`tests/oracle/test_compat_share_fetch.py` compares the same with Kafka.
"""

from __future__ import annotations

import pytest

from chronik.broker.share.acquisition import RELEASE, Acknowledgement, Acquired, Acquisition, Written
from chronik.broker.share.choosing import BATCH_OPTIMIZED, RECORD_LIMIT, Choice
from chronik.broker.share.runs import Span

BATCHES = [Span(5 * n, 5 * n + 4) for n in range(6)]
FAR = 10**12


def choice(fetch_offset: int, records_max: int, mode: int = BATCH_OPTIMIZED, batch_size: int = 500) -> Choice:
    return Choice(fetch_offset, records_max, mode, batch_size, 5, 2_000)


def acquire(subject: Acquisition, batches: list[Span], asked: Choice) -> list[tuple[int, int, int]]:
    return [tuple(each) for each in subject.acquire(batches, "m", asked, FAR)[0]]  # type: ignore[misc]


def release(subject: Acquisition, first: int, last: int) -> None:
    begun = subject.acknowledge("m", [Acknowledgement(first, last, [RELEASE])], delivery_count_max=5)
    assert isinstance(begun, Written)
    subject.complete(begun)


@pytest.mark.parametrize(
    ("mode", "records_max", "batch_size", "acquired"),
    [
        (BATCH_OPTIMIZED, 7, 500, [(0, 9, 1)]),
        (BATCH_OPTIMIZED, 7, 5, [(0, 4, 1), (5, 9, 1)]),
        (BATCH_OPTIMIZED, 500, 12, [(0, 14, 1), (15, 29, 1)]),
        (RECORD_LIMIT, 7, 5, [(0, 6, 1)]),
        (RECORD_LIMIT, 500, 5, [(0, 29, 1)]),
    ],
)
def test_new_records_come_in_batches(
    mode: int, records_max: int, batch_size: int, acquired: list[tuple[int, int, int]]
) -> None:
    assert acquire(Acquisition(0), BATCHES, choice(0, records_max, mode, batch_size)) == acquired


def test_a_batch_that_fails_again_and_again_is_split_until_its_records_are_alone() -> None:
    """One of eight is poison. Together they would all be given up after five deliveries."""
    subject, batches = Acquisition(0), [Span(0, 7)]
    seen = []
    for _ in range(40):
        taken = acquire(subject, batches, choice(subject.next_fetch_offset, 500))
        if not taken:
            break
        seen += taken
        for first, last, _ in taken:
            release(subject, first, last)
    assert seen[:4] == [(0, 7, 1), (0, 7, 2), (0, 7, 3), (0, 3, 4)]
    last_attempts = [(first, last) for first, last, count in seen if count == 5]
    assert last_attempts == [(offset, offset) for offset in range(8)]
    assert subject.start_offset == subject.end_offset == 8


def test_nothing_goes_with_records_that_may_be_poison() -> None:
    subject = Acquisition(0)
    for _ in range(3):
        assert acquire(subject, BATCHES[:1], choice(0, 500))
        release(subject, 0, 4)
    taken, may_have_more = subject.acquire(BATCHES, "m", choice(0, 500), FAR)
    assert (taken, may_have_more) == ([Acquired(0, 1, 4)], False)


def test_two_thousand_records_in_flight_are_a_few_runs() -> None:
    subject, batches = Acquisition(0), [Span(n, n) for n in range(2_000)]
    while subject.can_acquire(2_000):
        assert acquire(subject, batches[subject.next_fetch_offset :], choice(subject.next_fetch_offset, 500))
    assert subject.in_flight_count == 2_000
    assert len(list(subject.runs)) == 4
    release(subject, 500, 1_499)
    assert len(list(subject.runs)) <= 6
