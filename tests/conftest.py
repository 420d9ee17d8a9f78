"""What all tests share: how hypothesis searches, and how many inputs a fuzz test may spend.

No test may fail because the machine was slow, so nothing here sets a deadline; pytest's own time-out ends what hangs.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Enough in `make test` to notice a broken decoder; `make fuzz` asks for a million.
FUZZ_INPUTS_DEFAULT = 20_000

settings.register_profile(
    "chronik",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("chronik")

_fuzz_tests = pytest.StashKey[int]()


def pytest_collection_finish(session: pytest.Session) -> None:
    session.config.stash[_fuzz_tests] = sum(item.get_closest_marker("fuzz") is not None for item in session.items)


@pytest.fixture(scope="session")
def fuzz_inputs(request: pytest.FixtureRequest) -> int:
    """How many inputs one test marked `fuzz` feeds: its equal share of CHRONIK_FUZZ_INPUTS."""
    total = int(os.environ.get("CHRONIK_FUZZ_INPUTS", FUZZ_INPUTS_DEFAULT))
    return max(1, total // max(1, request.config.stash[_fuzz_tests]))
