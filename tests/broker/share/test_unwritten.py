"""Changes that are written together: of each record the last one counts."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from chronik.broker.share.unwritten import latest
from chronik.coordinator.share.persister import StateBatch


@given(
    st.lists(
        st.lists(
            st.builds(
                lambda first, length, state, count: StateBatch(first, first + length, state, count),
                st.integers(0, 20),
                st.integers(0, 8),
                st.sampled_from([0, 2, 4]),
                st.integers(1, 5),
            ),
            max_size=4,
        ),
        max_size=4,
    )
)
def test_the_last_change_of_each_record_is_kept(changes: list[list[StateBatch]]) -> None:
    expected = {}
    for batches in changes:
        for first, last, state, count in batches:
            expected |= dict.fromkeys(range(first, last + 1), (state, count))
    kept = latest(changes)
    assert kept == sorted(kept)
    found: dict[int, tuple[int, int]] = {}
    for first, last, state, count in kept:
        assert not found.keys() & set(range(first, last + 1)), "no overlaps"
        found |= dict.fromkeys(range(first, last + 1), (state, count))
    assert found == expected
