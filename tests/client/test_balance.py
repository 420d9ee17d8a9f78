"""Plans for replicas: even, over racks, complete, and with as few moves as that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import pytest

from chronik.client.admin.balance import CannotPlace, plan
from chronik.client.topology import TopicPartition

Cluster = dict[TopicPartition, tuple[int, ...]]


def topic(*replicas: tuple[int, ...], name: str = "t") -> Cluster:
    return {TopicPartition(name, index): each for index, each in enumerate(replicas)}


def applied(before: Cluster, moves: Cluster) -> Cluster:
    return before | moves


def uneven(racks: Iterable[int], partitions: Iterable[Sequence[int]]) -> tuple[int, int]:
    """By how much brokers differ: in replicas held, in partitions preferred to lead."""
    held, led = Counter(dict.fromkeys(racks, 0)), Counter(dict.fromkeys(racks, 0))
    for replicas in partitions:
        held.update(broker for broker in replicas if broker in held)
        led.update(broker for broker in replicas[:1] if broker in led)
    return max(held.values()) - min(held.values()), max(led.values()) - min(led.values())


def test_a_balanced_cluster_is_left_alone() -> None:
    even = topic((1, 2), (2, 3), (3, 1))
    assert plan({1: None, 2: None, 3: None}, even) == {}


def test_a_new_broker_gets_its_share_and_nobody_else_moves() -> None:
    """Copying is what costs: four brokers of six partitions each need exactly that many moves."""
    racks = dict.fromkeys((1, 2, 3, 4))
    before = topic(*[(1 + n % 3, 1 + (n + 1) % 3) for n in range(12)])
    moves = plan(racks, before)
    after = applied(before, moves)
    assert uneven(racks, after.values()) == (0, 0)
    copied = sum(len(set(replicas) - set(before[at])) for at, replicas in moves.items())
    assert copied == 6


def test_leaders_are_evened_without_copying() -> None:
    """Reordering replicas costs an election and no byte."""
    before = topic((1, 2, 3), (1, 2, 3), (1, 2, 3))
    moves = plan(dict.fromkeys((1, 2, 3)), before)
    after = applied(before, moves)
    assert sorted(replicas[0] for replicas in after.values()) == [1, 2, 3]
    assert all(set(replicas) == {1, 2, 3} for replicas in after.values())


def test_leadership_passes_along_a_chain() -> None:
    """Broker 1 shares nothing with 3, but both share with 2."""
    racks = dict.fromkeys((1, 2, 3))
    before = topic((1, 2), (1, 2), (2, 3), (1, 2), (2, 3), (3, 2))
    after = applied(before, plan(racks, before))
    assert uneven(racks, after.values())[1] == 0


def test_an_emptied_broker_keeps_nothing_and_the_rest_stays() -> None:
    before = topic((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2))
    racks = dict.fromkeys((1, 2, 3))
    moves = plan(racks, before, evens=False)
    after = applied(before, moves)
    assert not any(4 in replicas for replicas in after.values())
    assert set(moves) == {at for at, replicas in before.items() if 4 in replicas}
    for at, replicas in moves.items():
        stays = [broker for broker in before[at] if broker != 4]
        assert [broker for broker in replicas if broker in stays] == stays


def test_too_few_brokers_are_named() -> None:
    with pytest.raises(CannotPlace, match=r"t-0 has 3 replicas, and only brokers \[1, 2\] are left"):
        plan(dict.fromkeys((1, 2)), topic((1, 2, 3)), evens=False)


def test_no_two_replicas_share_a_rack_that_need_not() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    before = topic((1, 2), (3, 4), (1, 3))
    after = applied(before, plan(racks, before))
    for replicas in after.values():
        assert len({racks[broker] for broker in replicas}) == 2


@pytest.mark.parametrize("seed", range(60))
def test_any_cluster_becomes_even_and_stays_valid(seed: int) -> None:
    """Whatever it was before; a second plan has nothing left to do, so `rebalance` ends."""
    random = Random(seed)
    count = random.randint(2, 7)
    with_racks = random.random() < 0.5
    racks = {broker: random.choice("abc") if with_racks else None for broker in range(1, count + 1)}
    gone = count + 1
    before: Cluster = {}
    for number in range(random.randint(1, 60)):
        factor = random.randint(1, min(3, count))
        everyone = [*racks, gone] if random.random() < 0.2 else list(racks)
        before[TopicPartition(random.choice("xyz"), number)] = tuple(random.sample(everyone, factor))
    moves = plan(racks, before)
    after = applied(before, moves)
    for at, replicas in after.items():
        assert len(replicas) == len(before[at]) == len(set(replicas))
        assert set(replicas) <= set(racks)
        names = [racks[broker] or broker for broker in replicas]
        possible = len({rack or broker for broker, rack in racks.items()})
        assert len(set(names)) == min(possible, len(replicas)), "as many racks as there can be"
    held, led = uneven(racks, after.values())
    if not with_racks:
        assert held <= 1
        assert led <= 1 or len(after) < len(racks) or Counter(map(len, after.values()))[1] > 0
    assert plan(racks, after) == {}


def copied(before: Cluster, after: Cluster) -> int:
    return sum(len(set(replicas) - set(before[at])) for at, replicas in after.items())


def copies_needed(racks: dict[int, str | None], before: Cluster) -> int:
    """The replicas of removed brokers, plus the number that brokers have too many or too few, whichever is larger."""
    held = Counter(dict.fromkeys(racks, 0))
    held.update(broker for replicas in before.values() for broker in replicas if broker in racks)
    left = sum(broker not in racks for replicas in before.values() for broker in replicas)
    low, more = divmod(sum(held.values()) + left, len(racks))
    high = low + bool(more)
    too_many = sum(max(0, count - high) for count in held.values())
    too_few = sum(max(0, low - count) for count in held.values())
    return left + max(too_many, too_few - left, 0)


def test_hardly_anything_is_copied_that_need_not_be() -> None:
    """Copies are the cost of a rebalance. Occasionally one more is needed, where a broker already has a replica."""
    needed = more = 0
    for seed in range(200):
        random = Random(seed)
        racks = dict.fromkeys(range(1, random.randint(3, 8)))
        before: Cluster = {
            TopicPartition("t", number): tuple(random.sample(list(racks), random.randint(1, min(3, len(racks)))))
            for number in range(random.randint(1, 60))
        }
        after = applied(before, plan(racks, before))
        assert copied(before, after) >= copies_needed(racks, before)
        needed += copies_needed(racks, before)
        more += copied(before, after) - copies_needed(racks, before)
    assert more < needed // 20
