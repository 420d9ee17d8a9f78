"""Replica placement: evenly over brokers, each partition over as many racks as possible, leaders evenly too.

A pure function of the brokers and a seed (the topic's id), so every controller places alike. It ignores load: it
balances counts, and the seed spreads the starting points of many small topics.

Live brokers form a circle in which neighbours are in different racks where the rack sizes allow. Partition p is led by
place start + p. Its followers are at a distance from the leader that grows with each full turn, so that the leaderships
of a failed broker go to many brokers, not to one neighbour. Fenced brokers get a replica only if there are too few live
ones, and lead nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.errors import refuse
from chronik.metadata.image import Broker
from chronik.metadata.new_topics import Placement
from chronik.runtime.invariants import broken
from chronik.wire.error_codes import ErrorCode


class Circle:
    """The brokers at one moment, arranged in a circle; usable for any number of topics."""

    def __init__(self, brokers: Iterable[Broker]) -> None:
        everyone = sorted(brokers)
        self.racks = _racks([broker for broker in everyone if broker.live])
        # Live brokers only: membership in this map means that a broker is live.
        self.rack_of = {broker_id: at for at, rack in enumerate(self.racks) for broker_id in rack}
        self.live = _mix(self.racks)
        self._rows: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._placements: dict[tuple[int, ...], Placement] = {}
        self.fenced = [broker.broker_id for broker in everyone if not broker.live]

    def place(self, *, partition_count: int, replication_factor: int, seed: bytes, first_index: int = 0) -> Placement:
        """Replicas per partition, the preferred leader first. Refuses when there are fewer brokers than replicas."""
        self.require(replication_factor)
        start, shift = int.from_bytes(seed[6:8], "big"), int.from_bytes(seed[14:], "big")
        size = len(self.live)
        if len(self.racks) < size or replication_factor > size:
            return self._place(partition_count, replication_factor, start, shift, first_index)
        # Each broker is its own rack, so only the positions on the circle matter.
        seen = (partition_count, replication_factor, start % size, shift % max(size - 1, 1), first_index)
        placement = self._placements.get(seen)
        if placement is None:
            placement = self._placements[seen] = self._place(
                partition_count, replication_factor, start, shift, first_index
            )
        return placement

    def _place(
        self, partition_count: int, replication_factor: int, start: int, shift: int, first_index: int
    ) -> Placement:
        live, size = self.live, len(self.live)
        dealt = [start] * len(self.racks)  # per rack, the next broker to use
        count = min(replication_factor, size) - 1
        placed = []
        for index in range(first_index, first_index + partition_count):
            at, turn = (start + index) % size, shift + index // size
            if len(self.racks) == size:
                replicas = self._behind(at, turn % max(size - 1, 1), count)
            else:
                replicas = [live[at], *self._followers(live[at], count, turn, dealt)]
            if len(replicas) < replication_factor:
                missing = replication_factor - len(replicas)
                replicas += [self.fenced[(start + index + i) % len(self.fenced)] for i in range(missing)]
            if len(set(replicas)) != replication_factor:
                broken("29 a partition's replicas are different brokers", index=index, replicas=replicas)
            if replicas[0] not in self.rack_of:
                broken("25 a live broker leads a new partition", index=index, replicas=replicas)
            placed.append(tuple(replicas))
        return tuple(placed)

    def _behind(self, at: int, turn: int, count: int) -> list[int]:
        """A leader and `count` followers when each broker is its own rack. Cached: few rows serve many partitions."""
        row = self._rows.get((at, turn, count))
        if row is None:
            live, size = self.live, len(self.live)
            others = [live[(at + 1 + (turn + step) % (size - 1)) % size] for step in range(count)]
            row = self._rows[at, turn, count] = (live[at], *others)
        return list(row)

    def _followers(self, leader: int, count: int, turn: int, dealt: list[int]) -> list[int]:
        """One from each other rack before a second from any; within a rack, the next in turn."""
        if not count:
            return []
        home, others = self.rack_of[leader], len(self.racks) - 1
        order = [(home + 1 + (turn + step) % others) % len(self.racks) for step in range(others)] + [home]
        chosen = [leader]
        while True:
            for at in order:
                rack = self.racks[at]
                ahead = [rack[(dealt[at] + step) % len(rack)] for step in range(len(rack))]
                free = next((broker_id for broker_id in ahead if broker_id not in chosen), None)
                if free is not None:
                    dealt[at] = rack.index(free) + 1
                    chosen.append(free)
                    if len(chosen) > count:
                        return chosen[1:]

    def are_live(self, placement: Placement) -> bool:
        """Whether every replica of the placement is on a live broker."""
        return not self.fenced or all(broker_id in self.rack_of for replicas in placement for broker_id in replicas)

    def require(self, replication_factor: int) -> None:
        if not self.live:
            refuse(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"cannot place {replication_factor} replicas: no broker is live, {len(self.fenced)} are fenced",
            )
        known = len(self.live) + len(self.fenced)
        if replication_factor > known:
            refuse(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"cannot place {replication_factor} replicas on {known} registered brokers: "
                "lower the replication factor or add brokers",
            )


def _racks(brokers: list[Broker]) -> list[list[int]]:
    """Broker ids by rack. A broker without a rack is a rack of its own."""
    racks: dict[str | int, list[int]] = {}
    for broker in brokers:
        racks.setdefault(broker.rack or broker.broker_id, []).append(broker.broker_id)
    return list(racks.values())


def _mix(racks: list[list[int]]) -> list[int]:
    """All brokers; each next one is from the fullest rack other than the previous broker's."""
    left = [list(rack) for rack in racks]
    mixed: list[int] = []
    last: list[int] = []
    while any(left):
        last = max((rack for rack in left if rack and rack is not last), key=len, default=last)
        mixed.append(last.pop(0))
    if len(mixed) != sum(map(len, racks)):
        broken("29 every broker stands in the circle once", mixed=mixed, racks=racks)
    return mixed
