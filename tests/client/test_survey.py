"""Which nodes of a quorum respond, in words and figures. `tests/cli/test_quorum_lost.py` queries real nodes."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.client.admin.survey import Survey, Surveyed


def node(node_id: int, *, answers: bool, is_voter: bool = True, follows: int | None = None) -> Surveyed:
    page: dict[str, Any] | None = {"quorum": {"leader_id": follows}} if answers else None
    return Surveyed(node_id, is_voter, None, answers, page)


def of(*answers: bool) -> Survey:
    return Survey(5, tuple(node(node_id, answers=each) for node_id, each in enumerate(answers, 1)))


@pytest.mark.parametrize(
    ("answers", "is_lost", "words"),
    [
        ((True, False, False), True, "1 of 3 voters answer, 2 are needed; no answer from nodes 2 and 3"),
        ((True, False, True), False, "2 of 3 voters answer, 2 are needed; no answer from node 2"),
        ((True, True, True), False, "3 of 3 voters answer, 2 are needed; an election may be in progress"),
        ((True, True, False, False), True, "2 of 4 voters answer, 3 are needed; no answer from nodes 3 and 4"),
        ((False,) * 13, True, "no answer from nodes 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more"),
    ],
)
def test_a_quorum_is_lost_when_fewer_than_a_majority_answer(
    answers: tuple[bool, ...], words: str, *, is_lost: bool
) -> None:
    """Only then is there nothing to wait for."""
    seen = of(*answers)
    assert seen.is_lost is is_lost
    assert str(seen).startswith("no controller is elected: ")
    assert words in str(seen)


def without_metadata(node_id: int) -> Surveyed:
    return Surveyed(node_id, True, None, True, {"quorum": {"leader_id": None, "abstains": True}})


def test_voters_without_their_metadata_answer_and_cannot_vote() -> None:
    """There is nothing to wait for: they vote once a leader has given them the metadata, and none can be elected."""
    seen = Survey(5, (without_metadata(1), without_metadata(2), node(3, answers=True)))
    assert seen.is_lost
    assert seen.abstaining == (1, 2)
    told = "3 of 3 voters answer, 2 are needed; nodes 1 and 2 have lost their metadata and cannot vote: see docs/"
    assert told in str(seen)
    seen = Survey(5, (without_metadata(1), node(2, answers=False), node(3, answers=True)))
    assert seen.is_lost
    assert "; no answer from node 2; node 1 has lost its metadata and cannot vote: see docs/" in str(seen)
    seen = Survey(5, (without_metadata(1), node(2, answers=True), node(3, answers=True)))
    assert not seen.is_lost, "two can elect one of them"


def test_observers_have_no_vote() -> None:
    """They respond, and have no vote."""
    seen = Survey(5, (node(1, answers=False), node(2, answers=True, is_voter=False)))
    assert (seen.voters, seen.answering, seen.needed, seen.is_lost) == ((1,), (), 1, True)


def test_a_leader_counts_only_if_it_answers() -> None:
    """A node that has not noticed yet still names the one that died."""
    assert Survey(5, (node(1, answers=True, follows=2), node(2, answers=False))).leader_id is None
    assert Survey(5, (node(1, answers=True, follows=2), node(2, answers=True))).leader_id == 2
