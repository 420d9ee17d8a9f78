"""The arithmetic of majorities. Pure functions of sets and numbers; the tests compare them with a slower
implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

INDEX_UNBOUNDED = 1 << 63  # the commit index of an empty voter set: no restriction


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
    """The highest index acknowledged by enough voters that every majority contains one of them."""
    if not voters:
        return INDEX_UNBOUNDED
    return sorted(map(acknowledged, voters))[majority(len(voters)) - 1]


def confirmed(voters: Sequence[int], answers: Mapping[int, bool]) -> bool:
    """Whether the answers prove that no other node was elected. An answer is True if the voter remembers its votes.
    Every possible majority must contain one of these, whatever the other voters forgot.
    """
    answered = [answers[voter] for voter in voters if voter in answers]
    return len(answered) >= majority(len(voters)) and sum(answered) > len(voters) - majority(len(voters))


def verdict(voters: Sequence[int], votes: Mapping[int, bool]) -> Verdict:
    """Decides when enough voters said yes, or when so many said no that the rest cannot win.

    Votes of non-voters do not count. An empty voter set wins.
    """
    if not voters:
        return Verdict.WON
    needed = majority(len(voters))
    granted = sum(1 for voter in voters if votes.get(voter) is True)
    missing = sum(1 for voter in voters if voter not in votes)
    if granted >= needed:
        return Verdict.WON
    return Verdict.PENDING if granted + missing >= needed else Verdict.LOST
