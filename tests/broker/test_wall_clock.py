"""A wall clock that jumps must not make everything old at once."""

from __future__ import annotations

import json
import logging

import pytest

from chronik.broker.wall_clock import JUMP_MS_MAX, STAMP, WallClock
from chronik.runtime.alarms import CLOCK_JUMP, Alarms
from chronik.runtime.units import DAY_MS, MINUTE_MS
from chronik.sim.disk import SimDisk

START_MS = 1_700_000_000_000
WEEK_MS = 7 * DAY_MS


class TwoClocks:
    def __init__(self) -> None:
        self.wall, self.monotonic = START_MS, 5_000

    def wall_ms(self) -> int:
        return self.wall

    def monotonic_ns(self) -> int:
        return self.monotonic * 1_000_000

    def pass_by(self, ms: int) -> None:
        self.wall += ms
        self.monotonic += ms

    def jump(self, ms: int) -> None:
        self.wall += ms


class Watched:
    def __init__(self, disk: SimDisk | None = None) -> None:
        self.clock = TwoClocks()
        self.alarms = Alarms(self.clock)
        self.watch = WallClock(self.clock, self.alarms)
        self.disk = disk or SimDisk(1)
        self.disk.make_directory("/data")

    @property
    def is_alarmed(self) -> bool:
        return self.alarms.is_active(CLOCK_JUMP)

    def stamp(self) -> None:
        stamp = self.watch.stamp_due()
        assert stamp is not None
        self.disk.replace_file(f"/data/{STAMP}", stamp)

    def restarted_after(self, *, down_ms: int, jump_ms: int = 0) -> Watched:
        later = Watched(self.disk)
        later.clock.wall = self.clock.wall + down_ms + jump_ms
        later.watch = WallClock(later.clock, later.alarms)
        later.watch.compare_with_stamp(self.disk, "/data")
        return later


def test_clocks_that_agree_give_the_wall_time() -> None:
    """Also when the wall clock is corrected gradually, for any length of time."""
    watched = Watched()
    for _ in range(1000):
        watched.clock.pass_by(10_000)
        watched.clock.jump(5_000)
        assert watched.watch.now_ms(WEEK_MS) == watched.clock.wall
    assert not watched.is_alarmed


@pytest.mark.parametrize("jump_ms", [JUMP_MS_MAX + 1, 20 * DAY_MS, 40 * 365 * DAY_MS])
def test_after_a_jump_ahead_time_goes_on_as_the_monotonic_clock_counts_it(
    jump_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Everything in the cluster would be past its retention, and gone at the next check."""
    watched = Watched()
    watched.clock.pass_by(1_000)
    watched.clock.jump(jump_ms)
    assert watched.watch.now_ms(WEEK_MS) == START_MS + 1_000
    watched.clock.pass_by(DAY_MS - 1)
    assert watched.watch.now_ms(WEEK_MS) == START_MS + DAY_MS + 999
    assert watched.is_alarmed
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1, "one line, however often it is asked"
    assert f"forward by {jump_ms // 1000} s" in lines[0]


def test_a_clock_that_comes_back_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched()
    watched.clock.jump(20 * DAY_MS)
    watched.watch.check()
    assert watched.is_alarmed
    watched.clock.pass_by(MINUTE_MS)
    watched.clock.jump(-20 * DAY_MS)
    assert watched.watch.now_ms(WEEK_MS) == START_MS + MINUTE_MS == watched.clock.wall
    assert not watched.is_alarmed
    assert "is back" in caplog.records[-1].getMessage()


def test_a_new_time_that_holds_for_a_day_is_taken_for_true() -> None:
    """The old time was wrong, and no one should have to confirm that."""
    watched = Watched()
    watched.clock.jump(20 * DAY_MS)
    watched.watch.check()
    watched.clock.pass_by(DAY_MS)
    assert watched.watch.now_ms(WEEK_MS) == watched.clock.wall
    assert not watched.is_alarmed


def test_what_is_kept_for_less_than_a_day_is_judged_by_the_new_time_after_that_period() -> None:
    """All from before the jump has been kept for long enough then; waiting longer would fill the disk."""
    watched = Watched()
    watched.clock.jump(20 * DAY_MS)
    watched.watch.check()
    watched.clock.pass_by(60 * MINUTE_MS - 1)
    assert watched.watch.now_ms(60 * MINUTE_MS) < watched.clock.wall
    watched.clock.pass_by(1)
    assert watched.watch.now_ms(60 * MINUTE_MS) == watched.clock.wall
    assert watched.watch.now_ms(WEEK_MS) < watched.clock.wall


def test_a_second_jump_begins_the_day_anew() -> None:
    """A clock that wanders has not held."""
    watched = Watched()
    watched.clock.jump(20 * DAY_MS)
    watched.watch.check()
    watched.clock.pass_by(DAY_MS - MINUTE_MS)
    watched.clock.jump(DAY_MS)
    watched.watch.check()
    watched.clock.pass_by(2 * MINUTE_MS)
    assert watched.watch.now_ms(WEEK_MS) == START_MS + DAY_MS + MINUTE_MS


def test_a_clock_that_went_back_is_told_and_used_as_it_is() -> None:
    """It makes nothing older, and its return is no jump ahead."""
    watched = Watched()
    watched.clock.jump(-20 * DAY_MS)
    assert watched.watch.now_ms(WEEK_MS) == watched.clock.wall
    assert watched.is_alarmed
    watched.clock.jump(20 * DAY_MS)
    assert watched.watch.now_ms(WEEK_MS) == watched.clock.wall
    assert not watched.is_alarmed


def test_a_jump_while_the_node_is_down_is_doubted_like_any_other() -> None:
    """A machine that boots with a wrong clock must not begin by deleting everything."""
    before = Watched()
    before.stamp()
    later = before.restarted_after(down_ms=MINUTE_MS, jump_ms=20 * DAY_MS)
    assert later.watch.now_ms(WEEK_MS) == START_MS
    assert later.is_alarmed
    later.clock.pass_by(DAY_MS)
    assert later.watch.now_ms(WEEK_MS) == later.clock.wall


def test_a_node_that_was_down_for_a_few_hours_notices_nothing() -> None:
    before = Watched()
    before.stamp()
    later = before.restarted_after(down_ms=DAY_MS - MINUTE_MS)
    assert later.watch.now_ms(WEEK_MS) == later.clock.wall
    assert not later.is_alarmed


@pytest.mark.parametrize("jump_ms", [60 * MINUTE_MS, 20 * DAY_MS])
def test_a_restart_does_not_confirm_a_jump(jump_ms: int) -> None:
    """An orchestrator restarts what raises alarms, and that would delete everything."""
    before = Watched()
    before.clock.jump(jump_ms)
    before.watch.check()
    before.stamp()
    later = before.restarted_after(down_ms=1_000)
    assert later.watch.now_ms(WEEK_MS) == START_MS
    assert later.is_alarmed


def test_a_damaged_stamp_is_left_aside(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    for damaged in (b"", b"{", b"[]", b'{"wall_ms": "x", "doubted": 1}', b"\xff"):
        watched.disk.replace_file(f"/data/{STAMP}", damaged)
        watched.watch.compare_with_stamp(watched.disk, "/data")
    assert watched.watch.now_ms(WEEK_MS) == watched.clock.wall
    assert len(caplog.records) == 5


def test_the_stamp_is_due_once_a_minute() -> None:
    watched = Watched()
    stamp = watched.watch.stamp_due()
    assert stamp is not None
    assert json.loads(stamp) == {"wall_ms": START_MS, "doubted": False}
    watched.clock.pass_by(MINUTE_MS - 1)
    assert watched.watch.stamp_due() is None
    watched.clock.pass_by(1)
    assert watched.watch.stamp_due() is not None
