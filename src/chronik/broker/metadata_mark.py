"""The index up to which this node has applied the metadata log, stored in the data directory: DIRECTORY/metadata-mark.

The metadata log may be restored from an old copy or lose its end, and still look complete. Applied entries were
committed, so a log that ends before the mark lacks entries which this node acknowledged. The mark is a lower bound: it
is written periodically and at a clean stop, and never before the entries are durable.
"""

from __future__ import annotations

import contextlib

from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Disk

FILE = "metadata-mark"


def read_mark(disk: Disk, directory: str) -> int:
    """0 if the file is missing or unreadable."""
    path = f"{directory}/{FILE}"
    text = disk.read_file(path).strip() if disk.exists(path) else b""
    return int(text) if text.isdigit() else 0


def write_mark(disk: Disk, directory: str, index: int) -> None:
    """Blocks: call it on a lane. On a full disk the old mark remains; a failed sync is raised."""
    with contextlib.suppress(RuntimeFault):
        disk.replace_file(f"{directory}/{FILE}", b"%d\n" % index)
