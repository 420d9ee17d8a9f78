"""Computes which replicas should move, from the current placement and the live brokers. A pure function.

It balances the counts of replicas and of preferred leaders, and spreads a partition over as many racks as possible; it
ignores load and size. It moves as few replicas as possible, and moves leaders by reordering replicas, which copies no
data. The same cluster always gives the same plan.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from chronik.client.topology import TopicPartition

Racks = Mapping[int, str | None]  # brokers that may hold replicas; None: a separate rack
Replicas = tuple[int, ...]  # the preferred leader first
SPREAD_MAX: Final = 1  # largest difference between two brokers that counts as balanced


class CannotPlace(Exception):
    """There are fewer brokers than a partition has replicas."""

    def __init__(self, at: TopicPartition, needed: int, brokers: Iterable[int]) -> None:
        left = sorted(brokers)
        super().__init__(
            f"{at} has {needed} replicas, and only brokers {left} are left to hold them: add a broker first"
        )


def plan(
    racks: Racks, partitions: Mapping[TopicPartition, Replicas], *, evens: bool = True
) -> dict[TopicPartition, Replicas]:
    """The new replicas of every partition that must change. Brokers missing in `racks` are emptied.

    Without `evens` nothing else changes: use that to remove a broker. Raises CannotPlace.
    """
    work = _Plan(racks, partitions)
    for at in sorted(partitions):
        work.evacuate(at)
    if evens:
        for at in sorted(partitions):
            work.spread_over_racks(at)
        work.even_replicas()
        work.even_leaders()
    return {at: replicas for at, replicas in sorted(work.replicas.items()) if replicas != tuple(partitions[at])}


class _Plan:
    def __init__(self, racks: Racks, partitions: Mapping[TopicPartition, Replicas]) -> None:
        self.racks = {broker: rack or f"broker {broker}" for broker, rack in sorted(racks.items())}
        self.replicas = {at: tuple(replicas) for at, replicas in sorted(partitions.items())}
        self.held: Counter[int] = Counter(dict.fromkeys(self.racks, 0))
        for replicas in self.replicas.values():
            self.held.update(broker for broker in replicas if broker in self.racks)

    # --- replicas

    def evacuate(self, at: TopicPartition) -> None:
        for broker in self.replicas[at]:
            if broker not in self.racks:
                self._replace(at, broker, self._best(at, without=broker))

    def spread_over_racks(self, at: TopicPartition) -> None:
        """Moves replicas out of racks with two, as long as there is a rack with none."""
        while True:
            replicas = self.replicas[at]
            used = Counter(self.racks[broker] for broker in replicas)
            free = [broker for broker, rack in self.racks.items() if rack not in used]
            doubled = [broker for broker in replicas if used[self.racks[broker]] > 1]
            if not free or not doubled:
                return
            # Prefer the last one: the preferred leader stays if possible.
            leaving = max(doubled, key=lambda broker: (self.held[broker], replicas.index(broker)))
            self._replace(at, leaving, min(free, key=lambda broker: (self.held[broker], broker)))

    def even_replicas(self) -> None:
        """First from brokers above their share to brokers below it, so that few replicas move twice."""
        low, left_over = divmod(sum(self.held.values()), len(self.held))
        high = low + bool(left_over)
        self._pass_on(gives=lambda held: held > high, takes=lambda held: held < high)
        while self._pass_on(gives=lambda _: True, takes=lambda _: True):  # the rest, and moves that racks prevented
            pass

    def _pass_on(self, *, gives: Callable[[int], bool], takes: Callable[[int], bool]) -> bool:
        """Moves one replica from a broker with many to one with few, without doubling a rack. False: none to move."""
        has_moved = False
        for full in sorted(self.racks, key=lambda broker: (-self.held[broker], broker)):
            for at in self._held_by(full):
                if not gives(self.held[full]):
                    break
                able = [
                    broker
                    for broker, held in self.held.items()
                    if self.held[full] - held > SPREAD_MAX and takes(held) and self._may_replace(at, full, broker)
                ]
                if able:
                    self._replace(at, full, min(able, key=lambda broker: (self.held[broker], broker)))
                    has_moved = True
        return has_moved

    def _held_by(self, broker: int) -> list[TopicPartition]:
        """Its partitions, those where it follows first: moving them changes no preferred leader."""
        held = [at for at, replicas in self.replicas.items() if broker in replicas]
        return sorted(held, key=lambda at: (self.replicas[at][0] == broker, at))

    def _may_replace(self, at: TopicPartition, old: int, new: int) -> bool:
        replicas = self.replicas[at]
        if new in replicas:
            return False
        others = {self.racks[broker] for broker in replicas if broker != old}
        return self.racks[new] not in others or self.racks[old] in others

    def _best(self, at: TopicPartition, *, without: int) -> int:
        """The broker to take a replica: in a rack without one if possible, then the one with the fewest replicas."""
        replicas = self.replicas[at]
        used = {self.racks[broker] for broker in replicas if broker != without and broker in self.racks}
        able = [broker for broker in self.racks if broker not in replicas]
        if not able:
            raise CannotPlace(at, len(replicas), self.racks)
        return min(able, key=lambda broker: (self.racks[broker] in used, self.held[broker], broker))

    def _replace(self, at: TopicPartition, old: int, new: int) -> None:
        self.replicas[at] = tuple(new if broker == old else broker for broker in self.replicas[at])
        self.held[new] += 1
        if old in self.racks:
            self.held[old] -= 1

    # --- leaders

    def even_leaders(self) -> None:
        """Moves leadership to a follower that leads less; then along chains of shared partitions, until none helps."""
        led = Counter(dict.fromkeys(self.racks, 0))
        led.update(replicas[0] for replicas in self.replicas.values())
        for at, (leader, *followers) in self.replicas.items():
            least = min(followers, key=lambda broker: (led[broker], broker), default=leader)
            if led[leader] - led[least] > SPREAD_MAX:
                self._lead(at, least, led)
        while (chain := self._chain(led)) is not None:
            for at, leader in chain:
                self._lead(at, leader, led)

    def _lead(self, at: TopicPartition, leader: int, led: Counter[int]) -> None:
        replicas = self.replicas[at]
        led[replicas[0]] -= 1
        led[leader] += 1
        self.replicas[at] = (leader, *(broker for broker in replicas if broker != leader))

    def _chain(self, led: Counter[int]) -> list[tuple[TopicPartition, int]] | None:
        """From a broker to one that leads at least two fewer: each step is a partition and its current leader."""
        shared: dict[int, dict[int, TopicPartition]] = {broker: {} for broker in self.racks}
        for at, (leader, *followers) in self.replicas.items():
            for follower in followers:
                shared[leader].setdefault(follower, at)
        for start in sorted(self.racks, key=lambda broker: (-led[broker], broker)):
            came_from: dict[int, int] = {start: start}
            queue = deque([start])
            while queue:
                broker = queue.popleft()
                if led[start] - led[broker] > SPREAD_MAX:
                    return _steps(came_from, shared, broker)
                for follower in sorted(shared[broker]):
                    if follower not in came_from:
                        came_from[follower] = broker
                        queue.append(follower)
        return None


def _steps(
    came_from: Mapping[int, int], shared: Mapping[int, Mapping[int, TopicPartition]], end: int
) -> list[tuple[TopicPartition, int]]:
    steps = []
    while came_from[end] != end:
        before = came_from[end]
        steps.append((shared[before][end], end))
        end = before
    return steps
