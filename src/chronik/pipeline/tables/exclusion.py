"""Prevents a table's compaction from running during any other commit to the table.

deltalake's compaction commits without checking whether the files that it replaces are still in the table. If two run at
once, both succeed, and every row is duplicated; beside an upsert it restores old rows. So a commit holds its table's
lock shared, and a compaction holds it exclusively.

It is an operating system lock on a file in the table's folder, so it ends with its process. Folders on other machines
have none: their writers do not compact.
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
    """Waits for a running compaction. A table without a folder has nothing to compact yet."""
    if not place.is_local or not os.path.isdir(place.uri):
        yield
        return
    with open(os.path.join(place.uri, FILE), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextmanager
def compacting(place: Place) -> Iterator[bool]:
    """False if a commit or compaction is running: a later batch compacts."""
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
