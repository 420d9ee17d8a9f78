"""Three replicating nodes, one of which loses part of its state, or finds it old, damaged or misplaced.

The others keep everything, so no acknowledged record is lost and no offset shows two values. The damaged node may serve
again, or refuse to start; then an operator leaves it down, repairs it, or gives it an empty disk. Within ten seconds of
healing the others serve, and within ten more all running nodes, including the damaged one, hold everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from chronik.metadata.image import NO_LEADER
from chronik.sim.attendance import Attendance
from chronik.sim.broker_scenarios import RecordsScenario, settled_image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.sets import LOSS_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.losses import LIVE_LOSSES, LOSSES
from chronik.sim.programs import broker_programs
from chronik.sim.record_clients import are_served
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, Clients, end_half_open, require
from chronik.sim.world import World

FAULTS = (*LOSSES, *LIVE_LOSSES, "lost write")
SCRUB_MS = 2000
WHOLE = "25 a damaged node holds everything again, or does not run"


class LossScenario(RecordsScenario):
    name = "loss"
    slowness_percent = 100
    selectable = FAULTS
    fault_count = (0, 3)
    checkers: Sequence[type[Checker]] = LOSS_CHECKERS

    def __init__(self) -> None:
        self._healed_ns: int | None = None

    def build(self, world: World) -> SimCluster:
        """Checkpoints are frequent, so that the journal does not duplicate everything, or there are none. The scrubber
        reads the whole disk every few seconds: it also finds damage that no request touches."""
        interval_ms = world.random("checkpoints").choice((400, 300_000))
        brokers = {**self.brokers, "log_retention_check_interval_ms": interval_ms, "scrub_interval_ms": SCRUB_MS}
        return SimCluster(
            world, self.node_count, broker_programs(self.node_count, brokers), raft_directory="/data/raft"
        )

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("loss")
        kind = self.only or random.choice(FAULTS)
        victim, at_ms = random.randint(1, self.node_count), random.randint(2500, 6500)
        faults = super().draw_faults(world)
        if random.random() < 0.5:  # a checkpoint follows each start
            faults.append(Fault(random.randint(100, 1200), "kill", victim, random.randint(50, 300)))
        if kind.startswith("old"):
            image_ms = random.randint(200, at_ms - 300)
            faults.append(Fault(image_ms, "image", victim, amount=random.randrange(1 << 20)))
        loss = Fault(at_ms, kind, victim, random.randint(50, 1500), random.randrange(2), random.randrange(1 << 20))
        faults += [loss, *random.choice(COURSES)(random, loss, self.node_count)]
        return sorted(faults)

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._clients(cluster, history, cluster.world.random("pace").choice(PACES_MS[:2]))

    def prepare(self, world: World, cluster: SimCluster) -> None:
        super().prepare(world, cluster)
        self._attendance = Attendance(cluster)

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Whether every partition acknowledges records again, through whichever node."""
        if self._healed_ns is None:
            self._healed_ns = cluster.world.time.now_ns
        return are_served(cluster.history, self._healed_ns, self.partition_count)

    def repair(self, world: World, cluster: SimCluster) -> None:
        world.run_for(2 * SCRUB_MS)
        require(world, lambda: self._is_whole(cluster), HEALED_MS_MAX, WHOLE)
        end_half_open(world, cluster)

    def _is_whole(self, cluster: SimCluster) -> bool:
        image = settled_image(cluster)
        if image is None or not self._attendance.is_idle:
            return False
        alive = {node_id for node_id, machine in cluster.machines.items() if not machine.is_dead}
        return all(
            partition.leader != NO_LEADER and alive & set(partition.replicas) <= set(partition.isr)
            for topic in image.all_topics()
            for partition in topic.partitions
        )


def _others(loss: Fault, node_count: int) -> list[int]:
    return [node_id for node_id in range(1, node_count + 1) if node_id != loss.node]


def _by_itself(random: Random, loss: Fault, node_count: int) -> list[Fault]:
    return []


def _all_down(random: Random, loss: Fault, node_count: int) -> list[Fault]:
    """All nodes go off. The damaged one is usually back first, and one of the others comes back much later."""
    others = _others(loss, node_count)
    random.shuffle(others)
    back_ms = loss.duration_ms + random.randint(-200, 800)
    faults = []
    for node_id in others:
        kind = random.choice(("kill", "power"))
        faults.append(Fault(loss.at_ms + random.randint(-100, 100), kind, node_id, max(50, back_ms)))
        back_ms += random.randint(100, 5000)
    return faults


def _pushed(random: Random, loss: Fault, node_count: int) -> list[Fault]:
    """Another node fails as soon as the damaged one is back, before it has asked for anything."""
    at_ms = max(0, loss.at_ms + loss.duration_ms + random.randint(-200, 80))
    kind, other = random.choice(("kill", "isolate", "pause", "power")), random.choice(_others(loss, node_count))
    return [Fault(at_ms, kind, other, random.randint(2500, 5500))]


def _others_fail_later(random: Random, loss: Fault, node_count: int) -> list[Fault]:
    """The damaged one is back, and another node fails: now the damaged one may become leader."""
    faults, at_ms = [], loss.at_ms + loss.duration_ms
    for _ in range(random.randint(1, 3)):
        at_ms += random.randint(50, 1500)
        kind, other = random.choice(("kill", "isolate", "pause", "power")), random.choice(_others(loss, node_count))
        faults.append(Fault(at_ms, kind, other, random.randint(300, 2500)))
    return faults


def _alone_in_sync(random: Random, loss: Fault, node_count: int) -> list[Fault]:
    """Before the loss another node is isolated, so that two hold acknowledged records; one of them loses them."""
    other = random.choice(_others(loss, node_count))
    at_ms = max(0, loss.at_ms - random.randint(2200, 3500))
    return [Fault(at_ms, "isolate", other, loss.at_ms - at_ms + random.randint(0, 800))]


Course = Callable[[Random, Fault, int], list[Fault]]
COURSES: Sequence[Course] = (_by_itself, _all_down, _all_down, _pushed, _others_fail_later, _alone_in_sync)
