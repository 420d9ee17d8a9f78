"""Leader epochs: what OffsetForLeaderEpoch answers, and what truncation leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.storage.leader_epochs import LeaderEpochs

EPOCHS = LeaderEpochs([(2, 10), (4, 20), (7, 35)])


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (7, (7, 50)),  # the current one ends where the log ends
        (4, (4, 35)),
        (5, (4, 35)),  # nothing was written in 5: the largest epoch below it
        (6, (4, 35)),
        (2, (2, 20)),
        (3, (2, 20)),
        (1, (1, 10)),  # older than all we know: it ended where our first begins
        (8, (-1, -1)),  # we have never heard of it
        (-1, (-1, -1)),
    ],
)
def test_the_end_of_an_epoch_is_where_the_next_one_starts(epoch: int, expected: tuple[int, int]) -> None:
    """KIP-279: a follower that gets a smaller epoch back asks again with that one."""
    assert EPOCHS.end_of(epoch, 50) == expected


def test_an_empty_log_knows_no_epoch() -> None:
    assert LeaderEpochs().end_of(0, 0) == (-1, -1)
    assert LeaderEpochs().epoch_of(0) == -1


def test_an_epoch_without_records_leaves_no_entry() -> None:
    """A leader elected and deposed before any write must not shadow the next."""
    epochs = LeaderEpochs([(1, 0), (2, 5), (3, 5)])
    assert epochs.entries() == [(1, 0), (3, 5)]


def test_cutting_the_start_keeps_the_epoch_that_wrote_it() -> None:
    epochs = LeaderEpochs([(2, 10), (4, 20), (7, 35)])
    epochs.truncate_start(25)
    assert epochs.entries() == [(4, 25), (7, 35)]
    epochs.truncate_end(35)
    assert (epochs.entries(), epochs.latest) == ([(4, 25)], 4)
    epochs.truncate_end(25)
    assert (epochs.entries(), epochs.latest) == ([], -1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 45), st.integers(0, 45))
def test_epochs_agree_with_a_list_of_records(steps: list[int], cut: int, asked: int) -> None:
    """The dumb twin: the epoch of every record in a list."""
    written: list[int] = []
    epochs = LeaderEpochs()
    epoch = 0
    for step in steps:
        epoch += step
        epochs.assign(epoch, len(written))
        written.append(epoch)
    del written[cut:]
    epochs.truncate_end(cut)
    assert [epochs.epoch_of(offset) for offset in range(len(written))] == written
    if written and written[0] <= asked <= written[-1]:
        below = [offset for offset, each in enumerate(written) if each <= asked]
        assert epochs.end_of(asked, len(written)) == (written[below[-1]], below[-1] + 1)
