"""Snapshots of producers are made in slices while others write: they show the state at their beginning."""

from __future__ import annotations

import pytest

from chronik.runtime.pieces import at_once
from chronik.storage.producer_state import ProducerState

COUNT = 20


def with_producers() -> ProducerState:
    state = ProducerState()
    for producer_id in range(COUNT):
        for sequence in range(3):
            offset = 3 * producer_id + sequence
            state.append(producer_id, 0, sequence, sequence, offset, offset, 1, transactional=False)
    begin(state, COUNT, 100)
    return state


def begin(state: ProducerState, producer_id: int, offset: int) -> None:
    state.append(producer_id, 0, 0, 0, offset, offset, 1, transactional=True)


def encoded_while(state: ProducerState, at: int, change: str) -> bytes | None:
    """A snapshot during which something changes when `at` producers are in it."""
    work = state.encoding()
    for _ in range(at):
        next(work)
    match change:
        case "batch":
            for producer_id in range(COUNT):
                state.append(producer_id, 0, 3, 3, 200 + producer_id, 200 + producer_id, 2, transactional=False)
        case "epoch":
            state.append(5, 1, 0, 0, 200, 200, 2, transactional=False)
        case "new producer":
            begin(state, 99, 200)
        case "marker":
            state.end_transaction(COUNT, 0, 0, 200, 2, committed=True)
        case "cut":
            state.end_transaction(COUNT, 0, 0, 200, 2, committed=True)
            state.settle(1000)
            state.producers.pop(COUNT)
            assert state.take_back_from(30)
        case "delete":
            state.begin_later({COUNT: None})
        case "expire":
            at_once(state.expiring(1, 0))
            at_once(state.expiring(100, 1))
        case "clear":
            state.clear()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("change", ["batch", "epoch", "new producer", "marker"])
@pytest.mark.parametrize("at", [1, 5, 6, COUNT + 1])
def test_what_is_written_meanwhile_is_not_in_it(change: str, at: int) -> None:
    """Otherwise recovery, which reads the log from the snapshot's end, would find batches that the snapshot contains
    already."""
    state = with_producers()
    before = state.encode()
    assert encoded_while(state, at, change) == before
    assert state.encode() != before
    assert ProducerState.decode(before).encode() == before


@pytest.mark.parametrize("change", ["cut", "delete", "expire", "clear"])
def test_it_is_given_up_when_the_past_changes(change: str) -> None:
    assert encoded_while(with_producers(), 5, change) is None


def test_a_snapshot_that_is_given_up_half_way_leaves_nothing() -> None:
    state = with_producers()
    work = state.encoding()
    next(work)
    work.close()
    assert state._before is None
    assert state.encode() == with_producers().encode()
