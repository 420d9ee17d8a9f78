"""Invariant 22: a batch with an invalid CRC is never served, and never truncated silently if it was committed.

The first is judged by what readers received. The second by what a process finds at its start: at least as much of every
log as the previous process held durably and knew to be committed, damaged or not.
"""

from __future__ import annotations

from chronik.metadata.image import Image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of, replicas_of
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.world import World


class DamageIsNotServed(Checker):
    name = "22 a damaged batch is never served"
    judges_unfinished = True

    def finish(self) -> None:
        for operation in self.history.operations:
            if operation.kind == "damaged":
                self.violated(f"{operation}")


class DamageIsReal(Checker):
    """A node that mistakes a sound log for a damaged one discards a good copy, and repair hides the bug behind it."""

    name = "22 only what was damaged counts as damaged"

    def ending(self, machine: SimMachine) -> None:
        self._look_at(machine)

    def finish(self) -> None:
        for machine in self.cluster.machines.values():
            self._look_at(machine)

    def _look_at(self, machine: SimMachine) -> None:
        if machine.is_rotten or machine.is_damaged:
            return
        for replica in replicas_of(machine).values():
            if replica.log.lost is not None or replica.mended_count:
                self.violated(f"{machine}: {replica.name} on a sound disk: {replica.log.lost or 'mended'}")


class CommittedIsKept(Checker):
    name = "22 nothing committed is cut at a restart"

    def __init__(self, world: World, cluster: SimCluster, history: History) -> None:
        super().__init__(world, cluster, history)
        self._marks: dict[int, dict[tuple[bytes, int], int]] = {}  # node: {partition: committed and durable end}
        self._starts: dict[int, int] = {}  # node: last start examined
        self._wipes: dict[int, int] = {}
        self._images: dict[int, Image] = {}  # node: last image examined
        self._versions: dict[bytes, int] = {}  # topic id: earliest image version known to have it

    def ending(self, machine: SimMachine) -> None:
        self._see_image(machine)  # it may be killed while it applies a new image
        marks = self._marks.setdefault(machine.node_id, {})
        for key, replica in replicas_of(machine).items():
            mark = min(replica.high_watermark, replica.log.durable_offset)
            # A damaged log is truncated on purpose once others hold everything; it may end before all is copied again.
            marks[key] = mark if replica.mended_count else max(mark, marks.get(key, 0))

    def starting(self, machine: SimMachine) -> None:
        if machine.wipes > self._wipes.get(machine.node_id, 0):
            self._wipes[machine.node_id] = machine.wipes
            self._marks.pop(machine.node_id, None)

    def looked(self, machine: SimMachine) -> None:
        if self._starts.get(machine.node_id) == machine.starts:
            return
        logs = getattr(node_of(machine), "logs", None)
        if logs is None:
            return
        self._starts[machine.node_id] = machine.starts
        for key, mark in self._marks.get(machine.node_id, {}).items():
            log = logs.get(*key)
            end = 0 if log is None else log.end_offset
            if end < mark:
                self.violated(f"{machine}: {log} was committed up to {mark} before it started, and now ends at {end}")

    def _see_image(self, machine: SimMachine) -> None:
        store = machine.program.store if machine.program is not None else None
        if store is not None and store.image is not self._images.get(machine.node_id):
            self.saw_image(machine, store.image)

    def saw_image(self, machine: SimMachine, image: Image) -> None:
        self._images[machine.node_id] = image
        for topic_id in image.topics:
            self._versions[topic_id] = min(image.version, self._versions.get(topic_id, image.version))
        self._forget_gone(machine.node_id, image)

    def _forget_gone(self, node_id: int, image: Image) -> None:
        """A replica that was removed from a node may be deleted, and restart empty when it is added again. The same
        applies to deleted topics; an older image that lacks a topic proves nothing."""
        marks = self._marks.get(node_id, {})
        for topic_id, index in list(marks):
            topic = image.topic(topic_id)
            is_deleted = topic is None and image.version > self._versions[topic_id]
            if is_deleted or (topic is not None and node_id not in topic.partitions[index].replicas):
                del marks[topic_id, index]
