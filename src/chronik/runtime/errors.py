"""What the machine may refuse."""

from __future__ import annotations

import errno

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)


class RuntimeFault(Exception):
    """Base of all faults of the machine."""


class DiskFull(RuntimeFault):
    """No space: nothing of the write was kept. Appends may be tried again when space is back."""


class NoDescriptor(DiskFull):
    """No file can be opened. As with a full disk nothing was done, the disk is sound, and it may be tried again."""


class NameTooLong(DiskFull):
    """The file system takes no such name. As with a full disk nothing was done, and the disk is sound."""


class Refusals:
    """What a disk refused for lack of space or descriptors. Its operator is told by whoever looks here now and then.

    Any thread may note one; a count that is off by one does no harm.
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
    """Another process holds the data directory."""


def refusal(error: OSError, work: str) -> DiskFull | None:
    """What to raise when the kernel refuses to do `work` for now; None if the error says more than that."""
    if error.errno in FULL:
        return DiskFull(f"no space to {work}: free some disk space")
    if error.errno in NO_DESCRIPTOR:
        return NoDescriptor(f"no file descriptor left to {work}: raise the limit of open files")
    if error.errno == errno.ENAMETOOLONG:
        return NameTooLong(f"cannot {work}: the name is too long for the file system")
    return None


class TlsFailed(OSError):
    """A connection that did not come about, or ended, because of TLS. The message says why, in words."""
