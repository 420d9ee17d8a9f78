"""Conditions that rows are expected to meet, and what happens to rows that fail. No Spark import in this file.

An expectation is a name, a condition in Spark's SQL over the columns of the table that declares it, and one of four
outcomes. A condition that is null holds: a column that may not be null says so itself (`amount IS NOT NULL`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OnFail(StrEnum):
    WARN = "warn"  # the row is written and counted
    DROP = "drop"  # the row is left out and counted
    DLQ = "dlq"  # the record goes to the dead letters instead, with the names of what it failed
    FAIL = "fail"  # nothing of the batch is written and the flow stops


@dataclass(frozen=True, slots=True)
class Expectation:
    name: str
    condition: str
    on_fail: OnFail = OnFail.WARN


def expect(name: str, condition: str, *, on_fail: str = "warn") -> Expectation:
    """For example: expect("paid", "amount > 0", on_fail="dlq")."""
    try:
        return Expectation(name, condition, OnFail(on_fail))
    except ValueError:
        allowed = ", ".join(OnFail)
        raise ValueError(f"expectation {name!r}: on_fail is {on_fail!r}; it must be one of {allowed}") from None
