"""What the doctor reports. Plain values, for tables, JSON and pages alike."""

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
    what: str  # what was seen, with names and numbers
    consequence: str  # what happens because of it, or could
    action: str  # what to do; commands stand in backticks
    severity: Severity = Severity.PROBLEM
    since_ms: int | None = None  # wall time; None where it is not known
