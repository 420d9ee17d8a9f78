"""The simple assignor: everybody reads, every partition is read, members differ by one, and little moves."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.coordinator.groups.share.assignor import Subscriber, assign
from chronik.coordinator.groups.share.member import Partitions

T, U = b"t" * 16, b"u" * 16


def subscribers(count: int, before: dict[str, Partitions] | None = None) -> list[Subscriber]:
    return [Subscriber(f"m{n:03}", frozenset({T}), (before or {}).get(f"m{n:03}", {})) for n in range(count)]


def readers(found: dict[str, Partitions]) -> dict[tuple[bytes, int], int]:
    counts: dict[tuple[bytes, int], int] = {}
    for target in found.values():
        for topic_id, parts in target.items():
            for each in parts:
                counts[topic_id, each] = counts.get((topic_id, each), 0) + 1
    return counts


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 12))
def test_members_of_one_subscription_are_balanced(members: int, partitions: int, before: int) -> None:
    """Also after members came or went: the balance does not get worse with time."""
    earlier = assign(subscribers(before), {T: range(partitions)})
    found = assign(subscribers(members, earlier), {T: range(partitions)})
    per_partition = -(-members // partitions)
    assert len(found) == members
    counts = readers(found)
    assert set(counts) == {(T, each) for each in range(partitions)}  # nothing is left unread
    assert max(counts.values()) <= per_partition
    sizes = [sum(map(len, target.values())) for target in found.values()]
    assert min(sizes) >= 1  # nobody is idle
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 10), st.integers(1, 10))
def test_nothing_moves_while_nothing_changes(members: int, partitions: int) -> None:
    """A member that gives up a partition gives up the records that it holds."""
    first = assign(subscribers(members), {T: range(partitions)})
    assert assign(subscribers(members, first), {T: range(partitions)}) == first


def test_a_member_that_leaves_takes_only_its_own_along() -> None:
    """The others keep what they have, as far as the balance allows."""
    first = assign(subscribers(4), {T: range(8)})
    left = [each for each in subscribers(4, first) if each.member_id != "m001"]
    second = assign(left, {T: range(8)})
    assert all(first[name][T] <= second[name][T] for name in second)


def test_members_get_only_what_they_subscribe_to_and_what_has_state() -> None:
    """A partition without state cannot be read yet, and a topic that nobody named must not be."""
    mixed = [
        Subscriber("both", frozenset({T, U}), {}),
        Subscriber("one", frozenset({U}), {}),
        Subscriber("none", frozenset(), {}),
    ]
    found = assign(mixed, {T: [0, 2], U: [1]})
    assert found["both"][T] == {0, 2}
    assert found["one"] == {U: frozenset({1})}
    assert found["none"] == {}
    assert readers(found)[U, 1] == 2
    assert assign([], {T: [0]}) == {}
    assert assign(mixed[:1], {}) == {"both": {}}
    gone = [Subscriber("a", frozenset({T}), {T: frozenset({5}), U: frozenset({0})})]
    assert assign(gone, {T: [0]}) == {"a": {T: frozenset({0})}}
