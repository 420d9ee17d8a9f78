"""The doctor's findings. Plain values, for tables, JSON and pages alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """PROBLEM: something does not work, or one more failure loses data or stops the cluster. ADVICE: a risk that the
    operator may have chosen; it does not make a cluster unhealthy."""

    PROBLEM = "problem"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True)
class Finding:
    check: str  # a fixed name, such as "node-silent"
    what: str  # the observation, with names and numbers
    consequence: str  # its actual or possible effect
    action: str  # what to do; commands are in backticks
    severity: Severity = Severity.PROBLEM
    since_ms: int | None = None  # wall time; None if unknown
