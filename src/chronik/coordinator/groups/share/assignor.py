"""The simple assignor: every partition belongs to a member, and members share partitions where they are more.

Each partition gets as many members as it takes for every member to have one, and members differ by one partition at
most. What a member has stays with it as far as that allows. Members that subscribe to different topics are balanced
topic by topic. Pure, and the same for the same input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from chronik.coordinator.groups.share.member import Partitions

Place = tuple[bytes, int]  # topic id and partition


class Subscriber(NamedTuple):
    member_id: str
    topic_ids: frozenset[bytes]
    before: Partitions  # its last target


def assign(subscribers: Collection[Subscriber], partitions: Mapping[bytes, Collection[int]]) -> dict[str, Partitions]:
    """The target of each member. `partitions` are those that may be assigned."""
    ordered = sorted(subscribers, key=lambda each: each.member_id)
    found: dict[str, set[Place]] = {each.member_id: set() for each in ordered}
    if len({each.topic_ids for each in ordered}) <= 1:
        _share(ordered, _places(partitions, ordered[0].topic_ids if ordered else ()), found)
    else:
        for topic_id in sorted(partitions):
            readers = [each for each in ordered if topic_id in each.topic_ids]
            _share(readers, _places(partitions, (topic_id,)), found)
    return {member_id: _by_topic(places) for member_id, places in found.items()}


def _share(members: Sequence[Subscriber], places: Sequence[Place], found: dict[str, set[Place]]) -> None:
    if not members or not places:
        return
    per_place = -(-len(members) // len(places))
    least, more = divmod(per_place * len(places), len(members))
    known = set(places)
    kept = {each.member_id: _held(each, known) for each in members}
    by_held = sorted(members, key=lambda each: -len(kept[each.member_id]))
    quotas = {each.member_id: least + (number < more) for number, each in enumerate(by_held)}
    readers: dict[Place, set[str]] = {place: set() for place in places}
    left = dict(quotas)
    for each in members:
        for place in kept[each.member_id]:
            if left[each.member_id] and len(readers[place]) < per_place:
                readers[place].add(each.member_id)
                left[each.member_id] -= 1
    free = [(-count, member_id) for member_id, count in left.items() if count]
    heapify(free)
    for place in sorted(places, key=lambda each: (len(readers[each]), each)):
        passed = []
        while free and len(readers[place]) < per_place:
            count, member_id = heappop(free)
            if member_id in readers[place]:
                passed.append((count, member_id))
                continue
            readers[place].add(member_id)
            if count + 1:
                passed.append((count + 1, member_id))
        for each_free in passed:
            heappush(free, each_free)
    for place, of_place in readers.items():
        for member_id in of_place:
            found[member_id].add(place)


def _held(member: Subscriber, known: Collection[Place]) -> list[Place]:
    return sorted(
        (topic_id, each) for topic_id, parts in member.before.items() for each in parts if (topic_id, each) in known
    )


def _places(partitions: Mapping[bytes, Collection[int]], topic_ids: Collection[bytes]) -> list[Place]:
    return [(topic_id, each) for topic_id in sorted(topic_ids) for each in sorted(partitions.get(topic_id, ()))]


def _by_topic(places: Collection[Place]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, partition in places:
        found.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(parts) for topic_id, parts in found.items()}
