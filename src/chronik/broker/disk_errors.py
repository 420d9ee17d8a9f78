"""Advice for operators when a disk fails while a node starts: one line with path, reason and command.

The errors are the kernel's. What they mean for the node depends on the file: `chronik storage repair` rebuilds log.dirs
from its segments, while the metadata log is copied from other voters or restored.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.broker.settings import Settings

FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
NO_DIRECTORY = (errno.EEXIST, errno.ENOTDIR)


def advice(fault: OSError, settings: Settings) -> str | None:
    """None if the error is not about a file in the data directories."""
    path = fault.filename if isinstance(fault.filename, str) else ""
    raft = f"{settings.metadata_dir}/raft"
    if not path.startswith((settings.log_dir, settings.metadata_dir)):
        return None
    if fault.errno in FORBIDDEN:
        return f"{path} cannot be used ({fault.strerror}): this process's user must be able to read and write it"
    if fault.errno in NO_DIRECTORY:
        return f"{path} is no directory ({fault.strerror}): name another one in log.dirs, or as --data of `chronik up`"
    failed = f"{path} cannot be read or written ({fault.strerror}): the disk fails, so replace it"
    if path.startswith(raft):
        return (
            f"{failed}; a node with other voters starts with an empty {raft} and copies the metadata from them, a "
            "single node needs a backup of it"
        )
    return (
        f"{failed}; copy what can be read to the new disk and run `chronik storage repair {settings.log_dir}`, which "
        "keeps what the segments hold and copies the rest from other nodes"
    )
