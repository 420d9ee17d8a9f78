"""Every planted bug is caught by some seed: a net that lets one of them through would let ours through too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.replication import planted_bugs
from tests.replication.stories import run_seed

pytestmark = pytest.mark.slow

SEEDS_MAX = 60
# Where the rarer ones begin to look, a little before the seed that finds them today.
FIRST_SEEDS = {
    planted_bugs.committed_without_the_eligible: 40,
    planted_bugs.epochs_forget_that_they_were_cut: 20,
    planted_bugs.laggard_is_let_in: 14,
    planted_bugs.new_leader_counts_followers_of_the_last_epoch: 18,
}


@pytest.mark.parametrize("plant", planted_bugs.ALL, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A promise is broken by some schedule: the model says which, or a check of the code itself does."""
    caplog.set_level("CRITICAL")
    plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - any complaint will do: which comes first depends on the seed
        _run_seeds(FIRST_SEEDS.get(plant, 0))


def _run_seeds(first: int) -> None:
    for seed in range(first, first + SEEDS_MAX):
        run_seed(seed)
