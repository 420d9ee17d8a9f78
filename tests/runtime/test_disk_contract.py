"""One contract for every Disk: what storage relies on must hold on the real machine and in the simulator alike."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from chronik.runtime.errors import DiskInUse
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.real_disk import RealDisk
from chronik.sim.disk import SimDisk


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else SimDisk(seed=1)


@pytest.fixture
def directory(disk: Disk, tmp_path: Path) -> str:
    directory = f"{tmp_path}/data"
    disk.make_directory(directory)
    return directory


@pytest.fixture(params=["grows", "is written ahead"])
def file(disk: Disk, directory: str, request: pytest.FixtureRequest) -> File:
    path = f"{directory}/f"
    return disk.open(path, create=True) if request.param == "grows" else disk.create_ahead(path, 4096)


def test_append_returns_the_position_where_the_first_byte_landed(file: File) -> None:
    """Indexes store this position; an error of one byte makes every later read wrong."""
    assert file.append([b"abc"]) == 0
    assert file.append([b"de", memoryview(b"fgh"), bytearray(b"i")]) == 3
    assert file.append([]) == 9
    assert file.size_bytes() == 9
    assert bytes(file.read(0, 100)) == b"abcdefghi"


def test_one_append_may_have_more_buffers_than_one_system_call_takes(file: File) -> None:
    """A fetched or journaled round may gather thousands of pieces; Linux takes 1,024 at a time."""
    pieces = [bytes([index % 251]) * (index % 7) for index in range(5000)]
    assert file.append(pieces) == 0
    assert bytes(file.read(0, 1 << 20)) == b"".join(pieces)


@pytest.mark.parametrize(
    ("position", "size_bytes", "expected"),
    [(0, 4, b"0123"), (3, 4, b"3456"), (8, 4, b"89"), (10, 4, b""), (50, 4, b""), (4, 0, b"")],
)
def test_read_is_short_only_at_the_end_of_the_file(file: File, position: int, size_bytes: int, expected: bytes) -> None:
    """Callers interpret a short read as the end of the file."""
    file.append([b"0123456789"])
    assert bytes(file.read(position, size_bytes)) == expected


@pytest.mark.parametrize(("position", "size_bytes"), [(0, 10), (3, 4), (8, 100), (10, 4), (0, 0)])
def test_writing_again_changes_nothing(disk: Disk, directory: str, position: int, size_bytes: int) -> None:
    """Recovery does it to bytes that were acknowledged; the file is open for appending, which must stay its end."""
    file = disk.open(f"{directory}/f", create=True)
    file.append([b"0123456789"])
    file.write_again(position, size_bytes)
    file.sync()
    assert bytes(file.read(0, 100)) == b"0123456789"
    assert file.append([b"ab"]) == 10
    assert bytes(disk.read_file(f"{directory}/f")) == b"0123456789ab"


def test_a_read_outlives_what_happens_to_the_file(disk: Disk, directory: str) -> None:
    """A response in flight holds bytes while the log under it is truncated, closed and removed."""
    file = disk.open(f"{directory}/f", create=True)
    file.append([b"x" * 10_000])
    view = file.read(0, 10_000)
    file.truncate(0)
    file.close()
    disk.remove(f"{directory}/f")
    assert bytes(view) == b"x" * 10_000


def test_appends_after_a_truncation_land_at_the_new_end(file: File) -> None:
    """A follower that truncates to the leader's epoch continues to append to the same open file."""
    file.append([b"0123456789"])
    file.truncate(4)
    assert file.append([b"ab"]) == 4
    assert bytes(file.read(0, 100)) == b"0123ab"


def test_a_reopened_file_is_appended_to_not_overwritten(disk: Disk, directory: str) -> None:
    """Recovery opens what an earlier process wrote."""
    disk.open(f"{directory}/f", create=True).append([b"old"])
    file = disk.open(f"{directory}/f", create=True)
    assert file.size_bytes() == 3
    assert file.append([b"new"]) == 3
    assert disk.read_file(f"{directory}/f") == b"oldnew"


def test_what_is_written_ahead_are_zeros_and_whatever_was_there_before_is_gone(disk: Disk, directory: str) -> None:
    """A journal's reader interprets zeros as the end; bytes of an older journal could look like more of it."""
    path = f"{directory}/f"
    disk.open(path, create=True).append([b"older" * 5000])
    file = disk.create_ahead(path, 4096)
    written = b""
    for size_bytes in (1, 4000, 300, 9000, 7):
        piece = b"x" * size_bytes
        assert file.append([piece]) == len(written)
        written += piece
        assert file.size_bytes() == len(written)
        found = disk.read_file(path)
        assert found.startswith(written)
        assert not found[len(written) :].strip(b"\0")


def test_what_is_missing_is_said_to_be_missing(disk: Disk, directory: str) -> None:
    """Recovery tells "never written" from "cannot be read" by these errors."""
    with pytest.raises(FileNotFoundError):
        disk.open(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        disk.read_file(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        disk.remove(f"{directory}/none")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{directory}/none/f", create=True)
    assert not disk.exists(f"{directory}/none")
    assert disk.list(f"{directory}/none") == []


def test_names_are_listed_in_order(disk: Disk, directory: str) -> None:
    """Recovery must visit segments in the same order in every run."""
    for name in ["b", "a", "c"]:
        disk.open(f"{directory}/{name}", create=True)
    disk.make_directory(f"{directory}/d/e")
    assert disk.list(directory) == ["a", "b", "c", "d"]
    assert disk.exists(f"{directory}/d/e")


def test_replace_file_leaves_the_new_content_and_nothing_beside_it(disk: Disk, directory: str) -> None:
    disk.replace_file(f"{directory}/f", b"one, and longer than the next")
    disk.replace_file(f"{directory}/f", b"two")
    assert disk.read_file(f"{directory}/f") == b"two"
    assert disk.list(directory) == ["f"]


def test_rename_replaces_and_remove_tree_takes_everything(disk: Disk, directory: str) -> None:
    """Compaction swaps files by rename; deletion of a topic takes its whole directory."""
    disk.make_directory(f"{directory}/t-0")
    disk.open(f"{directory}/t-0/a", create=True).append([b"a"])
    disk.open(f"{directory}/t-0/b", create=True).append([b"b"])
    disk.rename(f"{directory}/t-0/a", f"{directory}/t-0/b")
    assert disk.read_file(f"{directory}/t-0/b") == b"a"
    disk.rename(f"{directory}/t-0", f"{directory}/t-0-delete")
    disk.remove_tree(f"{directory}/t-0-delete")
    assert disk.list(directory) == []


def test_a_directory_has_one_owner(disk: Disk, directory: str) -> None:
    """Two brokers on one directory would each overwrite the other's log."""
    disk.lock(f"{directory}/.lock")
    with pytest.raises(DiskInUse, match="another broker"):
        disk.lock(f"{directory}/.lock")


def test_a_directory_has_one_owner_also_without_its_lock_file(disk: Disk, directory: str) -> None:
    """An operator who cleans up may remove `.lock` as a leftover of an ended process."""
    disk.lock(f"{directory}/.lock")
    disk.remove(f"{directory}/.lock")
    with pytest.raises(DiskInUse, match="another broker"):
        disk.lock(f"{directory}/.lock")


def test_a_directory_that_was_let_go_can_be_taken_again(disk: Disk, directory: str) -> None:
    disk.lock(f"{directory}/.lock")
    disk.unlock(f"{directory}/.lock")
    disk.lock(f"{directory}/.lock")
    disk.unlock(f"{directory}/.lock")


def test_free_bytes_is_a_plausible_count(disk: Disk, directory: str) -> None:
    assert 0 < disk.free_bytes(directory) <= disk.total_bytes(directory)


async def _lane_runs_in_order_and_reports(disk: Disk) -> None:
    lane = disk.lane("test")
    loop_thread = threading.get_ident()
    seen: list[int] = []

    def piece(index: int) -> int:
        seen.append(index)
        return index * 2

    def fails() -> None:
        raise OSError(5, "no luck")

    futures = [lane.run(lambda index=index: piece(index)) for index in range(100)]
    assert seen == [] or isinstance(disk, RealDisk), "work does not run inside run()"
    failed = lane.run(fails)
    resolved_in: list[int] = []
    futures[0].add_done_callback(lambda _: resolved_in.append(threading.get_ident()))
    assert await asyncio.gather(*futures) == [index * 2 for index in range(100)]
    assert seen == list(range(100))
    assert resolved_in == [loop_thread]
    with pytest.raises(OSError, match="no luck"):
        await failed
    cancelled = lane.run(lambda: piece(100))
    cancelled.cancel()
    lane.close()
    assert seen[-1] == 100, "close waits for what was given, and cancelling does not stop the work"


def test_a_lane_runs_its_work_in_order_and_resolves_on_the_loop(disk: Disk) -> None:
    """The journal relies on order for "one round at a time", and on futures that resolve in the loop's own thread."""
    asyncio.run(_lane_runs_in_order_and_reports(disk))


def test_a_lane_syncs_files_off_the_loop(disk: Disk, directory: str) -> None:
    """The rounds of the journal depend on it; a round may also have nothing to sync."""

    async def sync() -> None:
        lane = disk.lane("test")
        files = [disk.open(f"{directory}/{name}", create=True) for name in "abc"]
        for file in files:
            file.append([b"kept"])
        await asyncio.wait_for(lane.sync(files), 30)
        await asyncio.wait_for(lane.sync([]), 30)
        lane.close()
        if isinstance(disk, SimDisk):
            for name in "abc":
                assert bytes(disk._file(f"{directory}/{name}").synced) == b"kept"

    asyncio.run(sync())


def test_an_append_moves_the_time_of_a_file_and_nothing_but_a_write_does(disk: Disk, directory: str) -> None:
    """Records without a timestamp are as old as their file: retention goes by it."""
    path = f"{directory}/f"
    file = disk.open(path, create=True)
    file.append([b"a"])
    disk.set_modified(path, 1_000)
    assert disk.modified_ms(path) == 1_000
    file.read(0, 1)
    disk.open(path)
    disk.rename(path, path + ".swap")
    assert disk.modified_ms(path + ".swap") == 1_000
    file.append([b"b"])
    assert disk.modified_ms(path + ".swap") > 1_000
