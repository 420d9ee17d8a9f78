"""How reports about records are merged: as in Kafka 4.3, and the same as if each record were looked at by itself."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.coordinator.share.batches import merged
from chronik.coordinator.share.persister import UNKNOWN_OFFSET, StateBatch

B = StateBatch
AVAILABLE, DONE, ARCHIVED = 0, 2, 4


@pytest.mark.parametrize(
    ("known", "reported", "start", "expected"),
    [
        ([], [B(0, 9, 0, 1)], 0, [B(0, 9, 0, 1)]),
        ([B(0, 9, 0, 1)], [], 0, [B(0, 9, 0, 1)]),
        # What is before the start is not kept.
        ([B(0, 9, 0, 1), B(10, 12, 2, 1)], [], 5, [B(5, 9, 0, 1), B(10, 12, 2, 1)]),
        ([B(0, 9, 0, 1)], [B(0, 4, 2, 1)], 10, []),
        ([B(0, 9, 0, 1)], [B(20, 20, 0, 1)], UNKNOWN_OFFSET, [B(0, 9, 0, 1), B(20, 20, 0, 1)]),
        # Neighbours that say the same are one; others are not.
        ([B(0, 4, 2, 1)], [B(5, 9, 2, 1)], 0, [B(0, 9, 2, 1)]),
        ([B(5, 9, 2, 1)], [B(0, 4, 2, 1)], 0, [B(0, 9, 2, 1)]),
        ([B(0, 1, 2, 1), B(4, 5, 2, 1)], [B(2, 3, 2, 1)], 0, [B(0, 5, 2, 1)]),
        ([B(0, 4, 2, 1)], [B(5, 9, 2, 2)], 0, [B(0, 4, 2, 1), B(5, 9, 2, 2)]),
        ([B(0, 4, 2, 1)], [B(6, 9, 2, 1)], 0, [B(0, 4, 2, 1), B(6, 9, 2, 1)]),
        # The higher count holds, whichever came first; of equal counts the higher state.
        ([B(0, 9, 0, 1)], [B(3, 5, 0, 2)], 0, [B(0, 2, 0, 1), B(3, 5, 0, 2), B(6, 9, 0, 1)]),
        ([B(3, 5, 0, 2)], [B(0, 9, 0, 1)], 0, [B(0, 2, 0, 1), B(3, 5, 0, 2), B(6, 9, 0, 1)]),
        ([B(0, 9, 2, 1)], [B(3, 12, 0, 1)], 0, [B(0, 9, 2, 1), B(10, 12, 0, 1)]),
        ([B(0, 9, 0, 1)], [B(0, 9, 2, 1)], 0, [B(0, 9, 2, 1)]),
        ([B(0, 9, 4, 5)], [B(0, 9, 0, 4)], 0, [B(0, 9, 4, 5)]),
        ([B(0, 9, 2, 1)], [B(0, 9, 0, 2)], 0, [B(0, 9, 0, 2)]),
    ],
)
def test_reports_are_merged(
    known: list[StateBatch], reported: list[StateBatch], start: int, expected: list[StateBatch]
) -> None:
    """A record that was done with must not come back, and its count must not fall (planted bug S4)."""
    assert merged(known, reported, start) == expected


spans = st.tuples(
    st.integers(0, 30), st.integers(0, 8), st.sampled_from([AVAILABLE, DONE, ARCHIVED]), st.integers(1, 4)
)
reports = st.lists(spans.map(lambda each: B(each[0], each[0] + each[1], each[2], each[3])), max_size=6)


@given(st.lists(reports, max_size=6), st.integers(-1, 12))
def test_each_record_has_the_strongest_of_its_reports(told: list[list[StateBatch]], start: int) -> None:
    """The order of reports does not matter, and neither does how they were cut into batches."""
    found: list[StateBatch] = []
    forwards: list[StateBatch] = []
    strongest: dict[int, tuple[int, int]] = {}
    for each in told:
        found = merged(found, each, start)
        for batch in each:
            for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
                strongest[offset] = max(strongest.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
    for each in reversed(told):
        forwards = merged(forwards, list(reversed(each)), start)
    assert found == forwards
    records = {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in found
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert records == strongest
    for left, right in pairwise(found):
        assert left.last_offset < right.first_offset
        assert left.last_offset + 1 < right.first_offset or left[2:] != right[2:]
