"""The arithmetic of majorities. Pure functions of sets and numbers; a slower twin in the tests must agree with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

INDEX_UNBOUNDED = 1 << 63  # what an empty set of voters has committed: it restrains nobody


class Verdict(Enum):
    PENDING = "pending"
    WON = "won"
    LOST = "lost"


def majority(voter_count: int) -> int:
    return voter_count // 2 + 1


def committed_index(voters: Sequence[int], acknowledged: Callable[[int], int]) -> int:
    """The highest index that a majority of the voters has acknowledged."""
    if not voters:
        return INDEX_UNBOUNDED
    indexes = sorted(map(acknowledged, voters))
    return indexes[len(indexes) - majority(len(indexes))]


def remembered_index(voters: Sequence[int], acknowledged: Callable[[int], int]) -> int:
    """The highest index acknowledged by so many that every majority has one of them."""
    if not voters:
        return INDEX_UNBOUNDED
    return sorted(map(acknowledged, voters))[majority(len(voters)) - 1]


def confirmed(voters: Sequence[int], answers: Mapping[int, bool]) -> bool:
    """Whether those who answered prove that nobody else was elected. An answer is True of a voter that remembers its
    votes: of every majority that there may have been, one of these must be a member, whatever the others forgot.
    """
    answered = [answers[voter] for voter in voters if voter in answers]
    return len(answered) >= majority(len(voters)) and sum(answered) > len(voters) - majority(len(voters))


def verdict(voters: Sequence[int], votes: Mapping[int, bool]) -> Verdict:
    """Decides once enough voters said yes, or once so many said no that the rest cannot win it any more.

    Votes of nodes that are no voters do not count. Without voters everything is won.
    """
    if not voters:
        return Verdict.WON
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    missing = sum(1 for voter in voters if voter not in votes)
    if granted >= needed:
        return Verdict.WON
    return Verdict.PENDING if granted + missing >= needed else Verdict.LOST
