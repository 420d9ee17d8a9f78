"""A scenario: the nodes, the clients, the faults and the checkers. One seed gives one run.

Every run has the same phases: the cluster starts; clients work while faults happen; all faults are healed; within ten
seconds all nodes must serve again (invariant 25); clients stop, a final round of reads covers everything, then checkers
judge.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from chronik.sim import faults as fault_module
from chronik.sim.buggifying import buggified
from chronik.sim.charging import charging
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.looking import look_at
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.errors import SimError, Violation
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.programs import FIRST_ID
from chronik.sim.world import LogCapture, World

START_MS_MAX = 20_000
HEALED_MS_MAX = 10_000  # invariant 25
PACES_MS = ((5, 150), (20, 400), (200, 2000), (1000, 9000))  # from busy to idle: each reveals different bugs
LIVENESS = "25"
RECOVERY = "25 all serve within 10 s of healing"


class Clients(Protocol):
    def begin(self) -> None: ...

    def end(self) -> None:
        """Starts no new operations."""

    @property
    def are_answered(self) -> bool:
        """Whether no client waits for an answer."""


class Together:
    """Several kinds of clients that run together."""

    def __init__(self, clients: Sequence[Clients]) -> None:
        self._clients = clients

    def begin(self) -> None:
        for each in self._clients:
            each.begin()

    def end(self) -> None:
        for each in self._clients:
            each.end()

    @property
    def are_answered(self) -> bool:
        return all(each.are_answered for each in self._clients)


@dataclass
class Outcome:
    seed: int
    scenario: str
    faults: list[Fault]
    lines: list[str] = field(repr=False)
    log_hash: str = ""
    failure: SimError | None = None
    operation_count: int = 0
    virtual_ms: int = 0
    drawn: Mapping[str, object] = field(default_factory=dict)  # drawn by the seed, besides the faults
    reached: frozenset[str] = frozenset()  # enabled `runtime.buggify` points that were reached

    @property
    def invariant(self) -> str:
        """The broken invariant, by a name that stays the same while a schedule is shrunk."""
        if isinstance(self.failure, Violation):
            return self.failure.invariant
        return type(self.failure).__name__ if self.failure is not None else ""


class Scenario:
    """Base of all. Override what differs."""

    name = ""
    node_count = 3
    first_id = FIRST_ID  # of its nodes, the lowest
    spare_count = 0  # machines that are not members at the start
    fault_ms = 9_000
    fault_count = (3, 9)
    weights: tuple[fault_module.Weight, ...] = fault_module.METADATA_WEIGHTS
    checkers: Sequence[type[Checker]] = ()
    answered_ms_max = HEALED_MS_MAX  # after this every client has its last answer or has given up
    selectable: Sequence[str] = ()  # kinds of fault; each run has one of them
    # Selectable faults that no seed draws, because the product does not promise to survive them.
    by_name_only: Sequence[str] = ()
    slowness_percent = 0  # percentage of the price table; 0: callbacks take no time
    only = ""  # the selectable fault that every run has; empty: the seed chooses

    def configure(self, world: World) -> Mapping[str, object]:
        """Called first: draws this seed's settings, by name, for the report.

        Uses separate random streams, so that schedules of faults keep their meaning.
        """
        return {}

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("faults")
        return fault_module.draw(
            random,
            node_count=self.node_count + self.spare_count,
            span_ms=self.fault_ms,
            count=random.randint(*self.fault_count),
            weights=self.weights,
        )

    def build(self, world: World) -> SimCluster:
        raise NotImplementedError

    def prepare(self, world: World, cluster: SimCluster) -> None:
        """Called between the start of the cluster and the start of the clients."""

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        raise NotImplementedError

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Whether the cluster is as healthy as before the faults."""
        return cluster.has_settled()

    def repair(self, world: World, cluster: SimCluster) -> None:
        """An operator's work that full recovery requires."""

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        """Called when all is quiet: reads everything once more, to detect any loss."""

    def play(self, world: World, cluster: SimCluster, history: History, faults: list[Fault]) -> None:
        cluster.start()
        require(world, cluster.has_settled, START_MS_MAX, "the cluster starts")
        self.prepare(world, cluster)
        clients = self.clients(cluster, history)
        clients.begin()
        fault_module.begin(cluster, faults)
        world.run_for(max([self.fault_ms, *(fault.at_ms + fault.duration_ms for fault in faults)]) + 100)
        for machine in cluster.machines.values():
            machine.disk.heal()
            machine.start()
        end_half_open(world, cluster)
        if world.points is not None:
            world.points.is_calm = True
        world.note("world", "all is healed")
        require(world, lambda: self.has_recovered(cluster), HEALED_MS_MAX, RECOVERY)
        self.repair(world, cluster)
        world.run_for(1000)
        clients.end()
        require(world, lambda: clients.are_answered, self.answered_ms_max, "every client is answered")
        self.audit(world, cluster, history)


def end_half_open(world: World, cluster: SimCluster) -> None:
    """Resets half-open connections: clients may wait half a minute on them, but nodes must detect them on their own."""
    nodes = {machine.host for machine in cluster.machines.values()}
    world.wires.end_half_open(name for name in world.wires.hosts if name not in nodes)


def require(world: World, holds: Callable[[], bool], within_ms: int, promise: str) -> None:
    if not world.run_until(holds, within_ms=within_ms):
        waiting = [line for loop in world.time.processes if not loop.is_dead for line in loop.waiting()]
        for line in waiting:
            world.note("world", f"waiting: {line}")
        world.violated(promise, f"not within {within_ms} ms")
        assert world.violation is not None
        raise world.violation


def run(scenario: type[Scenario], seed: int, faults: list[Fault] | None = None, *, only: str = "") -> Outcome:
    """One run. `faults` replaces the schedule that the seed would draw; `only` selects a fault of that schedule."""
    # Garbage collection runs code of dead processes at unpredictable moments, so it waits for the end of the world.
    gc_was_on = gc.isenabled()
    gc.disable()
    gc.freeze()  # excludes older objects: scanning them takes longer than a small run
    hook = sys.unraisablehook
    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            made = scenario()
            made.only = only
            outcome = _run(made, seed, faults)  # afterwards no reference to the world remains
            del made
            while gc.collect():  # finalizing unfinished coroutines creates more garbage
                pass
        return outcome
    finally:
        sys.unraisablehook = hook
        gc.unfreeze()
        if gc_was_on:
            gc.enable()


def _worse(world: World, checkers: Sequence[Checker]) -> SimError | None:
    """The more serious error: a run that ended for lack of service may have given clients false answers before."""
    if world.violation is None or not world.violation.invariant.startswith(LIVENESS):
        return None
    found, world.violation = world.violation, None
    for checker in checkers:
        if checker.judges_unfinished:
            checker.finish()
    worse = world.violation
    world.violation = found
    return worse


def _run(scenario: Scenario, seed: int, faults: list[Fault] | None) -> Outcome:
    world = World(seed)
    drawn = scenario.configure(world)
    world.slowness_percent = scenario.slowness_percent
    schedule = scenario.draw_faults(world) if faults is None else faults
    cluster = scenario.build(world)
    history = cluster.history
    checkers = [make(world, cluster, history) for make in scenario.checkers]

    def tell_starting(machine: SimMachine) -> None:
        for checker in checkers:
            checker.starting(machine)

    def tell_ending(machine: SimMachine) -> None:
        for checker in checkers:
            checker.ending(machine)

    for machine in cluster.machines.values():
        machine.watch = lambda each: look_at(each, checkers)
        machine.on_start, machine.on_end = tell_starting, tell_ending
    outcome = Outcome(seed, scenario.name, schedule, world.lines, drawn=drawn)
    try:
        with LogCapture(world), charging(is_on=world.slowness_percent > 0), buggified(world.points):
            scenario.play(world, cluster, history, schedule)
            for checker in checkers:
                checker.finish()
            if world.violation is not None:
                raise world.violation
    except SimError as failure:
        outcome.failure = (_worse(world, checkers) or failure).with_traceback(None)
    finally:
        outcome.log_hash = world.log_hash()
        outcome.operation_count = len(history.operations)
        outcome.virtual_ms = world.time.now_ms
        outcome.reached = frozenset(world.points.reached if world.points is not None else ())
        for loop in world.time.processes:
            loop.kill()
        sys.unraisablehook = lambda _: None  # hides errors of unfinished coroutines
    return outcome
