"""A damaged replica of three is replaced while a foreign client writes and reads, and the client sees no error.

Bytes of a segment are damaged on the leader or on a follower, in a stopped node or under a running one. The replica
must leave the in-sync set, copy what it lacks and come back. `make kills` repeats this; CHRONIK_DAMAGE_MB sets how much
each partition holds, and the printed lines say how long each step took.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory
from tests.cluster.asking import Asked
from tests.cluster.load import Load, check_survived, eventually, rounds, wait_for_full_isr
from tests.cluster.readers import Reader

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "hurt"
VALUE_BYTES = 4096
RECORDS = int(float(os.environ.get("CHRONIK_DAMAGE_MB", "1")) * 1e6 / VALUE_BYTES)  # of each partition, at first
DAMAGED_AT = (80, 5_000, 400_000)  # positions in the first segment: its first batch, and later ones
# The scrubber makes a pass every few seconds instead of every week: nobody reads from a follower.
SETTINGS = {"chronik.scrub.interval.ms": "1"}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=SETTINGS, in_process=False) as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        yield cluster


def damage(segment: Path) -> list[bytes]:
    """Inverts one byte at each position, on the disk and not in memory, as rot does; what the bytes were."""
    before = []
    fd = os.open(segment, os.O_RDWR | os.O_DIRECT)
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as page:  # aligned, which the kernel demands here
            for position in DAMAGED_AT:
                start, at = position // mmap.PAGESIZE * mmap.PAGESIZE, position % mmap.PAGESIZE
                os.preadv(fd, [page], start)
                before.append(page[at : at + 1])
                page[at] ^= 0xFF
                os.pwritev(fd, [page], start)
    finally:
        os.close(fd)
    return before


def is_mended(segment: Path, before: list[bytes]) -> bool:
    """Past the page cache too: a read that brought damaged pages into memory would make the node trust them."""
    try:
        fd = os.open(segment, os.O_RDONLY | os.O_DIRECT)
    except FileNotFoundError:  # it is being replaced
        return False
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as page:
            stored = []
            for position in DAMAGED_AT:
                start, at = position // mmap.PAGESIZE * mmap.PAGESIZE, position % mmap.PAGESIZE
                size = os.preadv(fd, [page], start)
                stored.append(page[at : at + 1] if at < size else b"")
    finally:
        os.close(fd)
    return stored == before


@pytest.mark.parametrize(
    ("whose", "is_running"),
    [
        ("leader", False),
        ("leader", True),
        pytest.param("follower", True, marks=pytest.mark.long),
        pytest.param("follower", False, marks=pytest.mark.long),
    ],
)
def test_a_damaged_replica_is_replaced_and_clients_see_no_error(whose: str, is_running: bool, cluster: Cluster) -> None:
    """Two good copies exist, so no client has to be refused anything."""
    load = Load(cluster, TOPIC, value_bytes=VALUE_BYTES)
    load.wait_for_more(RECORDS)
    reader = Reader(cluster, load)
    for _ in range(rounds(1)):
        eventually(lambda: reader.passes, "the reader has read everything once")
        hurt(cluster, whose, is_running=is_running)
        load.wait_for_more()
    load.stop()
    passes = reader.passes
    eventually(lambda: reader.passes > passes + 1, "the reader reads everything again")
    reader.stop()
    print(f"longest pause of acknowledgements {load.longest_pause_ms()} ms; {reader.passes} passes of the reader")
    assert not reader.failures, reader.failures[:3]
    check_survived(cluster, load)
    unknown = {key for key, value in reader.found.items() if load.acknowledged.get(key) != value}
    assert not unknown, f"{len(unknown)} records were read that nobody wrote: {sorted(unknown)[:3]}"


def hurt(cluster: Cluster, whose: str, *, is_running: bool) -> None:
    """Damages one replica and returns when it is whole and in sync again."""
    placed = wait_for_full_isr(cluster, TOPIC)[0]
    node_id = placed.leader if whose == "leader" else next(each for each in placed.isr if each != placed.leader)
    segment = node_directory(cluster.data, node_id) / f"{TOPIC}-0" / f"{0:020}.log"
    if is_running:
        before = damage(segment)
    else:
        cluster.stop(node_id)
        before = damage(segment)
        cluster.start_again(node_id)
    began_s = time.monotonic()
    eventually(lambda: is_mended(segment, before), f"{segment} is mended")
    mended_s = time.monotonic()
    wait_for_full_isr(cluster, TOPIC)
    print(
        f"{whose}, {'running' if is_running else 'stopped'}: {segment.stat().st_size / 1e6:.1f} MB,"
        f" mended after {mended_s - began_s:.2f} s, ISR full after {time.monotonic() - began_s:.2f} s"
    )
