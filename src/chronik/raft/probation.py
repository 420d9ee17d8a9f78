"""A restarted voter compares its log with the other voters' before it takes part in an election.

Raft assumes that a voter still has everything it acknowledged. A disk may break this: an old image was restored, or a
bit rotted in the last frame of the log, which then looks like a torn write and is cut. Together with a voter that was
cut off, such a node would elect a leader without committed entries. The third voter has them and votes against it, but
a majority does not need its vote.

So for a while after a restart a voter asks all others where their logs end. It supports a candidate, itself included,
only if no log that it has heard of ends later. It waits for those that do not answer, but not for long: a quorum whose
third member is dead must elect a leader. It is also over as soon as a leader has brought the log up to date.

Holds no I/O and no clock: `tick` is time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ANSWER_TIMEOUTS = 2  # election timeouts that a voter waits for the others' answers
CUT_TIMEOUTS = 20  # the same if its log was cut at the end: that may have been a rotten entry and no torn write
END_TIMEOUTS = 6  # after which it ignores the answers: whoever has the better log could not be elected


class LogEnd(NamedTuple):
    """In Raft's order of logs: the term of the last entry decides, then the length."""

    last_term: int
    last_index: int


class Probation:
    def __init__(self, election_ticks: int) -> None:
        self._answer_ticks = ANSWER_TIMEOUTS * election_ticks
        self._end_ticks = END_TIMEOUTS * election_ticks
        self._ticks = 0
        self._ends: dict[int, LogEnd] = {}  # by voter, as it last told

    def doubt_more(self) -> None:
        """The log was cut when it was read."""
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
