"""Machines that run nodes, and everything that can happen to a machine: kill, power cut, stop, restart, a bad disk.

A machine keeps its disk and its clock rate across restarts; its process keeps nothing. As in reality a supervisor
restarts processes: the fault that stopped a machine starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from chronik.broker.errors import BrokerError, CannotStart
from chronik.metadata.errors import MetadataError
from chronik.raft.errors import RaftError
from chronik.raft.messages import Role
from chronik.runtime.errors import DiskFull, RuntimeFault
from chronik.runtime.interfaces import Runtime
from chronik.runtime.invariants import InvariantBroken
from chronik.runtime.units import NS_PER_MS, NS_PER_S
from chronik.sim.clock import SimClock
from chronik.sim.disk import PowerCut, SimDisk
from chronik.sim.durable_log import DurableLog
from chronik.sim.history import History
from chronik.sim.inodes import Directory
from chronik.sim.loop import ProcessLoop
from chronik.sim.meter import Meter
from chronik.sim.network import SimNetwork
from chronik.sim.programs import FIRST_ID, Maker, Program, host_of
from chronik.sim.randomness import SimRandomness
from chronik.sim.world import World
from chronik.storage.errors import LogFull, StorageError

DRIFT_PPM_MAX = 4_900  # so that two clocks differ by less than the 10 permille that leases tolerate
SYNC_NS = (200_000, 900_000)  # duration of one lane operation, as measured on an idle disk
# Also allowed when it cannot start for lack of space; once it runs, it must continue.
SELF_STOP = "a node stops by itself only after a disk error"
LOOP_HELD = "23 no callback holds the loop for more than 100 ms"
NO_WORDS = "a damaged node ends with a message for its operator"
PRODUCT_ERRORS = (BrokerError, RuntimeFault, StorageError, MetadataError, RaftError)
RESTART_MS = 300  # delay before a supervisor restarts a process that exited


class SimMachine:
    def __init__(self, world: World, node_id: int, make: Maker, raft_directory: str) -> None:
        self.world, self.node_id, self._make = world, node_id, make
        self.host = host_of(node_id)
        self.random: Random = world.random(self.host)
        self.rate_ppm = self.random.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)
        self.wall_offset_ms = self.random.randint(-300, 300)
        self.disk = SimDisk(self.random.getrandbits(64))
        self.disk.latency_s, self.disk.wall_ms = self._disk_latency_s, self._wall_ms
        self.durable_log = DurableLog(lambda: self.disk, raft_directory)
        self.loop: ProcessLoop | None = None  # set while a process runs
        self.program: Program | None = None
        self.clock: SimClock | None = None
        self.starts = 0
        self.wipes = 0  # number of lost disks
        self.extra_disk_ns = 0  # slow disk: added to every operation
        self.stalled_until_ns = 0
        self.disk_was_broken = False  # then the process may exit
        self.may_end = False  # a removed node may exit as well, possibly much later
        self.is_attended = False  # an operator is adding or removing it
        self.is_away = False  # off, and not restarted: not a member, or about to be removed
        self.is_forgotten = False  # removed from the cluster, or never in it: it starts with an empty disk, or never
        # Returns the observer of a process.
        self.watch: Callable[[SimMachine], Callable[[], None] | None] = lambda _: None
        self.on_start: Callable[[SimMachine], None] = lambda _: None  # called before a new process runs
        self.on_end: Callable[[SimMachine], None] = lambda _: None  # called before a process is killed
        self.is_rotten = False  # its disk returns data that was never written
        self.is_damaged = False  # part of its state is lost or wrong: it may refuse to start, or exit
        self.is_ill = False  # it has a lasting fault: checks must not rely on it
        self.is_dead = False  # it is off permanently, and still a member
        self.image: Directory | None = None  # an old copy of its disk
        self.attend: Callable[[SimMachine, BaseException], None] | None = None  # the operator of a damaged machine
        self.is_spare = False  # it is not a founder of the cluster
        # Logs of disks that were lost: messages that the node sent before may still be in flight.
        self.lost_logs: list[DurableLog] = []
        self._raft_directory = raft_directory
        self._booted_ns = 0

    def __repr__(self) -> str:
        return self.host

    def found_log(self) -> DurableLog:
        """The quorum's log as a process that starts now finds it: on the platter or only in the page cache."""
        log = DurableLog(lambda: self.disk, self._raft_directory, with_page_cache=True)
        log.refresh()
        return log

    @property
    def is_up(self) -> bool:
        return self.loop is not None and not self.loop.is_paused

    @property
    def is_ready(self) -> bool:
        return self.program is not None and self.program.is_ready

    @property
    def leads(self) -> bool:
        raft = self.program.raft if self.program is not None else None
        return raft is not None and not raft.stopped and raft.role is Role.LEADER

    def start(self) -> None:
        if self.loop is not None or self.is_away:
            return
        self.starts += 1
        self.world.wires.power_returned(self.host)
        loop = self.loop = self.world.time.process(self.host, rate_ppm=self.rate_ppm)
        loop.on_unhandled = self._unhandled
        loop.is_buggified = self.world.points is not None
        if self.world.slowness_percent:
            loop.meter = self.disk.meter = Meter(self.world.slowness_percent, self._held)
        self.clock = SimClock(loop, booted_ns=self._booted_ns, wall_offset_ms=self.wall_offset_ms)
        runtime = Runtime(
            self.clock,
            self.disk,
            SimNetwork(self.world.wires, self.host, loop),
            SimRandomness(self.world.random(f"{self.host} start {self.starts}")),
        )
        self.disk.on_power_cut = lambda: self._power_went(loop)
        self.disk.on_failed_sync = self._sync_failed
        self.world.note(self.host, f"starts (start {self.starts})")
        self.on_start(self)
        loop.call_soon(self._begin, runtime)

    def _begin(self, runtime: Runtime) -> None:
        assert self.loop is not None
        loop, program = self.loop, self._make(runtime, self.node_id)
        self.program = program
        program.failed = lambda error: self._ended_by_itself(loop, error)
        loop.after_each = self.watch(self)
        loop.create_task(program.run(), name="start").add_done_callback(lambda task: self._started(loop, task))

    def _started(self, loop: ProcessLoop, task: asyncio.Task[None]) -> None:
        if loop is not self.loop or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.world.note(self.host, "is up")
        elif not isinstance(error, PowerCut):
            self._ended_by_itself(loop, error)

    def _ended_by_itself(self, loop: ProcessLoop, error: BaseException) -> None:
        if loop is not self.loop:
            return
        self.world.note(self.host, f"ended by itself: {type(error).__name__}: {error}")
        if promise := _promise(error):  # whatever the state of its disk
            self.world.violated(promise, f"{self.host}: {error}")
        if self.is_damaged and self.attend is not None:
            self._require_words(error)
            self.crash()
            self.attend(self, error)
            return
        lacks_room = isinstance(error, CannotStart) and isinstance(error.__cause__, (DiskFull, LogFull))
        if not self.disk_was_broken and not self.may_end and not lacks_room:
            self.world.violated(SELF_STOP, f"{self.host}: {type(error).__name__}: {error}")
        self.crash()
        self.world.time.after_ms(RESTART_MS, self.start)

    def _require_words(self, error: BaseException) -> None:
        """A process that cannot start or continue because of its disk must raise one of the product's own errors."""
        if not isinstance(error, PRODUCT_ERRORS):
            self.world.violated(NO_WORDS, f"{self.host}: {type(error).__name__}: {error}")

    def _unhandled(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, PowerCut) or "never retrieved" in context["message"]:
            return
        self.world.violated(_promise(error) or "no unhandled error", f"{context['message']}: {error!r}")

    def _held(self, spent_ns: int, where: str) -> None:
        """Not checked during log recovery: the node serves no client yet."""
        if self.program is None or self.program.raft is None:
            return
        self.world.violated(LOOP_HELD, f"{self.host}: {spent_ns // NS_PER_MS} ms, in {where}")

    # Faults

    def crash(self) -> None:
        """kill -9: the process is gone, at any point; the page cache is intact."""
        if self.loop is None:
            return
        self.world.note(self.host, "is killed")
        self._drop_process()
        self.world.wires.process_died(self.host)
        self.disk = self.disk.process_killed()
        self.disk_was_broken = False

    def power_cut(self) -> None:
        """The machine is off: unsynced data is lost in part, and peers are not notified."""
        self.world.note(self.host, "loses power")
        self._drop_process()
        self.world.wires.power_lost(self.host)
        self.disk = self.disk.power_cut()
        self.disk_was_broken = False
        loop_ns = self.world.time.now_ns
        self._booted_ns = loop_ns + loop_ns * self.rate_ppm // 1_000_000

    def wipe(self) -> None:
        """The machine returns with a new, empty disk, and must not act under its old identity before it has caught
        up."""
        self.power_cut()
        self.world.note(self.host, "has lost its disk")
        self.wipes += 1
        self.is_rotten = self.is_damaged = False
        lost = self.disk
        self.lost_logs.append(DurableLog(lambda: lost, self._raft_directory))
        self.disk = SimDisk(self.random.getrandbits(64))
        self.disk.latency_s, self.disk.wall_ms = self._disk_latency_s, self._wall_ms

    def offline_runtime(self) -> Runtime:
        """For a command that an operator runs on the machine's disk while no node uses it."""
        loop = self.world.time.process(f"{self.host} operator")
        return Runtime(
            SimClock(loop, booted_ns=self._booted_ns, wall_offset_ms=self.wall_offset_ms),
            self.disk,
            SimNetwork(self.world.wires, f"{self.host} operator", loop),
            SimRandomness(self.world.random(f"{self.host} operator after start {self.starts}")),
        )

    def retire(self) -> None:
        """Stopped, and not to be restarted."""
        self.crash()
        self.is_away = True

    def return_to_service(self) -> None:
        """Starts it with its old disk."""
        self.is_away = False
        self.start()

    def come_new(self) -> None:
        """Prepares it to start as a new machine."""
        self.is_away = self.is_forgotten = False
        if self.starts:
            self.wipe()

    @property
    def joins(self) -> bool:
        """Whether its disk was empty when the cluster already existed."""
        return self.is_spare or self.wipes > 0

    def _power_went(self, loop: ProcessLoop) -> None:
        """The power failed during a disk call. The rest of the current callback must have no effect."""
        if loop is self.loop:
            self.power_cut()

    def _sync_failed(self) -> None:
        """After this the node must not acknowledge any write."""
        self.world.note(self.host, "a sync failed")
        self.world.wires.host(self.host).silent_since_ns = self.world.time.now_ns

    def _drop_process(self) -> None:
        if self.loop is not None:
            self.on_end(self)
            self.loop.kill()
        self.loop = self.program = None

    def pause(self) -> None:
        """SIGSTOP."""
        if self.loop is not None:
            self.world.note(self.host, "is stopped")
            self.loop.pause()

    def resume(self) -> None:
        if self.loop is not None and self.loop.is_paused:
            self.world.note(self.host, "goes on")
            self.loop.resume()

    def jump_wall(self, by_ms: int) -> None:
        self.wall_offset_ms += by_ms
        if self.clock is not None:
            self.clock.wall_offset_ms = self.wall_offset_ms

    def break_sync(self, path_part: str = "") -> None:
        """The next fsync fails: the process must exit and acknowledge nothing more."""
        self.disk_was_broken = True
        self.disk.fail("sync", path_part)

    def _wall_ms(self) -> int:
        return 0 if self.clock is None else self.clock.wall_ms()

    def _disk_latency_s(self) -> float:
        low, high = SYNC_NS
        stall_ns = max(0, self.stalled_until_ns - self.world.time.now_ns)
        return (self.random.randint(low, high) + self.extra_disk_ns + stall_ns) / NS_PER_S


class SimCluster:
    """Machines by node id, starting at `first_id`. Spare ones come last; they are off and not members until an operator
    adds them."""

    def __init__(
        self,
        world: World,
        node_count: int,
        make: Maker,
        *,
        raft_directory: str,
        spare_count: int = 0,
        first_id: int = FIRST_ID,
    ) -> None:
        self.world = world
        self.history = History(world)  # of clients, and of operators whose answers are judged
        ids = range(first_id, first_id + node_count + spare_count)
        self.machines = {node_id: SimMachine(world, node_id, make, raft_directory) for node_id in ids}
        for node_id in ids[node_count:]:
            spare = self.machines[node_id]
            spare.is_spare = spare.is_away = spare.is_forgotten = True
        self.tap: Any = None  # set by `intruders` if packets are recorded
        self.operators: list[asyncio.Task[None]] = []  # tasks that change members, running or done

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()

    def numbered(self, number: int) -> SimMachine:
        """By its position among all machines, from 1, as in schedules of faults."""
        return list(self.machines.values())[number - 1]

    def leader(self) -> SimMachine | None:
        """The leader of the quorum's newest term, as the nodes report it."""
        leaders = [machine for machine in self.machines.values() if machine.is_up and machine.leads]
        return max(leaders, key=_term_of, default=None)

    def members(self) -> list[SimMachine]:
        """The members in the leader's configuration. A learner may have been switched off permanently."""
        leader = self.leader()
        raft = leader.program.raft if leader is not None and leader.program is not None else None
        if raft is None:
            return []
        return [
            machine
            for node_id, machine in self.machines.items()
            if not machine.is_dead
            and (node_id in raft.members.voters or (node_id in raft.members.learners and not machine.is_away))
        ]

    def has_settled(self) -> bool:
        """Whether every member is up and follows one leader."""
        leader, members = self.leader(), self.members()
        if leader is None or leader.program is None:
            return False
        if not all(machine.is_up and machine.is_ready for machine in members):
            return False
        store = leader.program.store
        if store is not None and not (store.is_controller and store.image.cluster_id):
            return False
        return all(
            (raft := machine.program.raft) is not None and raft.leader_id == leader.node_id  # type: ignore[union-attr]
            for machine in members
        )


def _term_of(machine: SimMachine) -> int:
    assert machine.program is not None
    assert machine.program.raft is not None
    return machine.program.raft.term


def _promise(error: BaseException | None) -> str:
    """The broken invariant that a node itself reported: it has the same numbers as the checkers' here."""
    while error is not None and not isinstance(error, InvariantBroken):
        error = error.__cause__
    return error.promise if error is not None else ""
