"""A restarted voter compares its log with the other voters' before it takes part in an election.

Raft assumes that a voter still has everything it acknowledged. A disk can break this: someone restored an old image, or
bits rotted in the last frame of the log, which then looks like a torn write and is truncated. Such a voter, together
with one that lagged behind, could elect a leader without committed entries. The third voter has the entries and votes
against it, but a majority does not need that vote.

So after a restart a voter asks all others where their logs end. It supports a candidate, itself included, only if no
reported log ends later. It waits a limited time for missing answers, because a quorum whose third member is dead must
still elect a leader. Probation also ends as soon as a leader has brought the log up to date.

No I/O and no clock: `tick` is time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ANSWER_TIMEOUTS = 2  # election timeouts a voter waits for the others' answers
CUT_TIMEOUTS = 20  # the same if its log was truncated: the cause may be bit rot, not a torn write
END_TIMEOUTS = 6  # then the answers are ignored: the node with the longer log could not win


class LogEnd(NamedTuple):
    """Ordered as Raft compares logs: by the term of the last entry, then by length."""

    last_term: int
    last_index: int


class Probation:
    def __init__(self, election_ticks: int) -> None:
        self._answer_ticks = ANSWER_TIMEOUTS * election_ticks
        self._end_ticks = END_TIMEOUTS * election_ticks
        self._ticks = 0
        self._ends: dict[int, LogEnd] = {}  # voter: its last answer

    def doubt_more(self) -> None:
        """Waits longer: the log was truncated when it was read."""
        self._answer_ticks = self._end_ticks = self._answer_ticks // ANSWER_TIMEOUTS * CUT_TIMEOUTS

    def tick(self) -> None:
        self._ticks += 1

    @property
    def is_over(self) -> bool:
        return self._ticks >= self._end_ticks

    def heard(self, voter: int, end: LogEnd) -> None:
        self._ends[voter] = end

    def unheard(self, voters: Iterable[int]) -> list[int]:
        return [voter for voter in voters if voter not in self._ends]

    def allows(self, end: LogEnd, others: Sequence[int]) -> bool:
        """Whether this node may support a candidate whose log ends there. `others` are all voters but this node."""
        if self.is_over:
            return True
        if any(self._ends[voter] > end for voter in others if voter in self._ends):
            return False
        return self._ticks >= self._answer_ticks or not self.unheard(others)
