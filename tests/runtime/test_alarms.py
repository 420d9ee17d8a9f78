"""Alarms: one line per condition, a count of the repetitions, and a list that stays short."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from chronik.runtime.alarms import DAMAGED_LOG, DISK_FULL, SUBJECTS_MAX, Alarms


class FixedClock:
    now_ms = 1000

    def wall_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def alarms(caplog: pytest.LogCaptureFixture) -> Alarms:
    caplog.set_level(logging.INFO, "chronik.alarms")
    return Alarms(cast(Any, FixedClock()))


def test_a_condition_is_logged_once_however_often_it_is_reported(
    alarms: Alarms, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk refuses thousands of writes per second; the log must not fill the rest of it."""
    for attempt in range(100):
        alarms.raised(DISK_FULL, f"attempt {attempt}", "/data")
    assert [record.getMessage() for record in caplog.records] == ["disk-full: attempt 0"]
    [alarm] = alarms.active()
    assert (alarm.subject, alarm.text, alarm.count, alarm.since_ms) == ("/data", "attempt 99", 100, 1000)
    assert alarms.totals[DISK_FULL] == 100


def test_the_end_of_a_condition_is_logged_and_the_next_one_is_new(
    alarms: Alarms, caplog: pytest.LogCaptureFixture
) -> None:
    """Every episode gets its own line, or the second would be silent."""
    alarms.raised(DISK_FULL, "full", "/data")
    alarms.cleared(DISK_FULL, "there is space again", "/data")
    alarms.cleared(DISK_FULL, "there is space again", "/data")
    assert alarms.active() == []
    alarms.raised(DISK_FULL, "full", "/data")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["disk-full: full", "disk-full: there is space again (reported 1 times)", "disk-full: full"]


def test_many_subjects_of_one_cause_are_counted_and_only_the_first_are_listed(
    alarms: Alarms, caplog: pytest.LogCaptureFixture
) -> None:
    """A disk that loses all its partitions must not bring a line and an entry of /status for each."""
    for number in range(SUBJECTS_MAX + 20):
        alarms.raised(DAMAGED_LOG, "damaged", f"t-{number}")
        alarms.raised(DAMAGED_LOG, "damaged", f"t-{number}")
    alarms.raised(DISK_FULL, "full")
    assert alarms.count(DAMAGED_LOG) == SUBJECTS_MAX + 20
    assert len(alarms.active()) == SUBJECTS_MAX + 1
    assert len(caplog.records) == SUBJECTS_MAX + 2
    alarms.cleared(DAMAGED_LOG, "mended", f"t-{SUBJECTS_MAX + 19}")
    assert alarms.count(DAMAGED_LOG) == SUBJECTS_MAX + 19
