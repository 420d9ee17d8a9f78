"""The clock that decides whether records, committed offsets and producer ids have expired. It ignores jumps for a
while.

A wall clock that jumps ahead makes everything old at once, and the next retention check would delete it. The monotonic
clock does not jump. When the two disagree by more than JUMP_MS_MAX, `now_ms` continues from the time before the jump,
as the monotonic clock counts. It does so until the wall clock is back, or until the new time has held for DAY_MS and is
then trusted. For a shorter retention period the new time is trusted after that period, because by then everything from
before the jump has been kept long enough. A clock that was set back makes nothing older, so its time is used unchanged.

Across a restart there is no monotonic clock to compare with, only the file `last-alive` with the last known time. If
the wall clock is more than DAY_MS ahead of it, the node was down for that long or the clock is wrong. The node cannot
tell which, and waits in the same way.
"""

from __future__ import annotations

import contextlib
import json
import logging
from datetime import UTC, datetime
from typing import NamedTuple

from chronik.runtime.alarms import CLOCK_JUMP, Alarms
from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Clock, Disk
from chronik.runtime.invariants import check
from chronik.runtime.units import DAY_MS, MINUTE_MS, NS_PER_MS

log = logging.getLogger("chronik.broker")

JUMP_MS_MAX = 10 * MINUTE_MS  # larger than any gradual correction of a clock
STAMP_EVERY_MS = MINUTE_MS
STAMP = "last-alive"


class _Moment(NamedTuple):
    """The same moment on both clocks."""

    wall_ms: int
    monotonic_ms: int


class WallClock:
    def __init__(self, clock: Clock, alarms: Alarms) -> None:
        self._clock = clock
        self._alarms = alarms
        self._trusted = self._now()  # the last moment at which the clocks agreed
        self._doubted: _Moment | None = None  # the wall clock jumped then
        self._stamped_ms: int | None = None  # on the monotonic clock

    def now_ms(self, period_ms: int) -> int:
        """The time to compare with, for data with this retention period."""
        self.check()
        now = self._now()
        if self._doubted is None or now.monotonic_ms - self._doubted.monotonic_ms >= min(DAY_MS, period_ms):
            return now.wall_ms
        return min(now.wall_ms, self._expected_ms(now))

    def check(self) -> None:
        """Compares the clocks. Call it every few seconds, so that a jump is reported soon."""
        now = self._now()
        ahead_ms = now.wall_ms - self._expected_ms(now)
        if abs(ahead_ms) <= JUMP_MS_MAX:
            self._trust(now, "the wall clock is back")
            return
        doubted = self._doubted
        if doubted is None or _differ(doubted, now):
            self._doubted = doubted = now
            self._tell(ahead_ms, now, "against the monotonic clock")
        if now.monotonic_ms - doubted.monotonic_ms >= DAY_MS:
            self._trust(now, "the wall clock has held for a day and is taken for true")

    def compare_with_stamp(self, disk: Disk, directory: str) -> None:
        """At a start: compares the wall clock with the time when the node was last alive."""
        path = f"{directory}/{STAMP}"
        if not disk.exists(path):
            return
        try:
            stamp = json.loads(disk.read_file(path))
            stamp_ms, is_doubted = int(stamp["wall_ms"]), bool(stamp["doubted"])
        except (ValueError, KeyError, TypeError):
            log.warning("%s cannot be read and will be rewritten", path)
            return
        now = self._now()
        ahead_ms = now.wall_ms - stamp_ms
        if ahead_ms > (JUMP_MS_MAX if is_doubted else DAY_MS):
            self._trusted, self._doubted = _Moment(stamp_ms, now.monotonic_ms), now
            self._tell(ahead_ms, now, f"while the node was down, as {path} says")

    def stamp_due(self) -> bytes | None:
        """The content to write to the file now; None if it is not due."""
        now = self._now()
        if self._stamped_ms is not None and now.monotonic_ms - self._stamped_ms < STAMP_EVERY_MS:
            return None
        self._stamped_ms = now.monotonic_ms
        self.check()
        is_doubted = self._doubted is not None
        wall_ms = min(now.wall_ms, self._expected_ms(now)) if is_doubted else now.wall_ms
        return json.dumps({"wall_ms": wall_ms, "doubted": is_doubted}).encode() + b"\n"

    def _now(self) -> _Moment:
        return _Moment(self._clock.wall_ms(), self._clock.monotonic_ns() // NS_PER_MS)

    def _expected_ms(self, now: _Moment) -> int:
        return self._trusted.wall_ms + now.monotonic_ms - self._trusted.monotonic_ms

    def _trust(self, now: _Moment, why: str) -> None:
        check(
            now.monotonic_ms >= self._trusted.monotonic_ms,
            "25 the monotonic clock never goes back",
            before=self._trusted.monotonic_ms,
            now=now.monotonic_ms,
        )
        self._trusted = now
        if self._doubted is not None:
            self._doubted = None
            self._alarms.cleared(CLOCK_JUMP, f"{why}: {_shown(now.wall_ms)}")

    def _tell(self, ahead_ms: int, now: _Moment, where: str) -> None:
        way = "forward" if ahead_ms > 0 else "back"
        text = f"the wall clock went {way} by {abs(ahead_ms) // 1000} s to {_shown(now.wall_ms)}, {where}; "
        if ahead_ms > 0:
            text += (
                "records, committed offsets and producer ids are judged by the time before for up to 24 h: set the "
                "clock if it is wrong; if it is right, nothing need be done"
            )
        else:
            text += "what has a later time is kept for longer: set the clock if it is wrong"
        self._alarms.raised(CLOCK_JUMP, text)


def _differ(one: _Moment, other: _Moment) -> bool:
    """Whether the wall clock jumped again in between."""
    return abs((other.wall_ms - one.wall_ms) - (other.monotonic_ms - one.monotonic_ms)) > JUMP_MS_MAX


def _shown(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1000, tz=UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return f"{wall_ms} ms"


def write_stamp(disk: Disk, directory: str, stamp: bytes) -> None:
    """On a full disk the old stamp remains, because it is only a hint. A failed sync is raised, and stops the node."""
    with contextlib.suppress(RuntimeFault):
        disk.replace_file(f"{directory}/{STAMP}", stamp)
