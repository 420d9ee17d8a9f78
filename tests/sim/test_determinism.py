"""One seed, one run: byte for byte the same log in another process with other hashes, or no seed is worth keeping."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chronik.sim.scenarios import SCENARIOS, run_named

SEED = 4
PRINT_HASH = (
    "import sys; from chronik.sim.scenarios import run_named; print(run_named(sys.argv[1], int(sys.argv[2])).log_hash)"
)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_gives_one_log_in_every_process(scenario: str) -> None:
    hashes = {run_named(scenario, SEED).log_hash}
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        told = subprocess.run(
            [sys.executable, "-c", PRINT_HASH, scenario, str(SEED)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(told.stdout.strip())
    assert len(hashes) == 1


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_another_seed_gives_another_log(scenario: str) -> None:
    assert run_named(scenario, SEED).log_hash != run_named(scenario, SEED + 1).log_hash
