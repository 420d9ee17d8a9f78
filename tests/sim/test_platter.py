"""Damage to a disk while its machine is off is there for the next process, and after a power cut as well."""

from __future__ import annotations

import errno
from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.sim.losses import LIVE_LOSSES, LOSSES
from chronik.sim.platter import Platter, image_of

SECTOR = 512
ALL = {**LOSSES, **LIVE_LOSSES}


def disk_with(files: dict[str, bytes]) -> SimDisk:
    disk = SimDisk(1)
    for path, data in files.items():
        disk.make_directory(path.rpartition("/")[0])
        disk.replace_file(path, data)
    return disk


def whole_node() -> SimDisk:
    """Files of all kinds that a node has, with two batches' worth of bytes that look like batches in each partition."""
    batch = b"\0" * 8 + (49).to_bytes(4, "big") + b"\1" * 49
    return disk_with(
        {
            "/data/meta.properties": b"version=1\n",
            "/data/checkpoint": b"chronik checkpoint 1",
            "/data/journal/00000000000000000000.journal": b"j" * 2000,
            "/data/journal/00000000000000000001.journal": b"k" * 2000,
            "/data/raft/journal-00000001": b"r" * 2000,
            "/data/raft/snapshot": b"s" * 2000,
            "/data/orders-0/00000000000000000000.log": batch * 20,
            "/data/orders-1/00000000000000000000.log": batch * 30,
        }
    )


def content(disk: SimDisk) -> dict[str, bytes]:
    return {path: Platter(disk).content(path) for path in Platter(disk).files()}


@pytest.mark.parametrize("kind", ALL)
def test_every_loss_spoils_something_and_says_what(kind: str) -> None:
    """A fault that changes nothing would make a run that proves nothing."""
    disk = whole_node()
    image = image_of(disk, Random(0))
    disk.replace_file("/data/raft/journal-00000001", b"later" * 500)
    disk.replace_file("/data/journal/00000000000000000001.journal", b"later" * 500)
    for partition in ("orders-0", "orders-1"):
        disk.open(f"/data/{partition}/00000000000000000000.log").append([b"later"])
    before = content(disk)
    told = ALL[kind](Platter(disk), Random(3), image)
    assert told
    assert disk.root.entries
    if "bad sector" in kind:
        assert _cannot_be_read(disk, list(before))
    else:
        assert content(disk) != before
        assert content(disk.power_cut()) == content(disk), "it is durable"


def _cannot_be_read(disk: SimDisk, paths: list[str]) -> bool:
    refused = 0
    for path in paths:
        try:
            disk.read_file(path)
        except OSError as error:
            refused += error.errno == errno.EIO
    return refused == 1


@pytest.mark.parametrize("kind", ALL)
def test_a_loss_on_an_empty_disk_is_none(kind: str) -> None:
    assert ALL[kind](Platter(SimDisk(1)), Random(3), None) is None


def test_an_image_is_not_changed_by_what_is_written_later() -> None:
    disk = disk_with({"/data/a": b"old"})
    image = image_of(disk, Random(0))
    disk.open("/data/a").append([b" and new"])
    disk.replace_file("/data/b", b"new")
    Platter(disk).restore("", image)
    assert content(disk) == {"/data/a": b"old"}
    disk.open("/data/a").append([b"er"])
    Platter(disk).restore("", image)
    assert content(disk) == {"/data/a": b"old"}, "it can be used again"


def test_a_part_that_an_image_lacks_is_gone() -> None:
    """A partition that is younger than the copy of the disk is not on the copy."""
    disk = disk_with({"/data/a/file": b"1"})
    image = image_of(disk, Random(0))
    disk.make_directory("/data/b")
    disk.replace_file("/data/b/file", b"2")
    assert not Platter(disk).restore("/data/b", image)
    assert content(disk) == {"/data/a/file": b"1"}


def test_a_sync_that_lies_is_seen_after_a_power_cut_only() -> None:
    disk = disk_with({"/data/journal/1": b""})
    disk.lie("journal", 1)
    file = disk.open("/data/journal/1")
    file.append([b"x" * SECTOR])
    file.sync()
    file.append([b"y" * SECTOR])
    file.sync()
    assert file.read(0, 2 * SECTOR) == b"x" * SECTOR + b"y" * SECTOR
    found = disk.power_cut().read_file("/data/journal/1")
    assert found == bytes(SECTOR) + b"y" * SECTOR, "later syncs leave it out as well"


def test_a_bad_sector_fails_only_reads_that_touch_it() -> None:
    disk = disk_with({"/data/a": b"." * 4 * SECTOR})
    Platter(disk).make_unreadable("/data/a", SECTOR, 2 * SECTOR)
    copied = disk_after_cut(disk)
    for found in (copied, disk.process_killed()):
        file = found.open("/data/a")
        assert len(file.read(0, SECTOR)) == SECTOR
        assert len(file.read(2 * SECTOR, SECTOR)) == SECTOR
        with pytest.raises(OSError, match="bad sectors"):
            file.read(SECTOR - 1, 2)


def disk_after_cut(disk: SimDisk) -> SimDisk:
    made = SimDisk(2)
    Platter(made).restore("", image_of(disk, Random(0)))
    return made
