"""What a log does for its producers takes its turns with other work, however many there are."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pytest

from chronik.runtime.pieces import ITEMS_PER_PIECE, at_once
from chronik.storage import producer_state
from chronik.storage.producer_state import ProducerState

COUNT = 10_000
EXPIRATION_MS = 1_000


def with_producers(count: int, *, transactional: bool = False) -> ProducerState:
    state = ProducerState()
    for number in range(count):
        state.append(number, 0, 0, 0, number, number, 1, transactional=transactional)
    return state


def test_producers_expire_a_few_at_a_time() -> None:
    """A hundred thousand producers at once would hold the loop for a tenth of a second."""
    state = with_producers(COUNT)
    assert sum(state.expiring(5, EXPIRATION_MS)) == COUNT // ITEMS_PER_PIECE
    left, turns = COUNT, 0
    for pieces in state.expiring(6 + EXPIRATION_MS, EXPIRATION_MS):
        assert left - len(state.producers) <= pieces * ITEMS_PER_PIECE
        left, turns = len(state.producers), turns + 1
    assert turns == COUNT // ITEMS_PER_PIECE
    assert not state.producers


def test_a_producer_that_writes_while_others_expire_is_kept() -> None:
    state = with_producers(2 * ITEMS_PER_PIECE)
    at_once(state.expiring(5, EXPIRATION_MS))
    last = 2 * ITEMS_PER_PIECE - 1
    work = state.expiring(6 + EXPIRATION_MS, EXPIRATION_MS)
    next(work)
    state.append(last, 0, 1, 1, COUNT, COUNT, 2, transactional=False)
    state.append(COUNT, 0, 0, 0, COUNT + 1, COUNT + 1, 2, transactional=False)
    del state.producers[last - 1]  # as a cut does
    at_once(work)
    assert list(state.producers) == [last, COUNT]


def test_the_stable_offset_looks_at_few_of_the_decisions_that_are_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for with each fetch. A bisection looks at fourteen of ten thousand."""
    state = with_producers(COUNT, transactional=True)
    for number in range(COUNT):
        state.end_transaction(number, 0, 0, COUNT + number, 2, committed=True)
    looked_at = 0

    def counted(index: int) -> Any:
        def get(item: tuple[int, ...]) -> int:
            nonlocal looked_at
            looked_at += 1
            return real(item)  # type: ignore[no-any-return]

        real = itemgetter(index)
        return get

    monkeypatch.setattr(producer_state, "itemgetter", counted)
    assert [state.last_stable_offset(COUNT) for _ in range(10)] == [0] * 10
    assert looked_at <= 10 * 20
    assert state.last_stable_offset(COUNT + 1) == 1
