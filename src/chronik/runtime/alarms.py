"""Conditions that an operator must know of: a full disk, a clock that jumped, a damaged log.

A part of the node reports a condition with `raised` and withdraws it with `cleared`. The first report of a condition
writes one log line, later reports only count, and the withdrawal writes one more. While a condition holds, /status
lists it and /metrics has `chronik_alarm_active` and `chronik_alarms_total`. An alarm never changes what the node does.

A cause is a fixed name such as "disk-full"; a subject says which directory, log or file is concerned. Of one cause at
most SUBJECTS_MAX subjects are listed and logged. Further ones are counted, so that ten thousand damaged logs do not
fill the log.

Call it on the event loop only.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check

logger = logging.getLogger("chronik.alarms")

SUBJECTS_MAX = 50  # listed and logged, of one cause

# Causes, each of which is a label of the metrics.
CERTIFICATE = "certificate"
CLOCK_JUMP = "clock-jump"
DAMAGED_LOG = "damaged-log"
DESCRIPTORS = "descriptors"
DISK_FULL = "disk-full"
DISK_HUNG = "disk-hung"
SIGNING_KEYS = "signing-keys"
STRAY_LOG = "stray-log"
CAUSES = (CERTIFICATE, CLOCK_JUMP, DAMAGED_LOG, DESCRIPTORS, DISK_FULL, DISK_HUNG, SIGNING_KEYS, STRAY_LOG)


@dataclass(slots=True)
class Alarm:
    cause: str
    subject: str  # "" if it concerns the whole node
    text: str  # from the latest report
    since_ms: int  # wall time of the first report
    count: int = 1  # number of reports


class Alarms:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: dict[tuple[str, str], Alarm] = {}
        self._unlisted: dict[str, set[str]] = {}  # cause: subjects beyond SUBJECTS_MAX
        self.totals: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))  # reports by cause, since the node started

    def raised(self, cause: str, text: str, subject: str = "", *, level: int = logging.ERROR) -> None:
        """Reports that a condition holds. `text` says what happened, where, and what to do."""
        self.totals[cause] += 1
        alarm = self._active.get((cause, subject))
        if alarm is not None:
            alarm.text = text
            alarm.count += 1
            return
        if self.count(cause) >= SUBJECTS_MAX:
            if cause not in self._unlisted:
                logger.log(level, "%s: more than %d; the others are counted, not listed", cause, SUBJECTS_MAX)
            self._unlisted.setdefault(cause, set()).add(subject)
            return
        self._active[cause, subject] = Alarm(cause, subject, text, self._clock.wall_ms())
        check(
            self.totals[cause] >= self.count(cause), "26 every alarm is counted", cause=cause, total=self.totals[cause]
        )
        logger.log(level, "%s: %s", cause, text)

    def cleared(self, cause: str, text: str, subject: str = "") -> None:
        """Reports that a condition no longer holds. No effect if it was not reported."""
        alarm = self._active.pop((cause, subject), None)
        if alarm is not None:
            logger.info("%s: %s (reported %d times)", cause, text, alarm.count)
        elif cause in self._unlisted:
            self._unlisted[cause].discard(subject)
            if not self._unlisted[cause]:
                del self._unlisted[cause]

    def is_active(self, cause: str, subject: str = "") -> bool:
        return (cause, subject) in self._active

    def active(self) -> list[Alarm]:
        """The listed alarms, oldest first."""
        return list(self._active.values())

    def count(self, cause: str) -> int:
        """The number of subjects of a cause now, listed or not."""
        listed = sum(1 for each, _ in self._active if each == cause)
        return listed + len(self._unlisted.get(cause, ()))
