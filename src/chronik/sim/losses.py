"""Faults that remove, age, damage or misplace part of one machine's state while the machine keeps its identity.

Each is a function of the platter, a random stream and an old image, and returns a description for the log, or None if
it finds nothing to damage. `faults` switches the machine off before and on again afterwards, except for those of
`LIVE_LOSSES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from chronik.sim.inodes import SECTOR_BYTES, Directory
from chronik.sim.platter import Platter
from chronik.wire.batches import LENGTH_COVERS_FROM

DATA = "/data"
CRC_COVERS_FROM = 21  # position in a batch
JOURNALS, RAFT, CHECKPOINT = f"{DATA}/journal", f"{DATA}/raft", f"{DATA}/checkpoint"
IDENTITY = f"{DATA}/meta.properties"
NOT_PARTITIONS = frozenset({JOURNALS, RAFT, f"{DATA}/stray"})

Loss = Callable[[Platter, Random, Directory | None], str | None]


def batches_in(data: bytes) -> list[tuple[int, int]]:
    """(position, size) of whole batches."""
    found, position = [], 0
    while position + LENGTH_COVERS_FROM <= len(data):
        size_bytes = LENGTH_COVERS_FROM + int.from_bytes(data[position + 8 : position + 12], "big")
        if size_bytes <= CRC_COVERS_FROM or position + size_bytes > len(data):
            break
        found.append((position, size_bytes))
        position += size_bytes
    return found


def partitions(platter: Platter) -> list[str]:
    """Partition directories that hold records."""
    return [
        path
        for path in platter.directories(DATA)
        if path not in NOT_PARTITIONS and any(platter.content(each) for each in segments(platter, path))
    ]


def segments(platter: Platter, under: str = DATA) -> list[str]:
    return [
        path
        for path in platter.files(under)
        if path.endswith(".log") and not any(path.startswith(f"{other}/") for other in NOT_PARTITIONS)
    ]


def journals(platter: Platter) -> list[str]:
    return platter.files(JOURNALS)


def raft_logs(platter: Platter) -> list[str]:
    return [path for path in platter.files(RAFT) if path.startswith(f"{RAFT}/journal-")]


def snapshots(platter: Platter) -> list[str]:
    return [path for path in platter.files(RAFT) if path.startswith(f"{RAFT}/snapshot")]


def checkpoints(platter: Platter) -> list[str]:
    return [CHECKPOINT] if platter.exists(CHECKPOINT) else []


Find = Callable[[Platter], Sequence[str]]


# Gone


def _all_gone(find: Find) -> Loss:
    def lose(platter: Platter, random: Random, image: Directory | None) -> str | None:
        paths = find(platter)
        for path in paths:
            platter.drop(path)
        return f"lost {', '.join(paths)}" if paths else None

    return lose


def _one_gone(find: Find) -> Loss:
    def lose(platter: Platter, random: Random, image: Directory | None) -> str | None:
        paths = find(platter)
        return _all_gone(lambda _: [random.choice(paths)])(platter, random, image) if paths else None

    return lose


# Old


def _aged(find: Find) -> Loss:
    """Replaces one of the files that `find` returns by its copy in the old image."""

    def lose(platter: Platter, random: Random, image: Directory | None) -> str | None:
        paths = find(platter)
        if image is None or not paths:
            return None
        path = random.choice(paths)
        is_there = platter.restore(path, image)
        return f"has an old {path or 'disk'}" if is_there else f"has no {path}, which is younger than the image"

    return lose


# Elsewhere


def _exchange(platter: Platter, random: Random, image: Directory | None) -> str | None:
    paths = partitions(platter)
    if len(paths) < 2:
        return None
    path, other = random.sample(paths, 2)
    platter.exchange(path, other)
    return f"has {path} and {other} exchanged"


def _misdirect(platter: Platter, random: Random, image: Directory | None) -> str | None:
    """A misdirected write: sectors are at another place, where they replace other data; their own place still has its
    previous content, that is, nothing."""
    paths = [path for path in platter.files(DATA) if len(platter.content(path)) > SECTOR_BYTES]
    if not paths:
        return None
    source, target = random.choice(paths), random.choice(paths)
    count = random.choice((1, 1, 2, 8))
    taken = _used_sector(platter, random, source)
    data = platter.content(source)[taken : taken + count * SECTOR_BYTES]
    place = _used_sector(platter, random, target)
    platter.overwrite(source, taken, bytes(len(data)))
    platter.overwrite(target, place, data)
    return f"has {len(data)} bytes of {source} at {taken} in {target} at {place} instead"


def _used_sector(platter: Platter, random: Random, path: str) -> int:
    used = len(platter.content(path).rstrip(b"\0"))
    return random.randrange(max(1, -(-used // SECTOR_BYTES))) * SECTOR_BYTES


# Damaged


def _rot(find: Find) -> Loss:
    """A bit of one of the files is wrong, anywhere in its data."""

    def lose(platter: Platter, random: Random, image: Directory | None) -> str | None:
        used = {path: len(platter.content(path).rstrip(b"\0")) for path in find(platter)}
        paths = [path for path, size_bytes in used.items() if size_bytes]
        if not paths:
            return None
        path = random.choice(paths)
        return _flip(platter, random, path, random.randrange(used[path]))

    return lose


def _flip(platter: Platter, random: Random, path: str, position: int) -> str:
    wrong = platter.content(path)[position] ^ 1 << random.randrange(8)
    platter.overwrite(path, position, bytes([wrong]))
    return f"has a wrong bit in {path} at byte {position}"


def _rot_header(platter: Platter, random: Random, image: Directory | None) -> str | None:
    """In the part of a batch's header that its CRC does not cover, or in the CRC itself."""
    places = [(path, at) for path in segments(platter) for at, _ in batches_in(platter.content(path))]
    if not places:
        return None
    path, position = random.choice(places)
    return _flip(platter, random, path, position + random.randrange(CRC_COVERS_FROM))


def _cut(platter: Platter, random: Random, image: Directory | None) -> str | None:
    paths = [path for path in segments(platter) if platter.content(path)]
    if not paths:
        return None
    path = random.choice(paths)
    data = platter.content(path)
    starts = [position for position, _ in batches_in(data)]
    size_bytes = random.choice((random.randrange(len(data)), random.choice([0, *starts])))
    platter.cut(path, size_bytes)
    return f"has {path} cut from {len(data)} bytes to {size_bytes}"


def _unreadable(find: Find) -> Loss:
    def lose(platter: Platter, random: Random, image: Directory | None) -> str | None:
        paths = [path for path in find(platter) if platter.content(path)]
        if not paths:
            return None
        path = random.choice(paths)
        start = _used_sector(platter, random, path)
        platter.make_unreadable(path, start, start + SECTOR_BYTES)
        return f"cannot read {path} from byte {start} on"

    return lose


LOSSES: Mapping[str, Loss] = {
    "lost journal": _all_gone(journals),
    "lost newest journal": _all_gone(lambda platter: journals(platter)[-1:]),
    "lost checkpoint": _all_gone(checkpoints),
    "lost raft log": _all_gone(raft_logs),
    "lost snapshot": _all_gone(snapshots),
    "lost metadata": _all_gone(lambda platter: [RAFT] if platter.exists(RAFT) else []),
    "lost partition": _one_gone(partitions),
    "lost partitions": _all_gone(partitions),
    "lost segment": _one_gone(segments),
    "lost identity": _all_gone(lambda platter: [IDENTITY] if platter.exists(IDENTITY) else []),
    "old disk": _aged(lambda _: [""]),
    "old metadata": _aged(lambda _: [RAFT]),
    "old journal": _aged(lambda _: [JOURNALS]),
    "old partition": _aged(partitions),
    "exchanged partitions": _exchange,
    "cut segment": _cut,
    "misdirected write": _misdirect,
    "rot in journal": _rot(journals),
    "rot in raft log": _rot(raft_logs),
    "rot in snapshot": _rot(snapshots),
    "rot in checkpoint": _rot(checkpoints),
    "rot in header": _rot_header,
    "rot in segment": _rot(segments),
    "bad sector in segment": _unreadable(segments),
    "bad sector in journal": _unreadable(journals),
    "bad sector in raft log": _unreadable(raft_logs),
}

# The same, under a running process: it notices when it reads.
LIVE_LOSSES: Mapping[str, Loss] = {
    "live rot in segment": _rot(segments),
    "live rot in header": _rot_header,
    "live bad sector": _unreadable(segments),
}
