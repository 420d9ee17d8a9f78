"""A schedule of faults as plain data, drawn from a seed, and the effect of each kind on a cluster.

Every fault ends after its duration, so any part of a schedule is a valid schedule: this lets `shrink` remove faults one
by one. `node` numbers machines from 1, whatever their ids; 0 means the quorum's leader when the fault begins, where
faults have the most effect. Membership changes, replica moves and recreated topics are faults as well: an operator
requests them, and gives up when they take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

from chronik.client.topology import TopicPartition
from chronik.runtime.units import NS_PER_MS
from chronik.sim import intruders, operators, topic_operators
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.losses import CRC_COVERS_FROM, LIVE_LOSSES, LOSSES, batches_in
from chronik.sim.platter import Platter, image_of

LEADER = 0
MOVED_TOPICS = ("orders", "orders", "orders", "__consumer_offsets")
BY_POWER = 1  # a machine about to lose data goes off by a power cut; otherwise it is killed
LIED_TO = ("/journal/", "/raft/", ".log", "")  # paths for which a disk loses writes


class Fault(NamedTuple):
    at_ms: int  # since the faults began
    kind: str
    node: int  # machine number from 1; LEADER: the leader at that time
    duration_ms: int = 0
    other: int = 0  # for a link: the other end
    amount: int = 0  # its meaning depends on the kind

    def __repr__(self) -> str:
        parts = [str(self.at_ms), repr(self.kind), str(self.node)]
        parts += [f"{name}={value}" for name in ("duration_ms", "other", "amount") if (value := getattr(self, name))]
        return f"Fault({', '.join(parts)})"


def _kill(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.crash()
    _after(cluster, fault, machine.start)


def _power(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.power_cut()
    _after(cluster, fault, machine.start)


def _power_at_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """The power fails during a later disk call: the one after `amount` more calls."""
    machine.disk.cut_after(fault.amount)
    _after(cluster, fault, machine.start)


def _wipe(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.wipe()
    _after(cluster, fault, machine.start)


def _rot(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Restarts the machine; while it is off, a bit of a batch flips in one of the topic's files, where the CRC covers
    it.

    Killed, not powered off: a power cut may erase the journal marks that distinguish damage from a torn tail.
    """
    machine.crash()
    disk, batches = machine.disk, []
    for directory in disk.names("/data", with_page_cache=True):
        for name in disk.names(f"/data/{directory}", with_page_cache=True):
            if directory.startswith("orders-") and name.endswith(".log"):
                path = f"/data/{directory}/{name}"
                batches += [(path, *place) for place in batches_in(disk.content(path, with_page_cache=True) or b"")]
    if batches:
        path, position, size_bytes = batches[fault.amount % len(batches)]
        disk.flip_bit(path, position + CRC_COVERS_FROM + fault.amount % (size_bytes - CRC_COVERS_FROM))
        machine.is_rotten = True
        cluster.world.note(machine.host, f"has a wrong bit in {path} behind byte {position}")
    _after(cluster, fault, machine.start)


def _image(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Copies the whole disk of a running machine, as a power cut would leave it."""
    machine.image = image_of(machine.disk, Random(fault.amount))


def _lose(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Off, and on again after the duration; in between part of its state is lost. `other` says how it goes off."""
    if machine.is_away or machine.is_dead:
        return
    if fault.other == BY_POWER:
        machine.power_cut()
    else:
        machine.crash()
    done = LOSSES[fault.kind](Platter(machine.disk), Random(fault.amount), machine.image)
    if done is not None:
        machine.is_damaged = True
        cluster.world.note(machine.host, done)
    _after(cluster, fault, machine.start)


def _lose_live(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Its process, if any, keeps running."""
    done = LIVE_LOSSES[fault.kind](Platter(machine.disk), Random(fault.amount), machine.image)
    if done is not None:
        machine.is_damaged = True
        cluster.world.note(machine.host, done)


def _lost_write(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Some syncs return without writing; after the duration the power fails briefly."""
    random = Random(fault.amount)
    machine.disk.lie(random.choice(LIED_TO), random.choice((1, 1, 2, 20)))

    def cut() -> None:
        if not machine.is_away and not machine.is_dead:
            machine.is_damaged = True
            machine.power_cut()
            cluster.world.time.after_ms(random.randint(100, 1500), machine.start)

    _after(cluster, fault, cut)


# Faults without an end


def _dead_node(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.is_dead = machine.is_ill = True
    machine.retire()


def _cut_link(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """One direction only. The majority can do without either of the two nodes."""
    other = _other(cluster, machine, fault)
    machine.is_ill = other.is_ill = True
    cluster.world.wires.cut(machine.host, other.host)


def _mute_node(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.is_ill = True
    for other in cluster.machines.values():
        if other is not machine:
            cluster.world.wires.cut(machine.host, other.host)


def _deaf_node(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.is_ill = True
    for other in cluster.machines.values():
        if other is not machine:
            cluster.world.wires.cut(other.host, machine.host)


def _slowed_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.is_ill = True
    machine.extra_disk_ns += fault.amount * NS_PER_MS


def _hung_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Every write and sync waits forever; none fails."""
    machine.is_ill = True
    machine.stalled_until_ns = 1 << 62


def _filled_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Other files take all but `amount` bytes of the disk, permanently."""
    machine.is_ill = True
    machine.disk.fill(fault.amount, for_good=True)


def _slowed_link(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    wires, other = cluster.world.wires, _other(cluster, machine, fault)
    machine.is_ill = other.is_ill = True
    wires.slow_down(machine.host, other.host, fault.amount)
    wires.slow_down(other.host, machine.host, fault.amount)


LASTING: Mapping[str, Callable[[SimCluster, SimMachine, Fault], None]] = {
    "dead node": _dead_node,
    "cut link": _cut_link,
    "mute node": _mute_node,
    "deaf node": _deaf_node,
    "slowed disk": _slowed_disk,
    "hung disk": _hung_disk,
    "filled disk": _filled_disk,
    "slowed link": _slowed_link,
}


def _stranger(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    intruders.visit(cluster, machine, fault.amount)


def _played_back(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    intruders.play_back(cluster, machine, _other(cluster, machine, fault), fault.amount)


def _doubled(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    intruders.double(cluster, machine, _other(cluster, machine, fault), fault.duration_ms)


def _pause(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.pause()
    _after(cluster, fault, machine.resume)


def _isolate(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    others = [other for other in cluster.machines.values() if other is not machine]
    for other in others:
        _cut_both(cluster, machine, other, fault)


def _cut_both(cluster: SimCluster, machine: SimMachine, other: SimMachine, fault: Fault) -> None:
    _cut_one_way(cluster, machine, other, fault)
    _cut_one_way(cluster, other, machine, fault)


def _cut(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """One direction only: the machine receives, but cannot send."""
    _cut_one_way(cluster, machine, _other(cluster, machine, fault), fault)


def _mute(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """No node receives its packets; it receives all others'."""
    for other in cluster.machines.values():
        if other is not machine:
            _cut_one_way(cluster, machine, other, fault)


def _deafen(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    for other in cluster.machines.values():
        if other is not machine:
            _cut_one_way(cluster, other, machine, fault)


def _cut_one_way(cluster: SimCluster, source: SimMachine, target: SimMachine, fault: Fault) -> None:
    wires = cluster.world.wires
    wires.cut(source.host, target.host)
    _after(cluster, fault, wires.mend, source.host, target.host)


def _slow_link(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    wires, other = cluster.world.wires, _other(cluster, machine, fault)
    for source, target in ((machine.host, other.host), (other.host, machine.host)):
        wires.slow_down(source, target, fault.amount)
        _after(cluster, fault, wires.slow_down, source, target, -fault.amount)


def _lossy(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    wires, other = cluster.world.wires, _other(cluster, machine, fault)
    for source, target in ((machine.host, other.host), (other.host, machine.host)):
        wires.lose(source, target, fault.amount)
        _after(cluster, fault, wires.lose, source, target, -fault.amount)


def _reset(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    cluster.world.wires.reset(machine.host, _other(cluster, machine, fault).host)


def _slow_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.extra_disk_ns += fault.amount * NS_PER_MS

    def end() -> None:
        machine.extra_disk_ns -= fault.amount * NS_PER_MS

    _after(cluster, fault, end)


def _stall_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.stalled_until_ns = cluster.world.time.now_ns + fault.duration_ms * NS_PER_MS


def _full_disk(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """Other files on the disk take all but `amount` bytes."""
    machine.disk.fill(fault.amount)
    _after(cluster, fault, lambda: machine.disk.fill(None))  # which may be a new object by then


def _short_reads(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """`amount` of a thousand reads return less than available, as POSIX allows."""
    machine.disk.short_permille = fault.amount

    def end() -> None:
        machine.disk.short_permille = 0

    _after(cluster, fault, end)


def _sync_error(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.break_sync()


def _wall_jump(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    machine.jump_wall(fault.amount)


def _join(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """An operator adds it to the quorum, through `other` first, and gives up after the duration."""
    operators.take_in(cluster, machine, through=fault.other, patience_ms=fault.duration_ms)


def _leave(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """An operator removes it from the quorum; `amount` selects its fate afterwards."""
    operators.let_go(cluster, machine, fate=fault.amount, through=fault.other, patience_ms=fault.duration_ms)


def _move(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """An operator assigns other replicas to a partition, or cancels that: `amount` selects one of `other` partitions,
    or the one in which offsets are committed."""
    random = Random(fault.amount)
    topic, index = random.choice(MOVED_TOPICS), random.randrange(fault.other)
    at = TopicPartition(topic, index if topic == "orders" else 0)
    count = min(random.choice((2, 3, 3, 3, 4)), len(cluster.machines))
    replicas = None if random.random() < 0.15 else random.sample(list(cluster.machines), count)
    operators.move(cluster, at, replicas, through=machine.node_id, patience_ms=fault.duration_ms)


def _recreate(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    """An operator deletes a topic and creates it again; `amount` selects the topic and its new shape."""
    draw = Random(fault.amount)
    topic_operators.recreate(cluster, draw, through=machine.node_id, patience_ms=fault.duration_ms)


def _configure(cluster: SimCluster, machine: SimMachine, fault: Fault) -> None:
    draw = Random(fault.amount)
    topic_operators.configure(cluster, draw, through=machine.node_id, patience_ms=fault.duration_ms)


KINDS: Mapping[str, Callable[[SimCluster, SimMachine, Fault], None]] = {
    "kill": _kill,
    "power": _power,
    "power at disk": _power_at_disk,
    "wipe": _wipe,
    "rot": _rot,
    "pause": _pause,
    "isolate": _isolate,
    "cut": _cut,
    "mute": _mute,
    "deafen": _deafen,
    "slow link": _slow_link,
    "lossy": _lossy,
    "reset": _reset,
    "slow disk": _slow_disk,
    "stall disk": _stall_disk,
    "full disk": _full_disk,
    "short reads": _short_reads,
    "sync error": _sync_error,
    "wall jump": _wall_jump,
    "join": _join,
    "leave": _leave,
    "move": _move,
    "recreate": _recreate,
    "configure": _configure,
    "image": _image,
    "lost write": _lost_write,
    **dict.fromkeys(LOSSES, _lose),
    **dict.fromkeys(LIVE_LOSSES, _lose_live),
    **LASTING,
    "stranger": _stranger,
    "played back": _played_back,
    "doubled frames": _doubled,
}


def begin(cluster: SimCluster, faults: list[Fault]) -> None:
    """Schedules all faults, relative to now."""
    for fault in faults:
        cluster.world.time.after_ms(fault.at_ms, _strike, cluster, fault)


def _strike(cluster: SimCluster, fault: Fault) -> None:
    machine = cluster.leader() if fault.node == LEADER else cluster.numbered(fault.node)
    machine = machine or cluster.numbered(1 + fault.at_ms % len(cluster.machines))
    cluster.world.note("fault", f"{fault} hits {machine}")
    KINDS[fault.kind](cluster, machine, fault)


def _other(cluster: SimCluster, machine: SimMachine, fault: Fault) -> SimMachine:
    other = cluster.numbered(fault.other)
    if other is machine:
        return cluster.numbered(1 + fault.other % len(cluster.machines))
    return other


def _after(cluster: SimCluster, fault: Fault, end: Callable[..., object], *args: object) -> None:
    cluster.world.time.after_ms(fault.duration_ms, end, *args)


# How often each kind is drawn, with its durations and amounts.
class Weight(NamedTuple):
    kind: str
    weight: int
    duration_ms: tuple[int, int] = (0, 0)
    amount: tuple[int, int] = (0, 0)


METADATA_WEIGHTS = (
    Weight("kill", 6, (50, 2500)),
    Weight("power", 5, (100, 2500)),
    Weight("power at disk", 6, (300, 2500), (0, 12)),
    Weight("pause", 5, (100, 3000)),
    Weight("isolate", 8, (300, 3500)),
    Weight("cut", 4, (200, 3000)),
    Weight("mute", 4, (300, 3000)),
    Weight("deafen", 4, (300, 3000)),
    Weight("slow link", 3, (500, 3000), (20, 400)),
    Weight("lossy", 2, (500, 3000), (50, 400)),
    Weight("reset", 3),
    Weight("slow disk", 3, (500, 3000), (5, 200)),
    Weight("stall disk", 3, (200, 2500)),
    Weight("sync error", 1),
    Weight("wall jump", 2, (0, 0), (-100_000, 100_000)),
)


UPKEEP_WEIGHTS = (
    Weight("kill", 6, (50, 2500)),
    Weight("power", 6, (100, 2500)),
    Weight("power at disk", 10, (300, 2500), (0, 40)),
    Weight("isolate", 3, (300, 3500)),
    Weight("slow disk", 12, (500, 4000), (5, 80)),
    Weight("full disk", 6, (300, 4000), (0, 4000)),
)


def draw(
    random: Random,
    *,
    node_count: int,
    span_ms: int,
    count: int,
    weights: tuple[Weight, ...],
    course_share: float = 0.4,
) -> list[Fault]:
    """In bursts, and in sequences known to be hard: combined faults find what single ones do not."""
    faults: list[Fault] = []
    while len(faults) < count:
        at_ms = random.randrange(span_ms)
        if random.random() < course_share:
            faults += random.choice(COURSES)(random, at_ms, random.randint(1, node_count), node_count)
            continue
        for _ in range(random.choice((1, 1, 2, 3))):
            chosen = random.choices(weights, [weight.weight for weight in weights])[0]
            node = random.choice((LEADER, LEADER, *range(1, node_count + 1)))
            other = random.randint(1, node_count)
            duration_ms, amount = random.randint(*chosen.duration_ms), random.randint(*chosen.amount)
            faults.append(Fault(at_ms, chosen.kind, node, duration_ms, other, amount))
            at_ms += random.randint(0, 400)
    return sorted(faults)


def _deposed_and_restarted(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    """Isolated until it is replaced, then down soon after its return: its log holds overwritten entries."""
    cut_ms = random.randint(1200, 2600)
    end = random.choice(("kill", "power", "power at disk"))
    down = Fault(at_ms + cut_ms + random.randint(0, 600), end, node, random.randint(300, 900), 0, random.randint(0, 6))
    return [Fault(at_ms, "isolate", node, cut_ms), down]


def _leaders_in_turn(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    """Each leader in turn is isolated, so that several logs hold entries of several terms."""
    faults = []
    for _ in range(3):
        faults.append(Fault(at_ms, "isolate", LEADER, random.randint(900, 2400)))
        at_ms += random.randint(900, 2000)
    return faults


def _voter_restarted(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    """One voter does not hear the leader and campaigns; the other, which could elect it, restarts and has forgotten its
    promise. Node 1 usually leads first."""
    node, other = random.sample(range(2, node_count + 1), 2) if node_count > 2 else (node, 1 + node % node_count)
    faults = [Fault(at_ms, "cut", LEADER, 4000, node)]
    for _ in range(5):
        at_ms += random.randint(400, 800)
        faults.append(Fault(at_ms, "kill", other, random.randint(30, 100)))
    return faults


def _slow_leader(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    """Its followers are ahead of it."""
    return [Fault(at_ms, "slow disk", LEADER, random.randint(2000, 5000), 0, random.randint(30, 150))]


def _far_follower(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    """Behind a slow link, which then has no delay at all."""
    slow_ms = random.randint(1500, 4000)
    slow = Fault(at_ms, "slow link", LEADER, slow_ms, node, random.randint(30, 320))
    return [slow, Fault(at_ms + random.randint(500, slow_ms), "isolate", node, random.randint(300, 1500))]


def _all_down(random: Random, at_ms: int, node: int, node_count: int) -> list[Fault]:
    kind = random.choice(("kill", "power"))
    return [
        Fault(at_ms + random.randint(0, 150), kind, each, random.randint(100, 1500))
        for each in range(1, node_count + 1)
    ]


COURSES = (_deposed_and_restarted, _leaders_in_turn, _voter_restarted, _slow_leader, _far_follower, _all_down)


def draw_changes(random: Random, *, node_count: int, spare_count: int, span_ms: int) -> list[Fault]:
    """Members are added and removed, one after the other or at once."""
    faults: list[Fault] = []
    founders = range(1, node_count + 1)
    spares = range(node_count + 1, node_count + spare_count + 1)
    for _ in range(random.randint(1, 3)):
        at_ms = random.randrange(span_ms)
        leaving = random.choice((LEADER, *founders))
        gone = _left(random, at_ms, leaving)
        later_ms = at_ms + random.randint(0, gone.duration_ms)
        course = random.randrange(4)
        if course == 0:  # replaced: added before or after the removal
            faults += [gone, _joined(random, random.choice((at_ms, later_ms)), random.choice(spares))]
        elif course == 1:  # removed, then added again
            faults += [gone, _joined(random, later_ms, leaving or random.choice(founders))]
        elif course == 2:  # added
            faults += [_joined(random, at_ms, spare) for spare in random.sample(spares, random.randint(1, spare_count))]
        else:  # added, then removed
            spare = random.choice(spares)
            faults += [_joined(random, at_ms, spare), _left(random, later_ms, spare)]
    return faults


def draw_moves(random: Random, *, node_count: int, partition_count: int, span_ms: int) -> list[Fault]:
    """Sequential or concurrent, also of one partition, and of the one in which offsets are committed."""
    faults: list[Fault] = []
    for _ in range(random.randint(2, 7)):
        at_ms = random.randrange(span_ms)
        for _ in range(random.choice((1, 1, 2))):
            node, patience_ms = random.randint(1, node_count), random.randint(500, 4000)
            faults.append(Fault(at_ms, "move", node, patience_ms, partition_count, random.randrange(1 << 30)))
            at_ms += random.randint(0, 1500)
    return faults


def _joined(random: Random, at_ms: int, node: int) -> Fault:
    return Fault(at_ms, "join", node, random.randint(500, 4000), random.randint(1, 5))


def _left(random: Random, at_ms: int, node: int) -> Fault:
    return Fault(at_ms, "leave", node, random.randint(500, 4000), random.randint(1, 5), random.randint(0, 2))
