"""How a simulated world ends badly.

SimError
├── Deadlock     nothing is left to happen, and somebody still waits
├── Livelock     time stands still: callbacks call each other for ever
├── Violation    an invariant did not hold; the checker's name and what it saw
├── UnknownScenario   the operator's: there is no scenario of that name
├── UnknownFault      the operator's: the scenario has no fault of that name to choose
└── BadResults        the operator's: the file for the results holds something else
"""

from __future__ import annotations


class SimError(Exception):
    """Base of everything this package raises."""


class Deadlock(SimError):
    pass


class Livelock(SimError):
    pass


class Violation(SimError):
    """`invariant` names the checker, so that shrinking keeps to the failure it began with."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant, self.what = invariant, what


class UnknownScenario(SimError):
    pass


class UnknownFault(SimError):
    pass


class BadResults(SimError):
    pass
