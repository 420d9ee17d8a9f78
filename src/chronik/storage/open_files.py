"""Limits how many segments have open files, and closes those that were used least recently.

A segment announces that it opens a file. If that exceeds the limit, other segments close theirs and reopen them when
needed. Unused files are closed first, and among them those whose bytes are synced. A file with unsynced bytes is synced
before it is closed: the kernel reports a later write error only to processes that have the file open.

A lane that works on a file keeps it open, because closing only drops this reference. The limit is therefore not exact,
and some descriptors are reserved for that (`runtime/descriptors.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING
from weakref import ref

from chronik.runtime.buggify import FEW_OPEN_FILES
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.storage.errors import StorageFailed
    from chronik.storage.segment import Segment

FILES_PER_SEGMENT = 2  # log and index
LOOKED_AT_MAX = 64  # examined per call, to find some that cost nothing to close
LET_GO_AT_ONCE = 8


class OpenFiles:
    """`fail` is called with the error of a failed sync and returns the error to raise."""

    def __init__(self, files_max: int, fail: Callable[[OSError], StorageFailed]) -> None:
        self.segments_max = max(1, files_max // FILES_PER_SEGMENT)
        self._fail = fail
        self._open: dict[ref[Segment], None] = {}  # the most recently examined ones are at the end

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_at_limit(self) -> bool:
        return len(self._open) >= self.segments_max

    def opens(self, segment: Segment) -> None:
        """Called when the segment is about to open a file."""
        key = ref(segment, self._forget)
        if (key not in self._open and self.is_at_limit) or (
            FEW_OPEN_FILES.is_on and self._open and key not in self._open and FEW_OPEN_FILES.fires()
        ):
            self._make_room()
        self._open[key] = None
        check(
            len(self._open) <= max(self.segments_max, 1) + LOOKED_AT_MAX,
            "23 open files are bounded",
            open=len(self._open),
            allowed=self.segments_max,
        )

    def _forget(self, key: ref[Segment]) -> None:
        self._open.pop(key, None)

    def _make_room(self) -> None:
        let_go = 0
        for key in list(islice(self._open, LOOKED_AT_MAX)):
            segment = key()
            if segment is not None and segment.has_open_files and (segment.used or not segment.is_synced):
                segment.used = False
                del self._open[key]
                self._open[key] = None
                continue
            del self._open[key]
            if segment is not None:
                segment.let_go_of_files()
            let_go += 1
            if let_go == LET_GO_AT_ONCE:
                return
        if not let_go:
            self._close_oldest()

    def _close_oldest(self) -> None:
        key = next(iter(self._open))
        del self._open[key]
        segment = key()
        if segment is None:
            return
        try:
            segment.sync_open_files()
        except OSError as error:
            raise self._fail(error) from error
        segment.let_go_of_files()
