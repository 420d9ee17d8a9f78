"""The arithmetic of majorities against a slower, obvious twin."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from chronik.raft.quorum import INDEX_UNBOUNDED, Verdict, committed_index, confirmed, majority, verdict


def slow_committed(voters: list[int], acknowledged: dict[int, int]) -> int:
    """Tries every acknowledged index from the highest: does a majority have it?"""
    if not voters:
        return INDEX_UNBOUNDED
    for index in sorted({0, *acknowledged.values()}, reverse=True):
        holders = [voter for voter in voters if acknowledged.get(voter, 0) >= index]
        if 2 * len(holders) > len(voters):
            return index
    return 0


def slow_verdict(voters: list[int], votes: dict[int, bool]) -> Verdict:
    """Tries every possible answer of the missing voters."""
    if not voters:
        return Verdict.WON
    missing = [voter for voter in voters if voter not in votes]
    granted = {voter for voter in voters if votes.get(voter)}
    outcomes = {
        2 * (len(granted) + len(extra)) > len(voters)
        for count in range(len(missing) + 1)
        for extra in combinations(missing, count)
    }
    return Verdict.PENDING if len(outcomes) == 2 else Verdict.WON if True in outcomes else Verdict.LOST


def test_committed_index_agrees_with_the_twin() -> None:
    random = Random(1)
    for _ in range(50_000):
        voters = random.sample(range(1, 12), random.randint(0, 9))
        acknowledged = {node: random.choice((0, 1, 5, 5, 6, 2**40)) for node in range(1, 12) if random.random() < 0.8}
        got = committed_index(sorted(voters), lambda voter, known=acknowledged: known.get(voter, 0))
        assert got == slow_committed(voters, acknowledged), (voters, acknowledged)


def test_verdict_agrees_with_the_twin() -> None:
    random = Random(2)
    for _ in range(50_000):
        voters = random.sample(range(1, 10), random.randint(0, 7))
        votes = {node: random.random() < 0.5 for node in range(1, 10) if random.random() < 0.6}
        assert verdict(voters, votes) is slow_verdict(voters, votes), (voters, votes)


@pytest.mark.parametrize(("count", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (7, 4)])
def test_a_majority_is_more_than_half(count: int, needed: int) -> None:
    """Two majorities of the same set always share a member; half and half would not."""
    assert majority(count) == needed


def test_answers_confirm_when_no_forgotten_vote_can_have_made_another_leader() -> None:
    """The slow implementation examines every majority that may have elected another leader: it must contain a voter
    that answered and remembers its votes. And the voters that answered must be a majority; otherwise another leader
    could be elected without their entries."""
    for count in range(1, 7):
        voters = range(count)
        majorities = [set(chosen) for chosen in combinations(voters, majority(count))]
        for size in range(count + 1):
            for answered in combinations(voters, size):
                for abstaining in range(size + 1):
                    votes = {voter: position >= abstaining for position, voter in enumerate(answered)}
                    remember = {voter for voter in answered if votes[voter]}
                    expected = 2 * size > count and all(remember & electors for electors in majorities)
                    assert confirmed(voters, votes) is expected, (count, votes)
