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
