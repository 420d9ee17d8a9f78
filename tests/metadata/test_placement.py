"""Replicas spread over brokers and racks, leaders too, and always the same way."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.metadata.errors import MetadataRefused
from chronik.metadata.image import Broker
from chronik.metadata.placement import Circle
from chronik.wire.error_codes import ErrorCode


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> Broker:
    return Broker(broker_id, 1, bytes(16), fenced, False, rack, (), {}, ())


def circle(racks: list[str | None], fenced: tuple[int, ...] = ()) -> Circle:
    return Circle([broker(at, rack, fenced=at in fenced) for at, rack in enumerate(racks)])


seeds = st.binary(min_size=16, max_size=16)
clusters = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=1, max_size=9)


@given(clusters, st.integers(1, 40), st.integers(1, 5), seeds, st.data())
def test_a_partition_has_distinct_brokers_on_as_many_racks_as_can_be(
    racks: list[str | None], partitions: int, factor: int, seed: bytes, data: st.DataObject
) -> None:
    """The loss of one rack or broker must affect as few replicas of a partition as possible."""
    factor = min(factor, len(racks))
    placed = circle(racks).place(partition_count=partitions, replication_factor=factor, seed=seed)
    distinct = len({rack or at for at, rack in enumerate(racks)})
    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[each] or each for each in replicas}) == min(factor, distinct)


@given(clusters, st.integers(1, 60), st.integers(1, 4), seeds)
def test_leaders_differ_by_one_at_most(racks: list[str | None], partitions: int, factor: int, seed: bytes) -> None:
    """The leader does most of the work."""
    factor = min(factor, len(racks))
    placed = circle(racks).place(partition_count=partitions, replication_factor=factor, seed=seed)
    led = Counter(replicas[0] for replicas in placed)
    counts = [led[at] for at in range(len(racks))]
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), seeds)
def test_replicas_are_even_over_equal_racks(racks: int, each: int, factor: int, turns: int, seed: bytes) -> None:
    """With as many brokers in each rack, whole turns of the circle give everyone the same."""
    names: list[str | None] = [f"rack-{at % racks}" for at in range(racks * each)]
    factor = min(factor, len(names))
    placed = circle(names).place(partition_count=len(names) * turns, replication_factor=factor, seed=seed)
    held = Counter(broker_id for replicas in placed for broker_id in replicas)
    counts = [held[at] for at in range(len(names))]
    assert sum(counts) == len(names) * turns * factor
    assert max(counts) - min(counts) <= factor - 1 if factor > racks else max(counts) == min(counts)


def test_many_small_topics_are_even_too() -> None:
    """Most topics have few partitions: their starting points must not all be the first broker."""
    on = circle([None] * 3)
    led: Counter[int] = Counter()
    for number in range(3000):
        seed = number.to_bytes(8, "big") + bytes(8)
        led.update(replicas[0] for replicas in on.place(partition_count=1, replication_factor=3, seed=seed))
    assert sorted(led.values()) == [1000, 1000, 1000]


def test_a_lost_broker_hands_its_leaderships_to_many() -> None:
    """If all went to one neighbour, it would carry twice the load and fall next."""
    placed = circle([None] * 6).place(partition_count=60, replication_factor=3, seed=bytes(16))
    heirs = Counter(replicas[1] for replicas in placed if replicas[0] == 2)
    assert len(heirs) == 5
    assert max(heirs.values()) == 2


@given(clusters, seeds, st.integers(0, 30), st.integers(1, 30))
def test_adding_partitions_continues_where_creation_stopped(
    racks: list[str | None], seed: bytes, first: int, more: int
) -> None:
    """Growing a topic must not pile the new partitions onto the first brokers. Equal input gives equal output."""
    names: list[str | None] = [None] * len(racks)
    whole = circle(names).place(partition_count=first + more, replication_factor=1, seed=seed)
    added = circle(names).place(partition_count=more, replication_factor=1, seed=seed, first_index=first)
    assert whole[first:] == added
    assert whole == circle(names).place(partition_count=first + more, replication_factor=1, seed=seed)


def test_fenced_brokers_come_last_and_never_first() -> None:
    """They can catch up later; a leader is needed now."""
    on = circle([None] * 4, fenced=(1, 3))
    for replicas in on.place(partition_count=20, replication_factor=2, seed=bytes(16)):
        assert set(replicas) == {0, 2}
    for replicas in on.place(partition_count=20, replication_factor=4, seed=bytes(16)):
        assert set(replicas[:2]) == {0, 2}
        assert set(replicas[2:]) == {1, 3}


@pytest.mark.parametrize(("brokers", "fenced", "factor"), [(0, (), 1), (2, (0, 1), 1), (2, (), 3), (3, (2,), 4)])
def test_too_few_brokers_are_refused(brokers: int, fenced: tuple[int, ...], factor: int) -> None:
    """Creating a topic with fewer replicas than requested would silently break a promise."""
    with pytest.raises(MetadataRefused) as refused:
        circle([None] * brokers, fenced).place(partition_count=1, replication_factor=factor, seed=bytes(16))
    assert refused.value.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_neighbours_are_of_different_racks_where_sizes_allow() -> None:
    """So the usual case needs no search."""
    on = circle(["a", "a", "a", "b", "b", "c"])
    racks = ["aaabbc"[each] for each in on.live]
    assert all(left != right for left, right in zip(racks, racks[1:] + racks[:1], strict=True))
