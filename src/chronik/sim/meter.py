"""Measures how much virtual time one simulated process spends on computing.

Without a meter a callback takes no time. With one, the process is charged for its work (`prices` has the costs), and
its loop is busy for that long: its clock advances while it computes, its packets leave when computing is done, and its
next callback runs later. Nothing reads a real clock, so a seed gives the same run on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from chronik.runtime.units import NS_PER_MS

HOLD_NS_MAX = 100 * NS_PER_MS
CALLBACK_NS = 15_000
CALLERS_MAX = 5
# How far a process may be ahead of the world before it waits. Less than any packet's latency; running several callbacks
# at one moment keeps runs fast.
AHEAD_NS_MAX = 200_000


class Meter:
    """`percent` is the machine's slowness: 100 means the price table as it is."""

    __slots__ = (
        "busy_until_ns", "callback_ns", "longest_ns", "on_hold", "percent", "runs", "spent_ns", "where",
        "works_elsewhere",
    )  # fmt: skip

    def __init__(self, percent: int, on_hold: Callable[[int, str], None]) -> None:
        self.percent = percent
        self.callback_ns = CALLBACK_NS * percent // 100
        self.on_hold = on_hold  # called with duration and place of each callback that blocked the loop for too long
        self.busy_until_ns = 0  # in world time
        self.spent_ns = 0  # by the current callback
        self.longest_ns = 0  # the longest callback
        self.where = ""  # where the current callback exceeded the limit
        self.runs = False  # a callback is running
        self.works_elsewhere = False  # the work is on a thread, so the loop is not charged

    def charge(self, ns: int) -> None:
        if not self.works_elsewhere:
            self.spent_ns += ns * self.percent // 100
            if self.spent_ns > HOLD_NS_MAX and not self.where:
                self.where = _callers()

    def begin(self, now_ns: int) -> None:
        if now_ns > self.busy_until_ns:
            self.busy_until_ns = now_ns
        self.spent_ns = self.callback_ns
        self.where = ""
        self.runs = True

    def present_ns(self, now_ns: int) -> int:
        """The world time as the process sees it: later than the world's own while it computes."""
        return self.busy_until_ns + self.spent_ns if self.runs else now_ns

    def end(self, now_ns: int) -> bool:
        """Whether the process must wait for the world before it continues."""
        self.runs = False
        spent_ns = self.spent_ns
        self.busy_until_ns += spent_ns
        if spent_ns > self.longest_ns:
            self.longest_ns = spent_ns
        if spent_ns > HOLD_NS_MAX:
            self.on_hold(spent_ns, self.where)
        return self.busy_until_ns - now_ns > AHEAD_NS_MAX


def _callers() -> str:
    """The product's functions on the stack, innermost first."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(names) < CALLERS_MAX:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("chronik.") and not module.startswith("chronik.sim"):
            names.append(f"{module.removeprefix('chronik.')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return " in ".join(names)
