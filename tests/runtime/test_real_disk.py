"""What only the real disk can show: refusals of the kernel, told apart."""

from __future__ import annotations

import errno
import itertools
import os
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chronik.runtime.errors import DiskFull
from chronik.runtime.real_disk import RealDisk
from tests.runtime.one_thread import replace_here


def test_a_full_disk_keeps_nothing_of_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a batch in a segment would be followed by the next batch, and everything after it would be unreadable."""
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"kept"])
    write = os.write

    def nearly_full(fd: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:10])

    replace_here(monkeypatch, "os.write", nearly_full)
    with pytest.raises(DiskFull, match="free some disk space"):
        file.append([b"0123456789abcdef"])
    monkeypatch.undo()
    assert file.size_bytes() == 4
    assert file.append([b"!"]) == 4, "appends work again when space is back"
    assert bytes(file.read(0, 100)) == b"kept!"


def test_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    """Records, and one day credentials, lie there; other users of the machine have no business with them."""
    disk = RealDisk()
    data = f"{tmp_path}/a/b"
    before = os.umask(0)
    try:
        disk.make_directory(data)
        disk.open(f"{data}/log", create=True).close()
        disk.create_ahead(f"{data}/journal", 4096).close()
        disk.replace_file(f"{data}/meta.properties", b"x")
        disk.lock(f"{data}/.lock")
        disk.unlock(f"{data}/.lock")
    finally:
        os.umask(before)
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        "a": 0o700,
        "a/b": 0o700,
        "a/b/log": 0o600,
        "a/b/journal": 0o600,
        "a/b/meta.properties": 0o600,
        "a/b/.lock": 0o600,
    }


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may write fewer bytes than requested; a partly written batch must not count as written."""
    write = os.write
    replace_here(monkeypatch, "os.write", lambda fd, data: write(fd, data[:3]))
    replace_here(monkeypatch, "os.writev", lambda fd, buffers: write(fd, b"".join(buffers)[:3]))
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"0123456789"])
    file.append([b"abcd", b"efgh"])
    assert bytes(file.read(0, 100)) == b"0123456789abcdefgh"


def test_a_disk_too_full_to_write_ahead_takes_what_still_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeing space takes a note in the journal: it must not need half a megabyte."""
    file = RealDisk().create_ahead(f"{tmp_path}/f", 4096)
    file.append([b"x" * 4000])
    pwrite, room_bytes = os.pwrite, 4200

    def nearly_full(fd: int, data: bytes, position: int) -> int:
        if position >= room_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data[: room_bytes - position], position)

    replace_here(monkeypatch, "os.pwrite", nearly_full)
    assert file.append([b"y" * 200]) == 4000
    with pytest.raises(DiskFull, match="free some disk space"):
        file.append([b"z" * 10])
    assert (file.size_bytes(), Path(file.path).stat().st_size) == (4200, 4200)
    monkeypatch.undo()
    assert file.append([b"z" * 10]) == 4200, "appends work again when space is back"
    assert bytes(file.read(4000, 500)) == b"y" * 200 + b"z" * 10


def test_a_refused_write_leaves_nothing_behind_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If even overwriting needs space, half of a refused frame would follow the next, shorter one."""
    file = RealDisk().create_ahead(f"{tmp_path}/f", 4096)
    file.append([b"kept"])
    pwrite = os.pwrite

    def half(fd: int, data: bytes, position: int) -> int:
        if len(data) <= 50:
            raise OSError(errno.ENOSPC, "No space left on device")
        return pwrite(fd, data[:50], position)

    replace_here(monkeypatch, "os.pwrite", half)
    with pytest.raises(DiskFull, match="free some disk space"):
        file.append([b"z" * 100])
    monkeypatch.undo()
    assert file.append([b"next"]) == 4
    assert Path(file.path).read_bytes().rstrip(b"\0") == b"keptnext"


def test_a_short_write_of_what_was_written_ahead_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    replace_here(monkeypatch, "os.pwrite", lambda fd, data, position: pwrite(fd, data[:300], position))
    replace_here(monkeypatch, "os.pwritev", lambda fd, buffers, position: pwrite(fd, b"".join(buffers)[:300], position))
    file = RealDisk().create_ahead(f"{tmp_path}/f", 4096)
    file.append([b"a" * 1000])
    file.append([b"b" * 500, b"c" * 5000])
    assert bytes(file.read(0, 9000)) == b"a" * 1000 + b"b" * 500 + b"c" * 5000


def test_a_short_read_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"0123456789"])
    pread = os.pread
    replace_here(monkeypatch, "os.pread", lambda fd, size, position: pread(fd, min(size, 3), position))
    assert bytes(file.read(1, 8)) == b"12345678"
    assert bytes(file.read(1, 80)) == b"123456789"


REFUSABLE: dict[str, Callable[[RealDisk, str], object]] = {
    "open": lambda disk, directory: disk.open(f"{directory}/new", create=True),
    "create_ahead": lambda disk, directory: disk.create_ahead(f"{directory}/new", 4096),
    "make_directory": lambda disk, directory: disk.make_directory(f"{directory}/new"),
    "replace_file": lambda disk, directory: disk.replace_file(f"{directory}/there", b"new"),
    "read_file": lambda disk, directory: disk.read_file(f"{directory}/there"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize(
    ("work", "call", "through_count"),
    [
        ("open", "os.open", 0),
        ("create_ahead", "os.open", 0),
        ("make_directory", "os.mkdir", 0),
        ("make_directory", "os.open", 0),  # of the directory that it is in, to sync it
        ("replace_file", "os.open", 0),
        ("replace_file", "os.open", 1),
        ("replace_file", "os.replace", 0),
        ("read_file", "builtins.open", 0),
    ],
)
def test_what_finds_no_room_or_no_descriptor_is_refused_and_nothing_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, call: str, through_count: int, code: int
) -> None:
    """An OSError is a disk that fails, and the node stops. Inodes, blocks of a directory and descriptors come back."""
    disk = RealDisk()
    (tmp_path / "there").write_bytes(b"old")
    real, calls = pkgutil.resolve_name(call), itertools.count()

    def refused(*args: Any, **options: Any) -> Any:
        if next(calls) == through_count:
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    with monkeypatch.context() as patched:
        replace_here(patched, call, refused)
        with pytest.raises(DiskFull):
            REFUSABLE[work](disk, str(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"there": b"old"}
    REFUSABLE[work](disk, str(tmp_path))


@pytest.mark.parametrize("work", ["open", "create_ahead", "make_directory"])
def test_a_disk_that_fails_is_not_called_full(tmp_path: Path, work: str) -> None:
    """Waiting for space would not help, and the error would stay hidden."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        REFUSABLE[work](RealDisk(), f"{tmp_path}/file")


def test_what_was_forgotten_is_read_again(tmp_path: Path) -> None:
    """Forgetting is about memory alone."""
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    data = os.urandom(1 << 20)
    file.append([data])
    file.sync()
    file.forget(0, 1 << 19)
    assert bytes(file.read(0, 1 << 20)) == data


def test_a_file_that_another_program_cut_is_not_in_place(tmp_path: Path) -> None:
    """logrotate's copytruncate treats segments as log files. Later appends then start at the front, and no call
    fails."""
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.append([b"x" * 100])
    file.truncate(60)
    assert file.is_in_place()
    os.truncate(tmp_path / "f", 0)
    assert not file.is_in_place()
    file.append([b"y"])
    assert not file.is_in_place()
    file.close()


def test_a_journal_that_another_program_cut_is_not_in_place(tmp_path: Path) -> None:
    """Its writes name positions, so the file grows over a hole. Growing it once more would hide the hole."""
    file = RealDisk().create_ahead(f"{tmp_path}/f", 4096)
    file.append([b"x" * 1000])
    assert file.is_in_place()
    os.truncate(tmp_path / "f", 0)
    assert not file.is_in_place()
    file.append([b"y" * 1000])
    assert not file.is_in_place()
    with pytest.raises(OSError, match="the file was truncated by another program"):
        file.append([b"z" * 4096])
    file.close()


def test_a_journal_that_is_cut_by_its_owner_is_in_place(tmp_path: Path) -> None:
    file = RealDisk().create_ahead(f"{tmp_path}/f", 4096)
    for size_bytes in (1000, 9000):
        file.append([b"x" * size_bytes])
        assert file.is_in_place()
    file.truncate(500)
    assert file.is_in_place()
    file.append([b"y" * 5000])
    assert file.is_in_place()
    assert file.read(0, 6000) == b"x" * 500 + b"y" * 5000
    file.close()
