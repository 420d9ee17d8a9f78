"""Conditions that rows should meet, and the outcome for rows that fail. Does not import Spark.

An expectation is a name, a condition in Spark SQL over the columns of its table, and one of four outcomes. A condition
that is null holds: to require a column, write `amount IS NOT NULL`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OnFail(StrEnum):
    WARN = "warn"  # the row is written and counted
    DROP = "drop"  # the row is omitted and counted
    DLQ = "dlq"  # the record becomes a dead letter, with the names of the failed expectations
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
