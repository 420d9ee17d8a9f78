"""Assignors on the server: balance first, then as few moves as possible, then racks."""

from __future__ import annotations

import random
import time

import pytest

from chronik.coordinator.groups.consumer.assignors import ASSIGNORS, Assignor, Subscriber, assign_range, assign_uniform
from chronik.coordinator.groups.consumer.member import Target
from chronik.coordinator.groups.consumer.topics import Shape

T, U = b"t" * 16, b"u" * 16
HELD_MS_MAX = 100  # of the event loop, by anything


def members(*names: str, topics: frozenset[bytes] = frozenset({T}), targets: dict[str, Target] | None = None):  # type: ignore[no-untyped-def]
    return [Subscriber(name, None, None, topics, (targets or {}).get(name, {})) for name in names]


def counts(given: dict[str, Target]) -> list[int]:
    return sorted(sum(map(len, target.values())) for target in given.values())


def owners(given: dict[str, Target]) -> dict[tuple[bytes, int], str]:
    found: dict[tuple[bytes, int], str] = {}
    for member, target in given.items():
        for topic, partitions in target.items():
            for partition in partitions:
                assert (topic, partition) not in found, "a partition was given twice"
                found[topic, partition] = member
    return found


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@pytest.mark.parametrize("seed", range(30))
def test_every_partition_that_somebody_reads_has_one_owner_who_reads_it(assignor: Assignor, seed: int) -> None:
    dice = random.Random(seed)
    topics = {bytes([n]) * 16: Shape(dice.randrange(0, 9)) for n in range(dice.randrange(1, 5))}
    everybody = []
    for n in range(dice.randrange(1, 8)):
        read = frozenset(dice.sample(sorted(topics), dice.randrange(0, len(topics) + 1)))
        old = {topic: frozenset(dice.sample(range(12), 3)) for topic in topics if dice.random() < 0.3}
        everybody.append(Subscriber(f"m{n}", dice.choice([None, f"i{n}"]), None, read, old))
    given = assignor(everybody, topics)
    found = owners(given)
    assert set(given) == {each.member_id for each in everybody}
    readers = {each.member_id: each.topic_ids for each in everybody}
    assert all(topic in readers[member] for (topic, _), member in found.items())
    read_by_any = {topic for each in everybody for topic in each.topic_ids}
    assert set(found) == {(topic, n) for topic in read_by_any for n in range(topics[topic].partition_count)}


def test_uniform_is_balanced_within_one_over_all_topics() -> None:
    given = assign_uniform(members("a", "b", "c", topics=frozenset({T, U})), {T: Shape(4), U: Shape(4)})
    assert counts(given) == [2, 3, 3]


def test_uniform_moves_only_what_balance_asks_for() -> None:
    """A consumer whose partitions stay does not stop."""
    before = assign_uniform(members("a", "b"), {T: Shape(10)})
    grown = assign_uniform(members("a", "b", "c", targets=before), {T: Shape(10)})
    assert counts(grown) == [3, 3, 4]
    old, new = owners(before), owners(grown)
    assert sum(old[place] != new[place] for place in old) == 3, "only what the third member needs moves"
    shrunk = assign_uniform(members("a", "c", targets=grown), {T: Shape(10)})
    kept = [place for place, member in new.items() if member in "ac"]
    assert all(owners(shrunk)[place] == new[place] for place in kept), "those who stay keep what they have"


def test_uniform_prefers_members_on_a_rack_of_the_partition() -> None:
    """They fetch from a replica next to them."""
    racks = tuple(frozenset({"east" if n % 2 else "west"}) for n in range(6))
    everybody = [
        Subscriber("a", None, "east", frozenset({T}), {}),
        Subscriber("b", None, "west", frozenset({T}), {}),
    ]
    assert assign_uniform(everybody, {T: Shape(6, racks)}) == {
        "a": {T: frozenset({1, 3, 5})},
        "b": {T: frozenset({0, 2, 4})},
    }


def test_uniform_with_different_topics_leaves_no_move_that_would_help() -> None:
    everybody = [
        *members("a", topics=frozenset({T, U}), targets={"a": {T: frozenset(range(6)), U: frozenset(range(6))}}),
        *members("b", topics=frozenset({T})),
        *members("c", topics=frozenset({U})),
    ]
    assert counts(assign_uniform(everybody, {T: Shape(6), U: Shape(6)})) == [4, 4, 4]


def test_range_gives_equal_partitions_of_two_topics_to_one_member() -> None:
    """Joins of streams need it."""
    given = assign_range(members("b", "a", topics=frozenset({T, U})), {T: Shape(3), U: Shape(3)})
    assert given == {"a": {T: frozenset({0, 1}), U: frozenset({0, 1})}, "b": {T: frozenset({2}), U: frozenset({2})}}


def test_range_puts_static_members_first_by_their_own_names() -> None:
    """Their member ids change with each restart, and their partitions should not."""
    everybody = [
        Subscriber("a", None, None, frozenset({T}), {}),
        Subscriber("z", "one", None, frozenset({T}), {}),
        Subscriber("b", "two", None, frozenset({T}), {}),
    ]
    given = assign_range(everybody, {T: Shape(3)})
    assert [sorted(given[each][T]) for each in ("z", "b", "a")] == [[0], [1], [2]]


@pytest.mark.parametrize(("member_count", "partition_count"), [(100, 1_000), (3, 10_000)])
def test_a_large_group_is_assigned_within_its_turn(member_count: int, partition_count: int) -> None:
    """CPU time, so that other work on the machine does not count."""
    names = [f"m{n}" for n in range(member_count)]
    before = assign_uniform(members(*names), {T: Shape(partition_count)})
    begun = time.process_time()
    after = assign_uniform(members(*names[1:], targets=before), {T: Shape(partition_count)})
    spent_ms = (time.process_time() - begun) * 1000
    assert counts(after)[-1] - counts(after)[0] <= 1
    assert spent_ms < HELD_MS_MAX
