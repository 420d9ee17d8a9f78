"""One seed, one run: byte for byte the same log in another process with other hashes, or no seed is worth keeping."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from chronik.sim.scenarios import SCENARIOS, run_named
from chronik.sim.world import LogCapture, World

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


def test_what_another_thread_logs_is_not_in_the_log() -> None:
    """A client or a Spark listener of another test may still run in this process, and log when it likes."""
    log = logging.getLogger("chronik.elsewhere")
    world = World(SEED)
    with LogCapture(world):
        other = threading.Thread(target=log.warning, args=("from another thread",))
        other.start()
        other.join()
        log.warning("from the world's thread")
    assert [line.split(maxsplit=2)[2] for line in world.lines] == ["warning from the world's thread"]
