"""What an operator does about a node that has lost a part of its disk and refuses to start, or ends again and again.

One decision per machine and run, drawn from the seed: an operator who is told to act does so once, after a while. A way
to repair that the product gains is one entry in `ACTIONS` more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronik.broker.errors import BrokerError, CannotStart
from chronik.broker.identity import renew_directory_id
from chronik.runtime.errors import RuntimeFault
from chronik.sim.cluster import RESTART_MS, SimCluster, SimMachine
from chronik.sim.losses import DATA
from chronik.storage.errors import StorageError
from chronik.storage.repair import repair

ENDS_MAX = 3  # of a process that had started: then it counts as one that cannot run
ACTS_MS = (300, 1500)  # so long it takes until somebody looks


def _leave_down(machine: SimMachine) -> None:
    machine.is_dead = True
    machine.retire()


def _wipe(machine: SimMachine) -> None:
    machine.wipe()
    machine.start()


def _repair(machine: SimMachine) -> None:
    """As `chronik storage repair` does it. What it cannot read ends it, and the node is no worse than before."""
    runtime = machine.offline_runtime()
    try:
        repair(runtime.disk, DATA)
        renew_directory_id(runtime, DATA)
    except (StorageError, BrokerError, RuntimeFault, OSError) as fault:
        machine.world.note("operator", f"cannot repair {machine}: {type(fault).__name__}: {fault}")
    machine.start()


ACTIONS: Mapping[str, Callable[[SimMachine], None]] = {
    "leaves it down": _leave_down,
    "gives it an empty disk": _wipe,
    "repairs it": _repair,
}
LAST_RESORT = "gives it an empty disk"  # when the first action did not help


class Attendance:
    """Looks after the machines of a cluster that have lost something."""

    def __init__(self, cluster: SimCluster) -> None:
        self._world = cluster.world
        self._random = cluster.world.random("attendance")
        self._ends: dict[int, int] = {}
        self._acted: set[int] = set()
        self._busy: set[int] = set()
        for machine in cluster.machines.values():
            machine.attend = self.ended

    @property
    def is_idle(self) -> bool:
        """Nobody is about to act."""
        return not self._busy

    def ended(self, machine: SimMachine, error: BaseException) -> None:
        """A damaged machine's process has ended by itself: it is started again, or somebody acts."""
        node_id = machine.node_id
        self._ends[node_id] = self._ends.get(node_id, 0) + 1
        if not isinstance(error, CannotStart) and self._ends[node_id] < ENDS_MAX:
            self._world.time.after_ms(RESTART_MS, machine.start)
            return
        if node_id in self._busy:
            return
        action = LAST_RESORT if node_id in self._acted else self._random.choice(sorted(ACTIONS))
        self._busy.add(node_id)
        self._world.time.after_ms(self._random.randint(*ACTS_MS), self._act, machine, action)

    def _act(self, machine: SimMachine, action: str) -> None:
        self._world.note("operator", f"is told that {machine} does not run, and {action}")
        self._acted.add(machine.node_id)
        self._ends[machine.node_id] = 0
        self._busy.discard(machine.node_id)
        ACTIONS[action](machine)
