"""How far this node has applied the metadata, as the data directory remembers it: DIRECTORY/metadata-mark.

The metadata log may be restored from an old copy, or lose its end, and looks whole all the same. What was applied was
committed, so a log that ends before the mark has lost entries which this node acknowledged. The file is a lower bound:
it is written now and then, and never before the entries are durable.
"""

from __future__ import annotations

import contextlib

from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Disk

FILE = "metadata-mark"


def read_mark(disk: Disk, directory: str) -> int:
    """0 if there is none, or none that can be read."""
    path = f"{directory}/{FILE}"
    text = disk.read_file(path).strip() if disk.exists(path) else b""
    return int(text) if text.isdigit() else 0


def write_mark(disk: Disk, directory: str, index: int) -> None:
    """Blocks: it belongs on a lane. A full disk keeps the old mark; a failed sync is raised."""
    with contextlib.suppress(RuntimeFault):
        disk.replace_file(f"{directory}/{FILE}", b"%d\n" % index)
