"""An operator's reaction to a node that has lost part of its disk and refuses to start, or exits repeatedly.

One decision per machine and run, drawn from the seed: the operator acts once, after a delay. A new way to repair is one
more entry in `ACTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronik.broker.errors import BrokerError, CannotStart
from chronik.broker.identity import directory_id_of, renew_directory_id
from chronik.runtime.errors import RuntimeFault
from chronik.sim.cluster import RESTART_MS, SimCluster, SimMachine
from chronik.sim.losses import DATA
from chronik.storage.errors import StorageError
from chronik.storage.repair import repair

ENDS_MAX = 3  # exits after a start; then the process counts as unable to run
ACTS_MS = (300, 1500)  # delay before the operator acts


def _leave_down(machine: SimMachine) -> None:
    machine.is_dead = True
    machine.retire()


def _wipe(machine: SimMachine) -> None:
    machine.wipe()
    machine.start()


def _repair(machine: SimMachine) -> None:
    """Like `chronik storage repair`. If it cannot read something it fails, and the node is no worse than before."""
    runtime = machine.offline_runtime()
    try:
        repair(runtime.disk, DATA, owner=directory_id_of(runtime, DATA))
        renew_directory_id(runtime, DATA)
    except (StorageError, BrokerError, RuntimeFault, OSError) as fault:
        machine.world.note("operator", f"cannot repair {machine}: {type(fault).__name__}: {fault}")
    machine.start()


ACTIONS: Mapping[str, Callable[[SimMachine], None]] = {
    "leaves it down": _leave_down,
    "gives it an empty disk": _wipe,
    "repairs it": _repair,
}
LAST_RESORT = "gives it an empty disk"  # if the first action did not help


class Attendance:
    """Watches over the machines of a cluster that have lost something."""

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
        """Whether no action is pending."""
        return not self._busy

    def ended(self, machine: SimMachine, error: BaseException) -> None:
        """A damaged machine's process has exited: it is restarted, or the operator acts."""
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
