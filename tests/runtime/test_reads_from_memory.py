"""A read tells whether the kernel held the bytes: what was evicted comes from the disk, where it may have changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.runtime.errors import Refusals
from chronik.runtime.real_file import RealFile

PAGE_BYTES = os.sysconf("SC_PAGESIZE")
CONTENT = os.urandom(64 * PAGE_BYTES - 100)

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
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # a read brings in what it asks for, and no more
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize(("position", "size"), [(0, 1), (0, len(CONTENT)), (PAGE_BYTES - 1, 2), (7, 0), (5, 1 << 30)])
def test_what_was_just_written_comes_from_memory(file: RealFile, position: int, size: int) -> None:
    data, was_in_memory = file.read_noting_origin(position, size)
    assert (bytes(data), was_in_memory) == (CONTENT[position : position + size], True)


def test_what_was_evicted_comes_from_the_disk_and_is_whole(file: RealFile) -> None:
    evict(file)
    data, was_in_memory = file.read_noting_origin(0, len(CONTENT))
    assert data == CONTENT
    if was_in_memory:
        pytest.skip("this file system keeps its files in memory")
    assert file.read_noting_origin(0, len(CONTENT)) == (CONTENT, True), "it is in memory now"


def test_one_page_that_is_missing_is_noticed(file: RealFile) -> None:
    evict(file)
    for page in (*range(20), *range(21, 64)):
        file.read(page * PAGE_BYTES, 1)
    data, was_in_memory = file.read_noting_origin(0, len(CONTENT))
    assert data == CONTENT
    if was_in_memory:
        pytest.skip("the kernel has read more than it was asked for, or keeps the file in memory")


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
