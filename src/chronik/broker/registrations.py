"""The processes of this node that have registered, stored in the data directory: DIRECTORY/registrations.

A disk restored from an old copy looks like any other, except that it does not know the process that registered last. So
each process writes its incarnation id to this file before it registers, and sends the earlier ids to the controller. If
the id that the controller knows is not among them, this disk is an older copy, and the controller does not rely on its
replicas.

The file contains the last process known to be registered and all that tried later, because one of them may have
registered without receiving the response. One id per line, in hex, oldest first.
"""

from __future__ import annotations

import contextlib

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Randomness

FILE = "registrations"
ID_BYTES = 16
KEPT_MAX = 1_000  # attempts without a response; a node with more of them counts as one with an old disk


class Registrations:
    def __init__(self, disk: Disk, directory: str, *, is_used: bool) -> None:
        """`is_used` says that a process is known to have registered with this directory, so that the file must
        exist."""
        self._disk = disk
        self._path = f"{directory}/{FILE}"
        lines = disk.read_file(self._path).split() if disk.exists(self._path) else []
        self._ids = [bytes.fromhex(line.decode()) for line in lines if _is_id(line)]
        # None otherwise: the controller may know a process of a release that did not write this file.
        self.earlier: list[bytes] | None = list(self._ids) if is_used else None

    def begin(self, randomness: Randomness) -> bytes:
        """Returns this process's id. It is durable, so it may be sent to the controller."""
        incarnation_id = randomness.bytes(ID_BYTES)
        self._ids = [*self._ids[-KEPT_MAX:], incarnation_id]
        self._write()
        return incarnation_id

    def confirm(self) -> None:
        """The controller has registered this process: earlier ids are no longer needed."""
        del self._ids[:-1]
        with contextlib.suppress(DiskFull):  # sending the earlier ids once more does no harm
            self._write()

    def _write(self) -> None:
        self._disk.replace_file(self._path, b"".join([b"%s\n" % each.hex().encode() for each in self._ids]))


def _is_id(line: bytes) -> bool:
    return len(line) == 2 * ID_BYTES and all(character in b"0123456789abcdef" for character in line)
