"""A read reports whether the kernel had the bytes cached: evicted bytes come from the disk, where they may have
changed."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.runtime.errors import Refusals
from chronik.runtime.real_file import RealFile

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
PAGES = 64
CONTENT = os.urandom(PAGES * PAGE_BYTES - 100)

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux tells")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    """A file that is on the disk, and in memory."""
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    file = RealFile(str(path), os.open(path, os.O_RDWR), Refusals())
    file.sync()
    yield file
    file.close()


def evict(file: RealFile) -> None:
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # a read loads only the requested bytes
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def pages_in_memory(file: RealFile) -> list[bool]:
    """As the kernel says through another door (mincore)."""
    states = (ctypes.c_ubyte * PAGES)()
    with mmap.mmap(file.fileno(), len(CONTENT)) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None).mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(CONTENT)), states
        )
        del start
    assert not failed
    return [bool(state & 1) for state in states]


@pytest.mark.parametrize(("position", "size"), [(0, 1), (0, len(CONTENT)), (PAGE_BYTES - 1, 2), (7, 0), (5, 1 << 30)])
def test_what_was_just_written_comes_from_memory(file: RealFile, position: int, size: int) -> None:
    data, was_in_memory = file.read_noting_origin(position, size)
    assert (bytes(data), was_in_memory) == (CONTENT[position : position + size], True)


def test_what_was_evicted_comes_from_the_disk_and_is_whole(file: RealFile) -> None:
    evict(file)
    if any(pages_in_memory(file)):
        pytest.skip("this file system keeps its files in memory")
    assert file.read_noting_origin(0, len(CONTENT)) == (CONTENT, False)
    assert all(pages_in_memory(file))
    assert file.read_noting_origin(0, len(CONTENT)) == (CONTENT, True), "it is in memory now"


def test_one_page_that_is_missing_is_noticed(file: RealFile) -> None:
    evict(file)
    for page in (*range(20), *range(21, PAGES)):
        file.read(page * PAGE_BYTES, 1)
    if pages_in_memory(file)[20]:
        pytest.skip("the kernel has read more than it was asked for, or keeps the file in memory")
    assert file.read_noting_origin(0, len(CONTENT)) == (CONTENT, False)


@pytest.mark.parametrize("answer", [BlockingIOError(), PAGE_BYTES])
def test_a_kernel_that_would_have_to_wait_says_so_or_returns_less(
    file: RealFile, answer: BlockingIOError | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def preadv(*_: object) -> int:
        if isinstance(answer, int):
            return answer
        raise answer

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.read_noting_origin(0, 2 * PAGE_BYTES) == (CONTENT[: 2 * PAGE_BYTES], False)


def test_behind_the_end_there_is_nothing(file: RealFile) -> None:
    assert file.read_noting_origin(len(CONTENT), 10) == (b"", True)
    assert file.read_noting_origin(len(CONTENT) + 10, 10) == (b"", True)


def test_a_file_system_that_cannot_tell_counts_as_memory(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.read_noting_origin(3, 10) == (CONTENT[3:13], True)


def test_an_error_names_the_file(file: RealFile, tmp_path: Path) -> None:
    file.close()
    with pytest.raises(OSError, match=str(tmp_path)):
        file.read_noting_origin(0, 10)
