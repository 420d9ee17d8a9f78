"""A node that cannot start because its disk fails says which file, why, and what to do, in one line."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from chronik.broker.errors import CannotStart
from chronik.runtime.real_disk import RealDisk
from chronik.sim.disk import SimDisk
from tests.broker.harness import start_node

REPAIR = "chronik storage repair /data"


async def stopped() -> SimDisk:
    disk = SimDisk(0)
    node = await start_node(disk)
    await node.stop()
    return disk


@pytest.mark.parametrize(
    ("part", "code", "advice"),
    [
        ("checkpoint", errno.EIO, REPAIR),
        ("manifest", errno.EIO, REPAIR),
        (".journal", errno.EIO, REPAIR),
        ("/raft/", errno.EIO, "copies the metadata from them"),
        ("checkpoint", errno.EACCES, "must be able to read and write it"),
        ("checkpoint", errno.ENOTDIR, "is no directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(part: str, code: int, advice: str) -> None:
    """A bare "[Errno 5] Input/output error" leaves an operator without a path and without a way out."""

    async def test() -> None:
        disk = await stopped()
        disk.fail("read", part, code)
        with pytest.raises(CannotStart) as refused:
            await start_node(disk)
        text = str(refused.value)
        assert part in text
        assert advice in text
        assert "\n" not in text
        assert isinstance(refused.value.__cause__, OSError)

    asyncio.run(test())


def test_the_kernels_errors_name_their_file(tmp_path: Path) -> None:
    """Reads and syncs go by descriptor, so the kernel does not say which file it was."""
    path = f"{tmp_path}/file"
    disk = RealDisk()
    file = disk.open(path, create=True)
    file.append([b"bytes"])
    os.close(file.fileno())
    for failing in (lambda: file.read(0, 5), file.sync):
        with pytest.raises(OSError, match="Bad file descriptor") as failed:
            failing()
        assert failed.value.filename == path
    file._fd = -1
    os.mkdir(f"{tmp_path}/directory")
    with pytest.raises(OSError, match="directory") as failed:
        disk.read_file(f"{tmp_path}/directory")
    assert failed.value.filename == f"{tmp_path}/directory"
