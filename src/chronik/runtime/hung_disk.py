"""Distinguishes a hung disk from a slow one, by the age of the oldest operation of any prompt lane.

It compares the names of operations (`Lane.under_way`) between checks. An operation seen at two checks has been running
since the first. A long queue does not count: its operations end one after the other. Only prompt lanes count, because a
checkpoint's sync of gigabytes may take longer without harm. The age is a number of checks, not a clock difference: a
stopped process or a sleeping machine has not waited for its disk.

A disk counts as hung once an operation takes `hang_ms`. It counts as healthy again after `hang_ms` without an operation
that took half of that: a disk that takes seven seconds for everything should not gain and lose leaderships repeatedly.

Pure: it calls no clock and changes nothing.
"""

from __future__ import annotations

from chronik.runtime.interfaces import Disk, Lane

LOOK_MS_MAX = 500


class HungDisk:
    def __init__(self, disk: Disk, hang_ms: int) -> None:
        self._disk, self._hang_ms = disk, hang_ms
        self.look_ms = min(LOOK_MS_MAX, hang_ms // 4)  # the interval between checks; the caller may check less often
        self._looks: dict[tuple[Lane, tuple[str, int]], int] = {}  # number of checks that saw each operation
        self._calm_ms = 0
        self.is_hung = False
        self.oldest_ms = 0  # minimum age of the oldest running operation
        self.lane_name = ""  # the lane of the oldest operation

    def look(self) -> bool:
        """Checks once. Returns whether `is_hung` has changed."""
        seen = [(lane, operation) for lane in self._disk.prompt_lanes for operation in lane.under_way()]
        self._looks = {each: self._looks.get(each, 0) + 1 for each in seen}
        oldest = max(seen, key=self._looks.__getitem__, default=None)
        self.oldest_ms = 0 if oldest is None else (self._looks[oldest] - 1) * self.look_ms
        self.lane_name = "" if oldest is None else oldest[0].name
        self._calm_ms = 0 if self.oldest_ms * 2 >= self._hang_ms else self._calm_ms + self.look_ms
        was_hung = self.is_hung
        self.is_hung = self._calm_ms < self._hang_ms if was_hung else self.oldest_ms >= self._hang_ms
        return self.is_hung != was_hung
