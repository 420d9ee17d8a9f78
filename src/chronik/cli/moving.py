"""Carries out moves of replicas, a few at a time, and shows what is left, how long it takes and what blocks it.

The cluster moves the replicas. If the command is interrupted, moves that have begun continue until they end or are
cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.cli.errors import CommandFailed
from chronik.cli.output import human_bytes, human_duration
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.admin.nodes import LogDirectory
    from chronik.client.admin.reassignments import Move
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition, Topology

AT_ONCE: Final = 50  # partitions: enough to keep brokers busy, few enough that clients go on
LOOK_EVERY_S: Final = 0.5
STALLED_S: Final = 10  # without a byte or a partition done, something stands in the way

Targets = Mapping["TopicPartition", Sequence[int]]


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the moves are."""

    partitions_left: int
    partitions: int
    bytes_left: int  # of those under way
    eta_ms: int | None  # None: not known yet
    blocker: str | None  # what the slowest waits for; None: nothing is under way

    def __str__(self) -> str:
        done = f"{self.partitions - self.partitions_left} of {self.partitions} partitions moved"
        left = f", {human_bytes(self.bytes_left)} to copy" if self.bytes_left else ""
        eta = f", about {human_duration(self.eta_ms)} left" if self.eta_ms else ""
        return f"{done}{left}{eta}{f'; waits for {self.blocker}' if self.blocker else ''}"


async def carry_out(
    cluster: ClusterClient, targets: Targets, say: Callable[[Standing], None], *, stalled_s: float = STALLED_S
) -> None:
    """Returns when every partition is where it should be. Raises CommandFailed if one is refused, or none moves on."""
    from chronik.client.admin import nodes, reassignments

    loop = asyncio.get_running_loop()
    waiting = dict(targets)
    pace = Pace(loop.time())
    while True:
        moving = {at: move for at, move in (await reassignments.under_way(cluster)).items() if at in targets}
        begun = {at: waiting.pop(at) for at in list(waiting)[: max(0, AT_ONCE - len(moving))]}
        if begun:
            refused = [fault for fault in (await reassignments.move(cluster, begun)).values() if fault is not None]
            if refused:
                raise CommandFailed(f"{refused[0]}; {len(refused)} of {counted(len(begun), 'move')} refused")
            continue
        if not moving:
            return
        topology = await cluster.refresh(None)
        copying = copies(moving, topology, await nodes.log_directories(cluster))
        left = len(waiting) + len(moving)
        bytes_left = sum(total - there for there, total in copying.values())
        eta_ms = pace.look(loop.time(), left, bytes_left)
        blocker = name_blocker(moving, topology, copying)
        say(Standing(left, len(targets), bytes_left, eta_ms, blocker))
        if pace.stalled_s(loop.time()) > stalled_s:
            raise CommandFailed(
                f"nothing has moved for {stalled_s:.0f} s: waiting for {blocker}. Moves continue once that is fixed; "
                "`chronik cluster rebalance --cancel` cancels them"
            )
        await asyncio.sleep(LOOK_EVERY_S)


class Pace:
    """How fast it goes, from looking now and then. Bytes count where there are any, partitions where there are none."""

    def __init__(self, now_s: float) -> None:
        self._began_s = self._moved_s = now_s
        self._first: tuple[int, int] | None = None  # partitions and bytes left when first looked at
        self._last = (0, 0)

    def look(self, now_s: float, partitions_left: int, bytes_left: int) -> int | None:
        """The time that is left, in ms."""
        now = partitions_left, bytes_left
        if self._first is None:
            self._first, self._began_s = now, now_s
        if now != self._last:
            self._last, self._moved_s = now, now_s
        partitions_done, bytes_done = self._first[0] - partitions_left, self._first[1] - bytes_left
        took_s = now_s - self._began_s
        if partitions_done > 0:
            return round(1000 * took_s * partitions_left / partitions_done)
        return round(1000 * took_s * bytes_left / bytes_done) if bytes_done > 0 else None

    def stalled_s(self, now_s: float) -> float:
        return now_s - self._moved_s


def copies(
    moving: Mapping[TopicPartition, Move], topology: Topology, directories: Sequence[LogDirectory]
) -> dict[tuple[TopicPartition, int], tuple[int, int]]:
    """By partition and broker that is to come: bytes that are there, and bytes of the leader's."""
    sizes = {(at, each.node_id): size for each in directories for at, size in each.sizes_bytes.items()}
    found = {}
    for at, move in moving.items():
        topic = topology.topics.get(at.topic)
        partition = topic.partitions.get(at.partition) if topic else None
        for broker in move.adding:
            if partition is not None and broker not in partition.isr:
                total = sizes.get((at, partition.leader_id), 0)
                found[at, broker] = min(sizes.get((at, broker), 0), total), total
    return found


def name_blocker(
    moving: Mapping[TopicPartition, Move],
    topology: Topology,
    copying: Mapping[tuple[TopicPartition, int], tuple[int, int]],
) -> str | None:
    """The first of: a partition without a leader, a missing broker, the broker with the most to copy."""
    from chronik.client.topology import NO_LEADER

    for at, move in sorted(moving.items()):
        topic = topology.topics.get(at.topic)
        partition = topic.partitions.get(at.partition) if topic else None
        if partition is not None and partition.leader_id == NO_LEADER:
            return f"{at}: it has no leader to copy from; start one of brokers {list(partition.isr)}"
        for broker in move.adding:
            if broker not in topology.brokers:
                return f"broker {broker}, the target of {at}: it is not alive"
    if not copying:
        return next((f"{at} to be in sync" for at in sorted(moving)), None)
    (at, broker), (there, total) = max(copying.items(), key=lambda item: (item[1][1] - item[1][0], item[0]))
    return f"{at} on broker {broker}: it has {human_bytes(there)} of {human_bytes(total)}"
