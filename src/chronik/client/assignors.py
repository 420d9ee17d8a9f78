"""Assigns partitions to members, as the leader of a classic group does. Pure functions of the members' subscriptions.

`range` and `roundrobin` give every group the same result as Kafka's own assignors of these names, because members of
one group may be different clients and any of them may lead. `cooperative-sticky` keeps partitions with their owners as
far as balance allows. A partition that moves is unassigned until its owner has revoked it in the next round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.runtime.invariants import check


class Subscription(NamedTuple):
    """A member's data from its JoinGroup request."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = -1  # when it got them; if two members claim a partition, the later generation wins
    instance_id: str | None = None


Assignment = dict[str, list[TopicPartition]]  # member id: partitions; includes every member


class Assignor(Protocol):
    name: str
    is_cooperative: bool

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        """`counts` has the partition count of every existing topic; other topics are not assigned."""


def in_order(members: Mapping[str, Subscription]) -> list[str]:
    """Kafka's order of members: static ones by their instance id, then the others by their member id."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return (True, member_id) if instance_id is None else (False, instance_id)

    return sorted(members, key=place)


def partitions_of(topics: Iterable[str], counts: Mapping[str, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic in sorted(topics) for index in range(counts.get(topic, 0))]


def _topics_of(members: Mapping[str, Subscription]) -> set[str]:
    return {topic for member in members.values() for topic in member.topics}


class RangeAssignor:
    """Per topic, a contiguous range for each member; the first members get one more if it does not divide evenly."""

    name = "range"
    is_cooperative = False

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assigned: Assignment = {member_id: [] for member_id in members}
        ordered = in_order(members)
        for topic in sorted({topic for member in members.values() for topic in member.topics}):
            readers = [member_id for member_id in ordered if topic in members[member_id].topics]
            each, extra = divmod(counts.get(topic, 0), len(readers))
            first = 0
            for index, member_id in enumerate(readers):
                count = each + (index < extra)
                assigned[member_id] += [TopicPartition(topic, first + at) for at in range(count)]
                first += count
        check(
            sum(map(len, assigned.values())) == sum(counts.get(each, 0) for each in _topics_of(members)),
            "18 every partition has an owner",
            assigned={member_id: len(partitions) for member_id, partitions in assigned.items()},
        )
        return assigned


class RoundRobinAssignor:
    """All partitions of all topics in turn, skipping members that do not read the topic."""

    name = "roundrobin"
    is_cooperative = False

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        assigned: Assignment = {member_id: [] for member_id in members}
        ordered = in_order(members)
        turn = 0
        for at in partitions_of({topic for member in members.values() for topic in member.topics}, counts):
            while at.topic not in members[ordered[turn % len(ordered)]].topics:
                turn += 1
            assigned[ordered[turn % len(ordered)]].append(at)
            turn += 1
        check(
            sum(map(len, assigned.values())) == sum(counts.get(each, 0) for each in _topics_of(members)),
            "18 every partition has an owner",
            assigned={member_id: len(partitions) for member_id, partitions in assigned.items()},
        )
        return assigned


class CooperativeStickyAssignor:
    """Balanced like `roundrobin`, with as few moves as possible, and never while the old owner still reads."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Assignment:
        owners = self._owners(counts, members)
        wanted = self._balance(counts, members, owners)
        # The owner of a partition that moves finds it missing from its assignment, revokes it and rejoins.
        return {
            member_id: sorted(at for at in partitions if owners.get(at, member_id) == member_id)
            for member_id, partitions in wanted.items()
        }

    def _owners(self, counts: Mapping[str, int], members: Mapping[str, Subscription]) -> dict[TopicPartition, str]:
        """The owner of each partition; if two claim it, the one of the later generation; in a tie, none."""
        claims: dict[TopicPartition, list[tuple[int, str]]] = {}
        for member_id in in_order(members):
            member = members[member_id]
            for at in member.owned:
                if at.partition < counts.get(at.topic, 0) and at.topic in member.topics:
                    claims.setdefault(at, []).append((member.generation, member_id))
        owners = {}
        for at, claimed in claims.items():
            latest = max(generation for generation, _ in claimed)
            holders = [member_id for generation, member_id in claimed if generation == latest]
            if len(holders) == 1:
                owners[at] = holders[0]
        return owners

    def _balance(
        self, counts: Mapping[str, int], members: Mapping[str, Subscription], owners: Mapping[TopicPartition, str]
    ) -> dict[str, list[TopicPartition]]:
        """Keeps owners, gives free partitions to the member with the fewest, then evens out as far as it helps."""
        held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in in_order(members)}
        readers = {
            topic: [member_id for member_id in held if topic in members[member_id].topics]
            for topic in sorted({topic for member in members.values() for topic in member.topics})
        }
        free = []
        for at in partitions_of(readers, counts):
            if at in owners:
                held[owners[at]].append(at)
            else:
                free.append(at)
        # The partitions with the fewest possible readers first: they have the fewest choices.
        for at in sorted(free, key=lambda at: (len(readers[at.topic]), at)):
            least = min(readers[at.topic], key=lambda member_id: len(held[member_id]))
            held[least].append(at)
        total = sum(map(len, held.values()))
        self._even_out(held, readers)
        check(
            sum(map(len, held.values())) == total == len(partitions_of(readers, counts)),
            "18 every partition has an owner",
            held={member_id: len(partitions) for member_id, partitions in held.items()},
        )
        return held

    def _even_out(self, held: dict[str, list[TopicPartition]], readers: Mapping[str, list[str]]) -> None:
        """Moves one partition at a time from a member to another eligible reader that has at least two fewer."""
        moved = True
        while moved:
            moved = False
            for giver in sorted(held, key=lambda member_id: -len(held[member_id])):
                for at in reversed(held[giver]):
                    taker = min(readers[at.topic], key=lambda member_id: len(held[member_id]))
                    if len(held[giver]) - len(held[taker]) >= 2:
                        held[giver].remove(at)
                        held[taker].append(at)
                        moved = True
                        break


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor for assignor in (RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor())
}


def assignor_named(name: str) -> Assignor:
    try:
        return ASSIGNORS[name]
    except KeyError:
        raise ClientError(f"there is no assignor {name!r}, only {', '.join(ASSIGNORS)}") from None
