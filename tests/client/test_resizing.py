"""More and fewer replicas: which brokers get one and which lose one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.client.admin.balance import CannotPlace
from chronik.client.admin.resizing import resized
from chronik.client.topology import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
RACKS = {1: "x", 2: "x", 3: "y", 4: "z"}


@pytest.mark.parametrize(
    ("placed", "in_sync", "factor", "expected"),
    [
        ((1,), (1,), 2, (1, 3)),  # another rack than that of 1
        ((1, 3), (1, 3), 3, (1, 3, 4)),
        ((1, 3, 4), (1, 3, 4), 4, (1, 3, 4, 2)),
        ((1, 2, 3), (1, 2, 3), 2, (1, 3)),  # rack x has another
        ((1, 2, 3), (1, 2), 2, (1, 2)),  # 3 is not in sync
        ((9, 2, 3), (2, 3), 2, (2, 3)),  # 9 is gone
        ((1, 3), (3,), 1, (3,)),  # only 3 has everything
        ((1, 3), (1, 3), 2, None),
    ],
)
def test_what_is_of_most_use_stays(
    placed: tuple[int, ...], in_sync: tuple[int, ...], factor: int, expected: tuple[int, ...] | None
) -> None:
    """No data moves that need not move, and none is lost that only one broker has."""
    assert resized(RACKS, {A: placed}, {A: in_sync}, factor) == ({} if expected is None else {A: expected})


def test_whoever_holds_least_takes_more_whichever_topic_it_is() -> None:
    """A new replica on the fullest broker would be the next thing to move."""
    other = {TopicPartition("other", index): (2,) for index in range(3)}
    racks = {1: None, 2: None, 3: None}
    assert resized(racks, {A: (1,), B: (1,), **other}, {A: (1,), B: (1,)}, 2) == {A: (1, 3), B: (1, 3)}


def test_more_replicas_than_brokers_are_refused() -> None:
    """With the reason."""
    with pytest.raises(CannotPlace, match="add a broker first"):
        resized({1: None}, {A: (1,)}, {A: (1,)}, 2)


@given(
    st.dictionaries(st.integers(1, 6), st.sampled_from(["x", "y", None]), min_size=3),
    st.lists(st.integers(1, 6), min_size=1, max_size=5, unique=True),
    st.integers(1, 3),
    st.data(),
)
def test_replicas_are_as_many_as_asked_for_and_none_is_replaced(
    racks: dict[int, str | None], placed: list[int], factor: int, data: st.DataObject
) -> None:
    """Every replica before is one after, or the other way round."""
    in_sync = data.draw(st.lists(st.sampled_from(placed), min_size=1, unique=True))
    try:
        after = resized(racks, {A: tuple(placed)}, {A: in_sync}, factor).get(A, tuple(placed))
    except CannotPlace:
        assert len(set(placed) | set(racks)) < factor or len(placed) < factor
        return
    assert len(set(after)) == len(after) == factor
    assert set(after) <= set(placed) or set(placed) <= set(after)
    if set(in_sync) & set(racks) and factor <= len(placed):
        assert set(after) & set(in_sync) & set(racks)
