"""One seed, one run: byte for byte the same log in another process with other hashes, or no seed is worth keeping."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from chronik.sim.scenarios import SCENARIOS, run_named

pytestmark = pytest.mark.slow

SEED = 4
PRINT_HASH = (
    "import sys; from chronik.sim.scenarios import run_named; print(run_named(sys.argv[1], int(sys.argv[2])).log_hash)"
)


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_a_seed_gives_one_log_in_every_process(scenario: str) -> None:
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", PRINT_HASH, scenario, str(SEED)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == run_named(scenario, SEED).log_hash


def test_another_seed_gives_another_log() -> None:
    assert run_named("quorum", SEED).log_hash != run_named("quorum", SEED + 1).log_hash
