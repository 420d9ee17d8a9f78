"""The simulated disk's guarantees: what a power cut may remove, and what it must leave."""

from __future__ import annotations

import errno

import pytest

from chronik.runtime.errors import DiskFull
from chronik.sim.disk import PowerCut, SimDisk


def found_after_cut(seed: int) -> bytes:
    disk = SimDisk(seed)
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    disk.sync_directory("/d")
    file.append([b"A" * 700])
    file.sync()
    file.append([b"B" * 3000])
    return disk.power_cut().read_file("/d/f")


def test_synced_bytes_stay_and_unsynced_ones_may_go() -> None:
    """Each kind of loss must really occur, or the power cut tests above this disk prove nothing."""
    found = [found_after_cut(seed) for seed in range(300)]
    assert all(content[:700] == b"A" * 700 for content in found)
    assert any(len(content) == 700 for content in found), "lost wholly"
    assert any(700 < len(content) < 3700 and content[700:] == b"B" * (len(content) - 700) for content in found), "cut"
    assert any(content.endswith(b"B") and b"\0" * 512 in content for content in found), "torn in the middle"
    assert any(len(content) == 3700 for content in found), "kept"
    assert found[7] == found_after_cut(7), "the same seed replays the same loss"


def test_an_entry_needs_its_directory_synced() -> None:
    """A synced file whose name was never synced may be gone."""
    seen = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.make_directory("/d")
        file = disk.open("/d/f", create=True)
        file.append([b"x"])
        file.sync()
        seen.add(disk.power_cut().exists("/d/f"))
    assert seen == {False, True}


def test_a_rename_without_a_directory_sync_is_old_or_new() -> None:
    seen = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.make_directory("/d")
        disk.replace_file("/d/f", b"old")
        disk.open("/d/g", create=True).append([b"new"])
        disk.open("/d/g").sync()
        disk.sync_directory("/d")
        disk.rename("/d/g", "/d/f")
        seen.add(disk.power_cut().read_file("/d/f"))
    assert seen == {b"old", b"new"}


def test_replace_file_survives_a_cut_at_every_step() -> None:
    """Old or new content, never a mixture, wherever the power goes."""
    seen = set()
    for steps in range(20):
        for seed in range(20):
            disk = SimDisk(seed)
            disk.make_directory("/d")
            disk.replace_file("/d/f", b"old" * 500)
            disk.cut_after(steps)
            try:
                disk.replace_file("/d/f", b"new" * 700)
                done = True
            except PowerCut:
                done = False
            content = disk.power_cut().read_file("/d/f")
            assert content in (b"old" * 500, b"new" * 700)
            assert content == b"new" * 700 or not done
            seen.add(content)
    assert len(seen) == 2


def test_after_a_failed_sync_the_bytes_never_arrive() -> None:
    """A second fsync that succeeds says nothing about the first one's bytes: retrying it would lose data silently."""
    for seed in range(30):
        disk = SimDisk(seed)
        disk.make_directory("/d")
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        file.append([b"x" * 100])
        disk.fail("sync", "f")
        with pytest.raises(OSError, match="simulated") as raised:
            file.sync()
        assert raised.value.errno == errno.EIO
        file.sync()
        assert disk.power_cut().read_file("/d/f") == b""


def test_what_is_written_again_after_a_failed_sync_arrives() -> None:
    """A sector that is written to is dirty again, and the next sync takes it; its neighbours stay lost."""
    for seed in range(30):
        disk = SimDisk(seed)
        disk.make_directory("/d")
        file = disk.open("/d/f", create=True)
        disk.sync_directory("/d")
        file.append([b"x" * 1600])
        disk.fail("sync", "f")
        with pytest.raises(OSError, match="simulated"):
            file.sync()
        file = disk.process_killed().open("/d/f")
        assert bytes(file.read(0, 1600)) == b"x" * 1600
        file.write_again(600, 100)
        file.append([b"y" * 600])
        file.sync()
        found = file._disk.power_cut().read_file("/d/f")
        assert found == bytes(512) + b"x" * 512 + bytes(512) + b"x" * 64 + b"y" * 600


def test_a_full_disk_takes_nothing_and_heals() -> None:
    disk = SimDisk(1, capacity_bytes=100)
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    file.append([b"x" * 90])
    with pytest.raises(DiskFull):
        file.append([b"x" * 11])
    assert file.size_bytes() == 90
    assert disk.free_bytes("/d") == 10
    file.truncate(0)
    file.append([b"x" * 100])


def test_a_dead_disk_answers_nobody() -> None:
    """A node without power must not continue to write in the simulation."""
    disk = SimDisk(1)
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    disk.power_cut()
    with pytest.raises(PowerCut):
        file.append([b"x"])
    with pytest.raises(PowerCut):
        disk.list("/d")


def test_short_reads_are_completed() -> None:
    """POSIX lets pread return fewer bytes than available. A reader must still get the whole file."""
    disk = SimDisk(1)
    file = disk.open("/file", create=True)
    file.append([bytes(range(200))])
    disk.short_permille = 1000
    for position, size_bytes in ((0, 200), (0, 1), (10, 50), (150, 100), (200, 10)):
        assert file.read(position, size_bytes) == bytes(range(200))[position : position + size_bytes]


def test_short_reads_are_short() -> None:
    disk = SimDisk(1)
    file = disk.open("/file", create=True)
    file.append([bytes(1000)])
    disk.short_permille = 500
    sizes = {len(file._read(1000, 0)) for _ in range(50)}
    assert 1000 in sizes
    assert 0 < min(sizes) < 1000


def test_reads_of_a_healed_disk_and_of_its_successor() -> None:
    disk = SimDisk(1)
    disk.short_permille = 900
    assert disk.process_killed().short_permille == 900
    disk.heal()
    assert disk.short_permille == 0
