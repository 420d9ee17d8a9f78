"""How much virtual time one simulated process spends on computing.

Without a meter a callback takes no time. With one, whatever the process does is charged here (`prices` says how much),
and its loop is busy for that long: its clock advances while it computes, what it sends leaves when it has computed it,
and its next callback runs later. Nothing here reads a real clock, so a seed gives the same run on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from chronik.runtime.units import NS_PER_MS

HOLD_NS_MAX = 100 * NS_PER_MS
CALLBACK_NS = 15_000
CALLERS_MAX = 5
# A process may be so far ahead of the world before it has to wait for it. Less than any packet takes to arrive, and
# several callbacks in one moment instead of one keep runs short.
AHEAD_NS_MAX = 200_000


class Meter:
    """`percent` is how slow the machine is: 100 is as the table of prices has it."""

    __slots__ = (
        "busy_until_ns", "callback_ns", "longest_ns", "on_hold", "percent", "runs", "spent_ns", "where",
        "works_elsewhere",
    )  # fmt: skip

    def __init__(self, percent: int, on_hold: Callable[[int, str], None]) -> None:
        self.percent = percent
        self.callback_ns = CALLBACK_NS * percent // 100
        self.on_hold = on_hold  # told of each callback that held the loop for longer than it may: how long, and where
        self.busy_until_ns = 0  # of the world's time
        self.spent_ns = 0  # in the callback that runs
        self.longest_ns = 0  # of any callback
        self.where = ""  # the process was when the callback that runs had taken too long
        self.runs = False  # one does
        self.works_elsewhere = False  # a thread does what would be charged: the loop does not wait for it

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
        """The world's time as it is for the process: later than the world's own while it computes."""
        return self.busy_until_ns + self.spent_ns if self.runs else now_ns

    def end(self, now_ns: int) -> bool:
        """Whether the process must let the world catch up before it does anything else."""
        self.runs = False
        spent_ns = self.spent_ns
        self.busy_until_ns += spent_ns
        if spent_ns > self.longest_ns:
            self.longest_ns = spent_ns
        if spent_ns > HOLD_NS_MAX:
            self.on_hold(spent_ns, self.where)
        return self.busy_until_ns - now_ns > AHEAD_NS_MAX


def _callers() -> str:
    """The product's functions that are at work, the innermost first."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(names) < CALLERS_MAX:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("chronik.") and not module.startswith("chronik.sim"):
            names.append(f"{module.removeprefix('chronik.')}.{frame.f_code.co_qualname}")
        frame = frame.f_back
    return " in ".join(names)
