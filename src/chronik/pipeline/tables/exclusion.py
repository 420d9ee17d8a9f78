"""Keeps a table's compaction apart from everything else that commits to the table.

deltalake's compaction commits without asking whether the files that it replaces are still in the table. Of two that
run at once both succeed, and every row is there twice; beside an upsert it brings old rows back. So a commit shares
the lock of its table, and a compaction holds it alone.

The lock belongs to the operating system, on a file in the table's folder, so it ends with its process. Folders that are
not on this machine have none: there writers do not compact.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from chronik.pipeline.tables.place import Place

FILE: Final = "_chronik.lock"  # readers of Delta and vacuum skip names that begin with an underscore


@contextmanager
def committing(place: Place) -> Iterator[None]:
    """Waits for a compaction that runs. A table without a folder has nothing to compact yet."""
    if not place.is_local or not os.path.isdir(place.uri):
        yield
        return
    with open(os.path.join(place.uri, FILE), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def compacting(place: Place) -> Iterator[bool]:
    """False if something is being committed or compacted: then somebody else compacts later."""
    if not place.is_local:
        yield False
        return
    with open(os.path.join(place.uri, FILE), "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
