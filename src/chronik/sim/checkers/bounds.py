"""23: a node holds no more memory for its clients than its budget, whatever they send and however slowly they read.

The node counts its own memory, except for data written to connections whose peers do not read: the simulated sockets
count that. The other half of 23, how long a callback may block the loop, is checked by the machine's meter (`cluster`).
"""

from __future__ import annotations

from chronik.broker.limits import HUGE_AT_ONCE, REQUEST_OBJECT_BYTES_MAX
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of
from chronik.sim.cluster import SimMachine

BESIDE_BYTES = 8 << 20  # beyond the budget: what a socket accepts before its writer pauses, a frame, a batch
OBJECTS_BYTES = HUGE_AT_ONCE * REQUEST_OBJECT_BYTES_MAX  # objects decoded from large requests before they are counted


class MemoryBounds(Checker):
    name = "23 a node holds no more memory than its budget"

    def looked(self, machine: SimMachine) -> None:
        node = node_of(machine)
        if node is None:
            return
        memory = node.memory
        unsent_bytes = self.world.wires.hosts[machine.host].unsent_bytes
        if memory.unsent_bytes > unsent_bytes:
            unsent_bytes = memory.unsent_bytes
        held_bytes = memory.used_bytes + memory.kept_bytes + unsent_bytes
        if held_bytes + memory.small_bytes <= memory.size_bytes:
            return  # both bounds below hold; this is nearly always the case
        if held_bytes > memory.size_bytes + BESIDE_BYTES:
            self._too_much(machine, held_bytes, memory.size_bytes + BESIDE_BYTES)
        if held_bytes + memory.small_bytes > memory.size_bytes + BESIDE_BYTES + OBJECTS_BYTES:
            self._too_much(machine, held_bytes + memory.small_bytes, memory.size_bytes + BESIDE_BYTES + OBJECTS_BYTES)

    def _too_much(self, machine: SimMachine, held_bytes: int, bytes_max: int) -> None:
        self.violated(f"{machine.host} holds {held_bytes} bytes for its clients, at most {bytes_max} are allowed")
