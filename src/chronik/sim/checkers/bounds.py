"""23: a node holds no more memory for its clients than its budget, whatever they send and however slowly they read.

What it holds is counted by itself, except for what it has written to connections whose peers do not read: that is
counted here, by the simulated sockets. How long a callback may hold the loop, the other half of 23, is the machine's to
tell (`cluster`): its meter knows.
"""

from __future__ import annotations

from chronik.broker.limits import HUGE_AT_ONCE, REQUEST_OBJECT_BYTES_MAX
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of
from chronik.sim.cluster import SimMachine

BESIDE_BYTES = 8 << 20  # beside the budget: what a socket takes before its writer is told to stop, a frame, a batch
OBJECTS_BYTES = HUGE_AT_ONCE * REQUEST_OBJECT_BYTES_MAX  # what large requests are decoded into before it is counted


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
