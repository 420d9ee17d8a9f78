"""Errors of the machine."""

from __future__ import annotations

import errno

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class RuntimeFault(Exception):
    """Base of all errors of the machine."""


class DiskFull(RuntimeFault):
    """No space: none of the write was kept. Appends may be retried when space is available."""


class NoDescriptor(DiskFull):
    """No file can be opened. As with a full disk, nothing was done, the disk is sound, and you may retry."""


class NameTooLong(DiskFull):
    """The file system refuses the name. As with a full disk, nothing was done, and the disk is sound."""


class Refusals:
    """Counts what a disk refused for lack of space or descriptors. A periodic check reports it to the operator.

    Any thread may count; an error of one does no harm.
    """

    __slots__ = ("count", "latest")

    def __init__(self) -> None:
        self.count = 0
        self.latest: DiskFull | None = None

    def note(self, refused: DiskFull) -> DiskFull:
        self.count += 1
        self.latest = refused
        return refused


class DiskInUse(RuntimeFault):
    """Another process uses the data directory."""


def refusal(error: OSError, work: str) -> DiskFull | None:
    """The exception for a temporary refusal by the kernel during `work`; None if the error means something else."""
    if error.errno in FULL:
        return DiskFull(f"no space to {work}: free some disk space")
    if error.errno in NO_DESCRIPTOR:
        return NoDescriptor(f"no file descriptor left to {work}: raise the limit of open files")
    if error.errno == errno.ENAMETOOLONG:
        return NameTooLong(f"cannot {work}: the name is too long for the file system")
    return None


class TlsFailed(OSError):
    """A connection that failed or ended because of TLS. The message explains why."""
