"""The server-side assignors, which decide which member gets which partitions.

`uniform` gives all members the same number of partitions, within one, and moves as few as possible. Among the possible
members it prefers those in a rack of the partition's replicas. `range` gives each member a range of consecutive
partitions of every topic, so that the same partitions of two topics go to the same member.

Pure functions of the members and topics. Their order has no effect: member ids and topic ids break ties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from chronik.coordinator.groups.consumer.member import Target
from chronik.coordinator.groups.consumer.topics import Shape

Place = tuple[bytes, int]  # topic id and partition


class Subscriber(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    target: Target  # as computed so far


Assignor = Callable[[list[Subscriber], Mapping[bytes, Shape]], dict[str, Target]]


def assign_range(members: list[Subscriber], topics: Mapping[bytes, Shape]) -> dict[str, Target]:
    """Static members come first, by instance id, so the result stays the same after their restart."""
    ordered = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    given: dict[str, dict[bytes, frozenset[int]]] = {each.member_id: {} for each in members}
    for topic_id, shape in topics.items():
        readers = [each for each in ordered if topic_id in each.topic_ids]
        least, extra = divmod(shape.partition_count, max(len(readers), 1))
        start = 0
        for number, reader in enumerate(readers):
            end = start + least + (number < extra)
            if start < end:
                given[reader.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(given)


def assign_uniform(members: list[Subscriber], topics: Mapping[bytes, Shape]) -> dict[str, Target]:
    ordered = sorted(members, key=lambda each: each.member_id)
    held, free = _still_valid(ordered, topics)
    if all(each.topic_ids == ordered[0].topic_ids for each in ordered):
        _level(ordered, held, free, topics)
    else:
        _spread(ordered, held, free, topics)
    return {member_id: _by_topic(places) for member_id, places in held.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniform, "range": assign_range}


def _still_valid(
    members: list[Subscriber], topics: Mapping[bytes, Shape]
) -> tuple[dict[str, dict[Place, None]], dict[Place, None]]:
    """The partitions that each member may keep of its target, and the partitions that no member has."""
    free: dict[Place, None] = {
        (topic_id, index): None
        for topic_id in sorted(topics)
        for index in range(topics[topic_id].partition_count)
        if any(topic_id in each.topic_ids for each in members)
    }
    held: dict[str, dict[Place, None]] = {}
    for member in members:
        mine = held[member.member_id] = {}
        for topic_id, partitions in sorted(member.target.items()):
            if topic_id not in member.topic_ids:
                continue
            for index in sorted(partitions):
                if (topic_id, index) in free:
                    del free[topic_id, index]
                    mine[topic_id, index] = None
    return held, free


def _level(
    members: list[Subscriber],
    held: dict[str, dict[Place, None]],
    free: dict[Place, None],
    topics: Mapping[bytes, Shape],
) -> None:
    """Assigns when all members read the same topics: their numbers of partitions differ by at most one."""
    least, extra = divmod(len(free) + sum(map(len, held.values())), len(members))
    # The members with the most partitions keep one more, so that fewer partitions move.
    fullest = sorted(members, key=lambda each: (-len(held[each.member_id]), each.member_id))
    quota = {each.member_id: least + (number < extra) for number, each in enumerate(fullest)}
    for member in members:
        mine = held[member.member_id]
        over = len(mine) - quota[member.member_id]
        for place in _to_give_up(member, mine, over, topics):
            del mine[place]
            free[place] = None
    hungry = [each for each in members if len(held[each.member_id]) < quota[each.member_id]]
    for member in hungry:
        mine, rack = held[member.member_id], member.rack_id
        if rack is None:
            continue
        for place in [place for place in free if _is_near(place, rack, topics)]:
            if len(mine) == quota[member.member_id]:
                break
            mine[place] = free.pop(place)
    for member in hungry:
        mine = held[member.member_id]
        while len(mine) < quota[member.member_id]:
            place = next(iter(free))
            mine[place] = free.pop(place)


def _to_give_up(member: Subscriber, mine: dict[Place, None], over: int, topics: Mapping[bytes, Shape]) -> list[Place]:
    """The last ones of the member's partitions, preferably those in other racks."""
    if over <= 0:
        return []
    rack = member.rack_id
    places = list(reversed(mine))
    if rack is not None:
        places.sort(key=lambda place: _is_near(place, rack, topics))
    return places[:over]


def _is_near(place: Place, rack: str, topics: Mapping[bytes, Shape]) -> bool:
    racks = topics[place[0]].racks
    return bool(racks) and rack in racks[place[1]]


def _spread(
    members: list[Subscriber],
    held: dict[str, dict[Place, None]],
    free: dict[Place, None],
    topics: Mapping[bytes, Shape],
) -> None:
    """Assigns when members read different topics. Each free partition goes to the reader with the fewest. Then
    partitions move one by one, until no reader has at least two fewer than the member that would give one up."""
    readers = {topic_id: [each for each in members if topic_id in each.topic_ids] for topic_id in topics}
    # Topics with few readers come first, because they leave the least choice.
    for place in sorted(free, key=lambda place: (len(readers[place[0]]), place)):
        least = min(
            readers[place[0]],
            key=lambda each: (
                len(held[each.member_id]),
                each.rack_id is not None and not _is_near(place, each.rack_id, topics),
                each.member_id,
            ),
        )
        held[least.member_id][place] = None
    names = {topic_id: [each.member_id for each in known] for topic_id, known in readers.items()}
    while _move_one(names, held):
        pass


def _move_one(readers: Mapping[bytes, list[str]], held: dict[str, dict[Place, None]]) -> bool:
    """Moves a partition from a member with many to one with at least two fewer. If the two have no topic in common,
    other members in between each pass on a partition. Every move lowers the sum of the squares, so moving ends."""
    for most in sorted(held, key=lambda member: (-len(held[member]), member)):
        chain = _chain(most, len(held[most]) - 2, readers, held)
        for giver, topic_id, taker in chain:
            place = next(place for place in reversed(held[giver]) if place[0] == topic_id)
            del held[giver][place]
            held[taker][place] = None
        if chain:
            return True
    return False


def _chain(
    most: str, count_max: int, readers: Mapping[bytes, list[str]], held: Mapping[str, Mapping[Place, None]]
) -> list[tuple[str, bytes, str]]:
    """The shortest chain of givers, topics and takers that ends at a member with `count_max` or fewer partitions."""
    given_by: dict[str, tuple[str, bytes]] = {}
    topics_seen: set[bytes] = set()
    queue = [most]
    for giver in queue:
        for topic_id in dict.fromkeys(topic_id for topic_id, _ in held[giver]):
            if topic_id in topics_seen:
                continue
            topics_seen.add(topic_id)
            for taker in readers[topic_id]:
                if taker == most or taker in given_by:
                    continue
                given_by[taker] = giver, topic_id
                queue.append(taker)
                if len(held[taker]) <= count_max:
                    return _back(taker, given_by)
    return []


def _back(taker: str, given_by: Mapping[str, tuple[str, bytes]]) -> list[tuple[str, bytes, str]]:
    """From the end of the chain, so that each member gets a partition before it passes one on."""
    chain = []
    while taker in given_by:
        giver, topic_id = given_by[taker]
        chain.append((giver, topic_id, taker))
        taker = giver
    return chain


def _by_topic(places: Mapping[Place, None]) -> Target:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in places:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}
