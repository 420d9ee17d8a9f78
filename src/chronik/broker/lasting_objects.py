"""Excludes the metadata image from garbage collection, so that a large image does not make the collector block the
loop.

Python's collector examines all objects of a generation in one step. With 100,000 access rules that takes half a second.
The image has no cycles, so reference counting frees its old parts. After each 5,000 changes, all existing objects are
therefore frozen (`gc.freeze`), as they are at the start of a process.

All other live objects are frozen too. If one becomes part of a cycle later, its memory is lost. This happens at most
once in thousands of metadata changes, and only to objects that were in use at that moment.
"""

from __future__ import annotations

import gc
from operator import is_not
from typing import Final

from chronik.metadata.delta import Changes
from chronik.metadata.image import Image, Topic

CHANGES_MAX: Final = 5_000  # about six objects each, which the collector examines in about 30 ms
YOUNGEST: Final = 0  # generation; contains no more objects than the collector's next run would examine


class LastingObjects:
    """A listener of the metadata store."""

    def __init__(self) -> None:
        self._changes = 0  # since the last freeze

    def changed(self, before: Image, after: Image, changes: Changes) -> None:
        self._changes += _count(before, after, changes)
        if self._changes >= CHANGES_MAX:
            self._changes = 0
            gc.collect(YOUNGEST)  # otherwise garbage would be frozen too
            gc.freeze()


def _count(before: Image, after: Image, changes: Changes) -> int:
    """The number of new objects in the image, counted in access rules, partitions and configs."""
    rules = abs(len(after.access) - len(before.access))
    added = sum(len(topic.partitions) for topic in changes.topics_added)
    changed = sum(_changed_partitions(old, new) for old, new in changes.topics_changed)
    return rules + added + changed + len(changes.configs)


def _changed_partitions(old: Topic, new: Topic) -> int:
    more = abs(len(new.partitions) - len(old.partitions))
    return more + sum(map(is_not, old.partitions, new.partitions))
