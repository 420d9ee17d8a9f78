"""A scenario: the nodes, the clients, the faults and the checkers. One seed gives one run.

Every run has the same course: the cluster starts; clients work while faults come and go; everything is healed; within
ten seconds all must serve again (invariant 25); clients stop, a last round of reads looks at everything, then checkers
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
PACES_MS = ((5, 150), (20, 400), (200, 2000), (1000, 9000))  # from busy to idle: each shows what another hides
LIVENESS = "25"
RECOVERY = "25 all serve within 10 s of healing"


class Clients(Protocol):
    def begin(self) -> None: ...

    def end(self) -> None:
        """Begins nothing new."""

    @property
    def are_answered(self) -> bool:
        """Nobody waits for anything any more."""


class Together:
    """Several kinds of clients at once."""

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
    drawn: Mapping[str, object] = field(default_factory=dict)  # by the seed, besides the faults
    reached: frozenset[str] = frozenset()  # points of `runtime.buggify` that were on, and were come by

    @property
    def invariant(self) -> str:
        """What broke, by a name that stays the same while a schedule is shrunk."""
        if isinstance(self.failure, Violation):
            return self.failure.invariant
        return type(self.failure).__name__ if self.failure is not None else ""


class Scenario:
    """Base of all. Override what differs."""

    name = ""
    node_count = 3
    first_id = FIRST_ID  # of its nodes
    spare_count = 0  # machines that are there and no members, to begin with
    fault_ms = 9_000
    fault_count = (3, 9)
    weights: tuple[fault_module.Weight, ...] = fault_module.METADATA_WEIGHTS
    checkers: Sequence[type[Checker]] = ()
    answered_ms_max = HEALED_MS_MAX  # so long after the last question every client has an answer, or gave up
    selectable: Sequence[str] = ()  # kinds of fault of which a run has one
    by_name_only: Sequence[str] = ()  # those of them that no seed draws: the product does not promise to survive them
    slowness_percent = 0  # what computing costs, of the table of prices; 0: no callback takes any time
    only = ""  # the one of those that every run has; empty: the seed says which

    def configure(self, world: World) -> Mapping[str, object]:
        """Before anything else: what this seed draws of what others have fixed, by name, for whoever reads a report.

        From streams of its own, so that what a schedule of faults means does not depend on it.
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
        """Between the start of the cluster and that of the clients."""

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        raise NotImplementedError

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Whether everything is as it was before the faults."""
        return cluster.has_settled()

    def repair(self, world: World, cluster: SimCluster) -> None:
        """What an operator has to do before everything is as it was."""

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        """When all is quiet: looks at everything once more, so that nothing that was lost goes unseen."""

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
    """Clients may wait half a minute for an answer that will not come; nodes have to find out by themselves."""
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
    """One run. `faults` replaces the schedule that the seed would give; `only` says which fault is in that one."""
    # A collection runs what dead processes left behind, at a moment that no seed decides: not before the world's end.
    gc_was_on = gc.isenabled()
    gc.disable()
    gc.freeze()  # what was there before is none of this world's, and looking through it takes longer than a small run
    hook = sys.unraisablehook
    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            made = scenario()
            made.only = only
            outcome = _run(made, seed, faults)  # nothing of the world is left behind it
            del made
            while gc.collect():  # ending what was cut off gives more to collect
                pass
        return outcome
    finally:
        sys.unraisablehook = hook
        gc.unfreeze()
        if gc_was_on:
            gc.enable()


def _worse(world: World, checkers: Sequence[Checker]) -> SimError | None:
    """A run that ended because nobody served may have told clients something false before: that is worse."""
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
        sys.unraisablehook = lambda _: None  # what was cut off in the middle complains that it was
    return outcome
