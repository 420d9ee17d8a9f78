"""A model of what replicas must guarantee, compared with what they do. Numbers are those of the invariants.

7 every acknowledged record is readable at its offset; 8 an offset has one value ever; 9 replicas are equal below their
high watermark; 10 the high watermark never decreases, and never exceeds what an in-sync replica holds durably; 11
leaders come from the ISR, and an epoch has one; 12 records of a producer are in its order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from chronik.replication.replica import Replica
from chronik.storage.errors import CorruptSegment
from chronik.wire.batches import split
from chronik.wire.records import iterate

if TYPE_CHECKING:
    from chronik.metadata.image import Image
    from tests.replication.world import Node, World

TOPIC, TOPIC_ID = "orders", b"orders".ljust(16, b".")
KEY = (TOPIC_ID, 0)


class Model:
    """Called after every step; `check_end` is called when all nodes are back."""

    def __init__(self, world: World, *, is_lossy: bool) -> None:
        self._world = world
        self.acked: dict[int, bytes] = {}  # offset -> value
        self.committed: dict[int, tuple[int, bytes]] = {}  # offset -> (epoch, value), once any reader could see it
        self._seen: dict[tuple[int, int], int] = {}  # (node, broker epoch) -> high watermark looked at
        # Replicas that found damage: no node relies on them, so their watermarks may decrease.
        self._mending: set[tuple[int, int]] = set()
        self._durable: dict[int, int] = {}  # node -> durable end, also of dead nodes
        self.is_lossy = is_lossy  # unclean elections are allowed: only histories are checked

    def acknowledged(self, node: Node, offset: int, values: list[bytes]) -> None:
        if self.is_lossy:
            return
        for at, value in enumerate(values):
            known = self.acked.setdefault(offset + at, value)
            assert known == value, f"offset {offset + at} was acknowledged twice: {known!r} and {value!r}"
        self.look_at_durability(offset + len(values))

    def look_at_durability(self, end_offset: int) -> None:
        """Acknowledged means: fsynced on every member of the ISR, alive or dead (10)."""
        for broker_id in self._world.controller.partition.isr:
            if broker_id in self._world.wiped:
                continue
            self.note_durable(broker_id)
            held = self._durable.get(broker_id, 0)
            assert held >= end_offset, f"acknowledged up to {end_offset}, but broker {broker_id} holds {held}"

    def note_durable(self, node_id: int) -> None:
        node = self._world.nodes.get(node_id)
        if node is not None and hasattr(node, "logs"):
            log = node.logs.get(*KEY)
            self._durable[node_id] = log.durable_offset if log is not None else 0

    def forget_watermarks(self) -> None:
        """A disk was replaced by an old image, so the node's earlier watermarks no longer apply."""
        self._seen.clear()
        self._durable.clear()

    def elected(self, before: Image, after: Image) -> None:
        old, new = before.topics.get(TOPIC_ID), after.topics.get(TOPIC_ID)
        if old is None or new is None or old == new:
            return
        was, now = old.partitions[0], new.partitions[0]
        assert now.leader_epoch >= was.leader_epoch
        if now.leader != was.leader:
            assert now.leader_epoch == was.leader_epoch + 1, "an epoch belongs to one leader (11)"
            assert now.leader < 0 or now.leader in now.isr
            if now.leader >= 0 and not self.is_lossy:
                # The last newcomer of a move comes into the ISR and may lead by the same change.
                newcomers = () if now.adding else was.adding
                assert now.leader in was.isr + was.elr + newcomers, "a leader comes from the ISR (11)"

    def check(self) -> None:
        for node in self._world.nodes.values():
            replica = node.replica
            if replica is None:
                continue
            key = (node.node_id, node.broker_epoch)
            before = self._seen.get(key, -1)
            if replica.log.lost is not None:
                self._mending.add(key)
            if self.is_lossy or key in self._mending:
                before = min(before, replica.high_watermark)
            assert replica.high_watermark >= before, "a high watermark never goes back (10)"
            assert replica.high_watermark <= replica.log.end_offset
            if replica.high_watermark > before:
                self._seen[key] = replica.high_watermark
                with suppress(CorruptSegment):  # like any reader: the replica learns of the damage and repairs itself
                    self._look_at(replica, max(before, 0))

    def _look_at(self, replica: Replica, from_offset: int) -> None:
        """A readable record is the only value that its offset ever has (8), and includes every acknowledged record
        (7)."""
        for offset, epoch, value in records_of(replica, from_offset, replica.high_watermark):
            known = self.committed.get(offset)
            if self.is_lossy:
                self.committed[offset] = (epoch, value)
                continue
            assert known in (None, (epoch, value)), f"offset {offset} was {known}, now {(epoch, value)}"
            self.committed[offset] = (epoch, value)

    def check_end(self) -> None:
        """When all is settled: nothing acknowledged is missing (7), all replicas are equal (9) and in order (12)."""
        world = self._world
        logs = [node.replica for node in world.nodes.values() if node.replica is not None]
        if not logs:
            assert not self.acked
            return
        contents = [b"".join(bytes(piece) for piece in bytes_of(each)) for each in logs]
        assert len(set(contents)) == 1, "replicas differ below the high watermark (9)"
        found = {offset: value for offset, _, value in records_of(logs[0], 0, logs[0].log.end_offset)}
        if not self.is_lossy:
            lost = {offset: value for offset, value in self.acked.items() if found.get(offset) != value}
            assert not lost, f"acknowledged and lost or changed (7): {lost}"
        numbers = [int(found[offset].rstrip(b".")) for offset in sorted(found)]
        assert numbers == sorted(numbers), "a producer's records stand in its order (12)"
        epochs = [epoch for _, epoch, _ in records_of(logs[0], 0, logs[0].log.end_offset)]
        assert epochs == sorted(epochs), "epochs rise along the log"


def bytes_of(replica: Replica) -> list[memoryview]:
    pieces, offset, log = [], replica.log.start_offset, replica.log
    while offset < log.end_offset:
        found = log.read(offset, bytes_max=1 << 20, offset_limit=log.end_offset)
        pieces += found.buffers
        offset = found.next_offset
    return pieces


def records_of(replica: Replica, from_offset: int, to_offset: int) -> list[tuple[int, int, bytes]]:
    """(offset, leader epoch, value) of what lies between."""
    found, log = [], replica.log
    offset = max(from_offset, log.start_offset)
    while offset < to_offset:
        read = log.read(offset, bytes_max=1 << 20, offset_limit=to_offset)
        for piece in read.buffers:
            for batch in split(piece):
                found += [
                    (record.offset, batch.partition_leader_epoch, bytes(record.value or b""))
                    for record in iterate(batch, 1 << 20)
                    if from_offset <= record.offset < to_offset
                ]
        assert read.next_offset > offset, f"a batch is committed whole: {to_offset} is inside one"
        offset = read.next_offset
    return found
