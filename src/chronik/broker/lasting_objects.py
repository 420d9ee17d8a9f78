"""Keeps the metadata image out of the garbage collector's sight, so that a large image never makes it hold the loop.

Python looks for cycles among all objects that it has not looked at lately, in one step. With 100,000 access rules that
takes half a second. The image has no cycles: what it drops is freed by counting references. So after each 5,000 changes
all objects of that moment are frozen (`gc.freeze`), as they are once at the start of a process.

Whatever else lives at that moment is frozen too. If it becomes a cycle later, its memory is lost: once for thousands of
changes of the metadata, and only for what was in use right then.
"""

from __future__ import annotations

import gc
from operator import is_not
from typing import Final

from chronik.metadata.delta import Changes
from chronik.metadata.image import Image, Topic

CHANGES_MAX: Final = 5_000  # some six objects each, which the collector looks through in about 30 ms
YOUNGEST: Final = 0  # generation; no more objects than the collector would look through next


class LastingObjects:
    """A listener of the metadata store."""

    def __init__(self) -> None:
        self._changes = 0  # since objects were frozen last

    def changed(self, before: Image, after: Image, changes: Changes) -> None:
        self._changes += _count(before, after, changes)
        if self._changes >= CHANGES_MAX:
            self._changes = 0
            gc.collect(YOUNGEST)  # or garbage would be kept with the rest
            gc.freeze()


def _count(before: Image, after: Image, changes: Changes) -> int:
    """How many objects of the image are new, in access rules, partitions and configs."""
    rules = abs(len(after.access) - len(before.access))
    added = sum(len(topic.partitions) for topic in changes.topics_added)
    changed = sum(_changed_partitions(old, new) for old, new in changes.topics_changed)
    return rules + added + changed + len(changes.configs)


def _changed_partitions(old: Topic, new: Topic) -> int:
    more = abs(len(new.partitions) - len(old.partitions))
    return more + sum(map(is_not, old.partitions, new.partitions))
