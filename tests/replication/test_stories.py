"""Replicas keep their promises under random schedules: crashes, power cuts, cut wires, images that come late."""

from __future__ import annotations

import pytest

from tests.replication.stories import run_seed

SEEDS = range(48)


def test_a_few_schedules_keep_every_promise() -> None:
    """As below; for `make quick`."""
    for seed in range(6):
        run_seed(seed)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_replicas_agree() -> None:
    """Acknowledged means durable on every in-sync replica; what a reader saw at an offset stays; all end up equal."""
    acknowledged = committed = 0
    for seed in SEEDS:
        model = run_seed(seed).model
        acknowledged += len(model.acked)
        committed += len(model.committed)
    assert acknowledged > 15 * len(SEEDS), "the schedules must get something done, or they prove nothing"
    assert committed >= acknowledged
