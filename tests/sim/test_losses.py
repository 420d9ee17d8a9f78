"""A node loses a part of its state, one seed after the other: nothing that was acknowledged is lost with it."""

from __future__ import annotations

import pytest

from chronik.sim.errors import UnknownFault
from chronik.sim.scenarios import run_named
from chronik.sim.sweep import report

pytestmark = pytest.mark.slow

SEEDS = 2
# Those that the product is built to survive. `make sim` runs all.
SURVIVED = (
    "lost journal",
    "lost newest journal",
    "lost checkpoint",
    "lost raft log",
    "lost snapshot",
    "lost metadata",
    "lost identity",
    "lost partition",
    "lost partitions",
    "lost segment",
    "old partition",
    "old journal",
    "old metadata",
    "cut segment",
    "rot in journal",
    "rot in raft log",
    "rot in snapshot",
    "rot in checkpoint",
    "bad sector in segment",
    "bad sector in journal",
    "bad sector in raft log",
    "misdirected write",
    "lost write",
)


@pytest.mark.parametrize("fault", SURVIVED)
def test_a_node_that_loses_a_part_of_its_state_takes_nothing_along(fault: str) -> None:
    for seed in range(SEEDS):
        outcome = run_named("loss", seed, only=fault)
        assert outcome.failure is None, report(outcome)
        assert fault in [each.kind for each in outcome.faults]


def test_the_fault_is_chosen_and_the_rest_of_the_run_is_the_seeds() -> None:
    """So that two faults can be compared, and a schedule that was printed gives the same run without the name."""
    lost, old = run_named("loss", 5, only="lost-identity"), run_named("loss", 5, only="lost raft log")
    assert [each for each in lost.faults if each.kind != "lost identity"] == [
        each for each in old.faults if each.kind != "lost raft log"
    ]
    assert run_named("loss", 5, lost.faults).lines == lost.lines


def test_an_unknown_fault_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownFault, match="lost-journal, "):
        run_named("loss", 0, only="lost-everything")
    with pytest.raises(UnknownFault, match="it has none"):
        run_named("records", 0, only="lost-journal")
