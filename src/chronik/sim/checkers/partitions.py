"""Invariants 9, 10 and 11, from the state of the nodes themselves, observed between callbacks. Read-only."""

from __future__ import annotations

from chronik.broker.node import Node
from chronik.metadata.image import NO_LEADER, Image, Partition
from chronik.replication.replica import Replica
from chronik.runtime.interfaces import Buffer
from chronik.sim.checkers.interface import Checker
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World
from chronik.storage.errors import StorageError
from chronik.wire.batches import split
from chronik.wire.records import iterate

READ_BYTES = 1 << 30
INTERNAL = "__"  # prefix of internal topic names
NOT_SEEN = (None, 0)


def node_of(machine: SimMachine) -> Node | None:
    return getattr(machine.program, "node", None)


def replicas_of(machine: SimMachine) -> dict[tuple[bytes, int], Replica]:
    """The replicas that were already used; observing creates none."""
    node = node_of(machine)
    return {} if node is None else node.replicas._replicas


class Watermarks(Checker):
    """Invariant 10: a leader's high watermark is at most what every in-sync replica holds durably. During a process's
    lifetime it never decreases, unless the replica was removed in between."""

    name = "10 the high watermark is durable on all in sync"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._seen: dict[Replica, tuple[int, int]] = {}  # (watermark, repairs so far)
        # (node, topic id, partition): durable end when its last process ended.
        self._durable: dict[tuple[int, bytes, int], int] = {}
        self._wipes: dict[int, int] = {}

    def ending(self, machine: SimMachine) -> None:
        for key, replica in replicas_of(machine).items():
            self._durable[machine.node_id, *key] = self._held_durably(machine, key, replica)

    def starting(self, machine: SimMachine) -> None:
        if machine.wipes > self._wipes.get(machine.node_id, 0):
            self._wipes[machine.node_id] = machine.wipes
            self._durable = {key: end for key, end in self._durable.items() if key[0] != machine.node_id}

    def _held_durably(self, machine: SimMachine, key: tuple[bytes, int], replica: Replica) -> int:
        """A process that has just started does not know which of its records are already durable."""
        log = replica.log
        before = 0 if log.generation else self._durable.get((machine.node_id, *key), 0)
        return max(log.durable_offset, min(log.end_offset, before))

    def looked(self, machine: SimMachine) -> None:
        seen = self._seen
        for key, replica in replicas_of(machine).items():
            mark = replica.high_watermark
            before, mended_count = seen.get(replica, NOT_SEEN)
            if mark == before:
                continue
            self._seen[replica] = (mark, replica.mended_count)
            # No node relies on a replica that drops damaged records, so its watermark may decrease then.
            if before is not None and mark < before and mended_count == replica.mended_count:
                self.violated(f"{machine}: {replica.name} went from {before} to {mark}")
            if replica.is_leader:
                self._require_durable(machine, key, replica)

    def _require_durable(self, machine: SimMachine, key: tuple[bytes, int], replica: Replica) -> None:
        for member in replica.state.isr:
            other = self.cluster.machines[member]
            held = replicas_of(other).get(key)
            if held is None or other.loop is None:
                continue  # it is down: checked again when it is back
            durable = self._held_durably(other, key, held)
            if held.state.leader_epoch == replica.leader_epoch and durable < replica.high_watermark:
                self.violated(
                    f"{machine}: {replica.name} is committed up to {replica.high_watermark}, "
                    f"{other} is in sync and holds {durable} durably"
                )


class Followers(Checker):
    """Invariant 9, at every step: records that a follower appends are in the log of the leader it follows, in the same
    epoch. Answers of a former leader do not count."""

    name = "9 a follower takes over what its leader holds"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._ends: dict[tuple[int, int], dict[tuple[bytes, int], int]] = {}  # (node, start): {partition: end}

    def looked(self, machine: SimMachine) -> None:
        replicas = replicas_of(machine)
        if not replicas:
            return
        ends = self._ends.setdefault((machine.node_id, machine.starts), {})
        for key, replica in replicas.items():
            end = replica.log.end_offset
            before = ends.get(key)
            if end == before:
                continue
            ends[key] = end
            if before is not None and end > before and not replica.is_leader:
                self._compare(machine, key, replica)

    def _compare(self, machine: SimMachine, key: tuple[bytes, int], replica: Replica) -> None:
        leader = self.cluster.machines.get(replica.state.leader)
        held = replicas_of(leader).get(key) if leader is not None and leader.loop is not None else None
        if held is None or not held.is_leader or held.leader_epoch != replica.leader_epoch:
            return  # the leader is down, or does not know yet that it leads
        last = replica.log.end_offset - 1
        if last < held.log.start_offset:
            return  # the leader has deleted the record since it sent it
        ours, theirs = replica.log.epochs.epoch_of(last), held.log.epochs.epoch_of(last)
        if last >= held.log.end_offset or ours != theirs:
            self.violated(
                f"{machine}: {replica.name} took over offset {last} of epoch {ours}; {leader}, which it follows in "
                f"epoch {replica.leader_epoch}, holds {held.log.end_offset} offsets, that one of epoch {theirs}"
            )


class Elections(Checker):
    """Invariant 11: leaders come from the in-sync set, an epoch has one leader, and epochs only increase."""

    name = "11 leaders from the in-sync set, epochs up"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._images: dict[int, tuple[int, Image]] = {}  # node: (start, image)
        self._leaders: dict[tuple[bytes, int, int], int] = {}  # (topic id, partition, epoch): leader

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        start, before = self._images.get(machine.node_id, (0, None))
        self._images[machine.node_id] = (machine.starts, image)
        for topic in image.all_topics():
            old = before.topic(topic.topic_id) if before is not None and start == machine.starts else None
            if old is topic:
                continue
            for index, now in enumerate(topic.partitions):
                self._judge((topic.topic_id, index), old.partition(index) if old is not None else None, now, topic.name)

    def _judge(self, key: tuple[bytes, int], before: Partition | None, now: Partition, name: str) -> None:
        where = f"{name}-{key[1]}"
        if now.leader != NO_LEADER:
            leader = self._leaders.setdefault((*key, now.leader_epoch), now.leader)
            if leader != now.leader:
                self.violated(f"{where}: epoch {now.leader_epoch} is led by {leader} and by {now.leader}")
            if now.leader not in now.isr:
                self.violated(f"{where}: {now.leader} leads and is not in {now.isr}")
        if before is None or before == now:
            return
        if now.leader_epoch < before.leader_epoch or now.partition_epoch <= before.partition_epoch:
            self.violated(f"{where}: epochs went from {before} to {now}")
        is_next = now.partition_epoch == before.partition_epoch + 1
        eligible = before.isr + before.elr
        if before.removing:  # the reassignment removes the leader, and ended when the last added replica got in sync
            eligible += now.isr
        if is_next and now.leader not in (NO_LEADER, before.leader, *eligible):
            self.violated(f"{where}: {now.leader} was elected, {before.isr} were in sync")


class IdenticalReplicas(Checker):
    """Invariant 9: below the lowest high watermark all replicas of a partition are byte for byte identical.

    Compaction may differ between nodes. In an internal topic, whose keys repeat, records at the same offset are equal
    wherever they exist, and none is missing where nothing was compacted.
    """

    name = "9 replicas are identical below the high watermark"

    def finish(self) -> None:
        held: dict[tuple[bytes, int], list[tuple[SimMachine, Replica]]] = {}
        for machine in self.cluster.machines.values():
            for key, replica in replicas_of(machine).items():
                held.setdefault(key, []).append((machine, replica))
        for replicas in held.values():
            low = min(replica.high_watermark for _, replica in replicas)
            start = max(replica.log.start_offset for _, replica in replicas)
            first_machine, first = replicas[0]
            compacted_to = max(replica.log.compacted_offset for _, replica in replicas)
            if first.log.topic.startswith(INTERNAL) and compacted_to > start:
                self._compare_records(replicas, start, low, compacted_to)
                continue
            expected = self._read(first_machine, first, start, low)
            for machine, replica in replicas[1:]:
                if self._read(machine, replica, start, low) != expected:
                    self.violated(f"{replica.name}: {first_machine} and {machine} differ between {start} and {low}")

    def _compare_records(
        self, replicas: list[tuple[SimMachine, Replica]], start: int, low: int, compacted_to: int
    ) -> None:
        first_machine, first = replicas[0]
        expected = _records(self._read(first_machine, first, start, low))
        for machine, replica in replicas[1:]:
            found = _records(self._read(machine, replica, start, low))
            differ = [offset for offset in found.keys() & expected.keys() if found[offset] != expected[offset]]
            lacking = [offset for offset in found.keys() ^ expected.keys() if offset >= compacted_to]
            if differ or lacking:
                where = min(differ + lacking)
                self.violated(f"{replica.name}: {first_machine} and {machine} differ at {where}")

    def _read(self, machine: SimMachine, replica: Replica, start: int, end: int) -> bytes:
        replica.log.on_lost = None  # no process runs that could repair the damage found here
        try:
            return _bytes(replica, start, end)
        except (StorageError, OSError) as error:
            self.violated(f"{machine}: {replica.name} cannot be read: {error}")
            return b""


def _records(data: bytes) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Key and value by offset."""
    return {
        record.offset: (_bytes_of(record.key), _bytes_of(record.value))
        for batch in split(memoryview(data))
        for record in iterate(batch, READ_BYTES)
    }


def _bytes_of(data: Buffer | None) -> bytes | None:
    return None if data is None else bytes(data)


def _bytes(replica: Replica, start: int, end: int) -> bytes:
    parts, offset = [], start
    while offset < end:
        read = replica.log.read(offset, bytes_max=READ_BYTES, offset_limit=end, at_least_one=True)
        data = b"".join(read.buffers)
        if not data:
            break
        parts.append(data)
        offset = split(memoryview(data))[-1].next_offset
    return b"".join(parts)
