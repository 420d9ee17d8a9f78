"""The errors that end a simulated run.

SimError
├── Deadlock     no events are left, but a task still waits
├── Livelock     time does not advance: callbacks schedule each other endlessly
├── Violation    an invariant did not hold; names the checker and what it saw
├── UnknownScenario   usage error: no scenario has that name
├── UnknownFault      usage error: the scenario has no selectable fault of that name
└── BadResults        usage error: the results file holds something else
"""

from __future__ import annotations


class SimError(Exception):
    """Base of all errors of this package."""


class Deadlock(SimError):
    pass


class Livelock(SimError):
    pass


class Violation(SimError):
    """`invariant` names the checker, so that shrinking keeps the original failure."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant, self.what = invariant, what


class UnknownScenario(SimError):
    pass


class UnknownFault(SimError):
    pass


class BadResults(SimError):
    pass
