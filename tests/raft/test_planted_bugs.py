"""Every planted bug is caught by some seed: a net that lets one of them through would let ours through too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.runtime.invariants import InvariantBroken
from tests.raft import planted_bugs
from tests.raft.cluster_of_cores import Cluster, Violation

pytestmark = pytest.mark.slow

SEEDS_MAX = 1000
Patch = Callable[[pytest.MonkeyPatch], None]


def under_fire(seed: int) -> None:
    Cluster(seed, nodes=3).run(1500)


def healed(seed: int) -> None:
    cluster = Cluster(seed, nodes=3, changes_members=seed % 2 == 1)
    cluster.run(600)
    cluster.settle()
    cluster.check_agreement()


CASES: list[tuple[Patch, Callable[[int], None]]] = [
    (planted_bugs.vote_sent_before_it_is_durable, under_fire),
    (planted_bugs.vote_not_persisted, under_fire),
    (planted_bugs.entries_acknowledged_before_they_are_durable, under_fire),
    (planted_bugs.older_terms_committed_by_counting, under_fire),
    (planted_bugs.highest_term_wins_at_recovery, under_fire),
    (planted_bugs.stale_suffix_kept_at_recovery, under_fire),
    (planted_bugs.votes_for_shorter_logs, under_fire),
    (planted_bugs.follower_believes_the_leaders_commit, under_fire),
    (planted_bugs.stale_leader_answers_reads, under_fire),
    (planted_bugs.snapshot_without_membership, healed),
    (planted_bugs.lost_append_never_made_up_for, healed),
]


@pytest.mark.parametrize(("plant", "schedule"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_bug_is_caught(
    plant: Patch, schedule: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]
) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            schedule(seed)
        except (Violation, InvariantBroken):
            record_property("caught_by_seed", seed)
            return
    pytest.fail(f"not caught within {SEEDS_MAX} seeds")
