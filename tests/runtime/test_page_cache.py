"""The kernel is asked whether it holds a part of a file: what it has evicted has to come from the disk again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.runtime import page_cache
from chronik.runtime.page_cache import PAGE_BYTES

PAGES = 64

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="only Linux tells")


@pytest.fixture(params=["cachestat", "nowait"])
def fd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A file of whole pages that are on the disk; asked as recent kernels are, and as older ones are."""
    if request.param == "nowait":
        monkeypatch.setattr(page_cache, "_has_cachestat", False)
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(fd, os.urandom(PAGES * PAGE_BYTES))
    os.fsync(fd)
    yield fd
    os.close(fd)


def test_what_was_just_written_is_in_memory(fd: int) -> None:
    for start, end in ((0, 1), (0, PAGES * PAGE_BYTES), (PAGE_BYTES - 1, PAGE_BYTES + 1), (5, 5)):
        assert page_cache.holds(fd, start, end)


def evict(fd: int) -> None:
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # a read brings in what it asks for, and no more
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def test_what_was_evicted_is_not_in_memory(fd: int, tmp_path: Path) -> None:
    evict(fd)
    if page_cache.holds(fd, 0, PAGES * PAGE_BYTES):
        pytest.skip(f"the file system of {tmp_path} keeps its files in memory")
    os.pread(fd, PAGES * PAGE_BYTES, 0)
    assert page_cache.holds(fd, 0, PAGES * PAGE_BYTES)


def test_a_single_page_that_is_missing_is_noticed(fd: int, tmp_path: Path) -> None:
    evict(fd)
    for page in (*range(20), *range(21, PAGES)):
        os.pread(fd, 1, page * PAGE_BYTES)
    if page_cache.holds(fd, 20 * PAGE_BYTES, 21 * PAGE_BYTES):
        pytest.skip(f"the kernel has read more of {tmp_path} than it was asked for, or keeps it in memory")
    evict(fd)
    for page in (*range(20), *range(21, PAGES)):
        os.pread(fd, 1, page * PAGE_BYTES)
    assert not page_cache.holds(fd, 0, PAGES * PAGE_BYTES)


def test_a_file_that_is_closed_is_nowhere(fd: int) -> None:
    other = os.dup(fd)
    os.close(other)
    assert not page_cache.holds(other, 0, 10)
