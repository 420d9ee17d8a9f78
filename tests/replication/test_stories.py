"""Replicas keep their promises under random schedules: crashes, power cuts, cut wires, images that come late."""

from __future__ import annotations

import pytest

from chronik.replication import full_replicas
from chronik.replication.full_replicas import PAUSE_MS_MIN
from tests.replication import old_disks
from tests.replication.stories import run_full_seed, run_seed

SEEDS = range(48)


def test_a_few_schedules_keep_every_promise() -> None:
    """As below; for `make quick`."""
    for seed in range(6):
        run_seed(seed)


def test_replicas_without_space_hand_over_and_nothing_acknowledged_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_replicas, "PAUSE_MS_MAX", PAUSE_MS_MIN)  # otherwise longer than a story takes to settle
    acknowledged = sum(len(run_full_seed(seed).model.acked) for seed in range(24))
    assert acknowledged > 8 * 24, "the schedules must get something done, or they prove nothing"


@pytest.mark.parametrize("seed", [3, 23, 120, 1100, 1116, 1141, 1145])
def test_a_leader_with_an_old_disk_has_nobody_truncate_acknowledged_records(seed: int) -> None:
    """It leads, crashes and leads again. Records that it appended before it was compared would give its shorter log a
    later epoch than the intact one."""
    old_disks.run_seed(seed)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_and_replicas_agree() -> None:
    """Acknowledged records are durable on every in-sync replica, a value that was read at an offset stays, and in the
    end all replicas are equal."""
    acknowledged = committed = 0
    for seed in SEEDS:
        model = run_seed(seed).model
        acknowledged += len(model.acked)
        committed += len(model.committed)
    assert acknowledged > 15 * len(SEEDS), "the schedules must get something done, or they prove nothing"
    assert committed >= acknowledged
