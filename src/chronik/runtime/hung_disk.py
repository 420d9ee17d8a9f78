"""Tells a disk that hangs from one that is slow: how long has the oldest operation of a prompt lane been under way?

It compares names of operations (`Lane.under_way`) from look to look. An operation that is there at two looks has been
under way since the first of them. A long queue does not count: its operations end one after the other. Only prompt
lanes count, because a checkpoint's sync of gigabytes may take longer without harm. The age is a number of looks and not
a difference of clock readings: a process that was stopped, or a machine that slept, has not waited for its disk.

A disk counts as hung from `hang_ms` on. It counts as well again after `hang_ms` without an operation that took half of
that: a disk which takes seven seconds for everything should not win and lose its leaderships every few seconds.

Pure: it calls no clock and changes nothing.
"""

from __future__ import annotations

from chronik.runtime.interfaces import Disk, Lane

LOOK_MS_MAX = 500


class HungDisk:
    def __init__(self, disk: Disk, hang_ms: int) -> None:
        self._disk, self._hang_ms = disk, hang_ms
        self.look_ms = min(LOOK_MS_MAX, hang_ms // 4)  # the caller looks that often, or less often
        self._looks: dict[tuple[Lane, tuple[str, int]], int] = {}  # how often each operation was seen
        self._calm_ms = 0
        self.is_hung = False
        self.oldest_ms = 0  # of the operation that has been under way longest; at least that
        self.lane_name = ""  # on which it is

    def look(self) -> bool:
        """Returns whether `is_hung` has changed."""
        seen = [(lane, operation) for lane in self._disk.prompt_lanes for operation in lane.under_way()]
        self._looks = {each: self._looks.get(each, 0) + 1 for each in seen}
        oldest = max(seen, key=self._looks.__getitem__, default=None)
        self.oldest_ms = 0 if oldest is None else (self._looks[oldest] - 1) * self.look_ms
        self.lane_name = "" if oldest is None else oldest[0].name
        self._calm_ms = 0 if self.oldest_ms * 2 >= self._hang_ms else self._calm_ms + self.look_ms
        was_hung = self.is_hung
        self.is_hung = self._calm_ms < self._hang_ms if was_hung else self.oldest_ms >= self._hang_ms
        return self.is_hung != was_hung
