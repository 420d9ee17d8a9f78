"""A scenario: who runs, what clients do, which faults come, which checkers look on. One seed gives one run.

Every run has the same course: the cluster starts; clients work while faults come and go; everything is healed; within
ten seconds all must serve again (invariant 25); clients stop, a last round of reads looks at everything, checkers judge.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chronik.metadata.commands import BrokerHeartbeat, EndpointAt, RegisterBroker
from chronik.sim import faults as fault_module
from chronik.sim.checkers.durable_commit import DurableCommit
from chronik.sim.checkers.durable_progress import DurableProgress
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.leases import Leases
from chronik.sim.checkers.linearizability import LinearizableMetadata
from chronik.sim.checkers.looking import look_at
from chronik.sim.checkers.one_leader import OneLeader
from chronik.sim.checkers.same_state import SameState
from chronik.sim.cluster import Cluster, Machine
from chronik.sim.errors import SimError, UnknownScenario, Violation
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.programs import quorum_programs
from chronik.sim.workload import MetadataClients, perform_on
from chronik.sim.world import LogCapture, World

START_MS_MAX = 20_000
HEALED_MS_MAX = 10_000  # invariant 25
RECOVERY = "25 all serve within 10 s of healing"


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
    fault_ms = 9_000
    fault_count = (3, 9)
    weights = fault_module.METADATA_WEIGHTS
    checkers: Sequence[type[Checker]] = ()

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("faults")
        return fault_module.draw(
            random,
            node_count=self.node_count,
            span_ms=self.fault_ms,
            count=random.randint(*self.fault_count),
            weights=self.weights,
        )

    def build(self, world: World) -> Cluster:
        raise NotImplementedError

    def play(self, world: World, cluster: Cluster, history: History, faults: list[Fault]) -> None:
        raise NotImplementedError


class MetadataScenario(Scenario):
    """Three nodes of the metadata quorum: no broker, all of the store, the driver, the transport and the journal."""

    name = "metadata"
    checkers = (OneLeader, DurableProgress, DurableCommit, SameState, LinearizableMetadata, Leases)

    def build(self, world: World) -> Cluster:
        return Cluster(world, self.node_count, quorum_programs(self.node_count), raft_directory="/metadata/raft")

    def play(self, world: World, cluster: Cluster, history: History, faults: list[Fault]) -> None:
        cluster.start()
        _require(world, cluster.has_settled, START_MS_MAX, "the cluster starts")
        _register_brokers(world, cluster)
        clients = MetadataClients(cluster, history, client_count=4, think_ms=(5, 150), topic_count=3)
        clients.begin()
        fault_module.begin(cluster, faults)
        world.run_for(max([self.fault_ms, *(fault.at_ms + fault.duration_ms for fault in faults)]) + 100)
        for machine in cluster.machines.values():
            machine.disk.heal()
            machine.start()
        world.note("world", "all is healed")
        _require(world, cluster.has_settled, HEALED_MS_MAX, RECOVERY)
        world.run_for(1000)
        clients.end()
        _require(world, lambda: clients.are_answered, HEALED_MS_MAX, "every client is answered")
        self._read_all(world, cluster, history)

    def _read_all(self, world: World, cluster: Cluster, history: History) -> None:
        """Every topic once more through every node, so that nothing that was lost goes unseen."""
        for machine in cluster.machines.values():
            for key in sorted({operation.key for operation in history.operations}):
                operation = history.invoke("auditor", machine.host, "read", key)
                status, result = run_on(world, machine, lambda store, op=operation: perform_on(store, op))  # type: ignore[misc]
                history.complete(operation, status, result)


def run_on(world: World, machine: Machine, work: Callable[[Any], Any]) -> Any:
    """Runs a coroutine with a machine's store, in that machine's process; returns its result."""
    assert machine.program is not None and machine.loop is not None
    task = machine.loop.create_task(work(machine.program.store), name="asked from outside")
    _require(world, task.done, HEALED_MS_MAX, f"{machine.host} answers")
    return task.result()


def _register_brokers(world: World, cluster: Cluster) -> None:
    """The quorum alone has no brokers to put topics on: it is told of some."""
    leader = cluster.leader()
    assert leader is not None

    async def register(store: Any) -> None:
        for node_id in cluster.machines:
            reply = await store.submit(
                RegisterBroker(
                    broker_id=node_id,
                    cluster_id=store.image.cluster_id,
                    incarnation_id=bytes([node_id]) * 16,
                    endpoints=[EndpointAt(name="PLAINTEXT", host=f"node-{node_id}", port=9092)],
                )
            )
            await store.submit(BrokerHeartbeat(broker_id=node_id, broker_epoch=reply.broker_epoch))

    run_on(world, leader, register)


def _require(world: World, holds: Callable[[], bool], within_ms: int, promise: str) -> None:
    if not world.run_until(holds, within_ms=within_ms):
        world.violated(promise, f"not within {within_ms} ms")
        assert world.violation is not None
        raise world.violation


SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (MetadataScenario,)}


def run(name: str, seed: int, faults: list[Fault] | None = None) -> Outcome:
    """One run. `faults` replaces the schedule that the seed would give."""
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}: choose one of {', '.join(sorted(SCENARIOS))}")
    # A collection runs what dead processes left behind, at a moment that no seed decides: not before the world's end.
    gc_was_on = gc.isenabled()
    gc.disable()
    hook = sys.unraisablehook
    try:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
            outcome = _run(SCENARIOS[name](), seed, faults)
            gc.collect()
        return outcome
    finally:
        sys.unraisablehook = hook
        if gc_was_on:
            gc.enable()


def _run(scenario: Scenario, seed: int, faults: list[Fault] | None) -> Outcome:
    world = World(seed)
    schedule = scenario.draw_faults(world) if faults is None else faults
    cluster = scenario.build(world)
    history = History(world)
    checkers = [make(world, cluster, history) for make in scenario.checkers]
    for machine in cluster.machines.values():
        machine.watch = lambda each: look_at(each, checkers)
    outcome = Outcome(seed, scenario.name, schedule, world.lines)
    try:
        with LogCapture(world):
            scenario.play(world, cluster, history, schedule)
            for checker in checkers:
                checker.finish()
            if world.violation is not None:
                raise world.violation
    except SimError as failure:
        outcome.failure = failure.with_traceback(None)
    finally:
        outcome.log_hash = world.log_hash()
        outcome.operation_count = len(history.operations)
        outcome.virtual_ms = world.time.now_ms
        for loop in world.time.processes:
            loop.kill()
        sys.unraisablehook = lambda _: None  # what was cut off in the middle complains that it was
    return outcome
