"""`bootstrap`: a broker to test clients against, once ours and once the real Kafka (with the mark `java`).

What passes against both is true of Kafka, not only of two programs by the same hands. Import it into a conftest, with
`kafka`. One broker serves all tests of a process, so tests use names of their own: `unique` makes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from chronik.testing import Cluster

OURS, KAFKA = "chronik", "kafka"
_numbers = itertools.count()
_running = pytest.StashKey[Cluster]()


@pytest.fixture(scope="session")
def our_broker(request: pytest.FixtureRequest) -> Cluster:
    """The same one whichever conftest imports this."""
    config = request.config
    if _running not in config.stash:
        cluster = config.stash[_running] = Cluster()
        config.add_cleanup(cluster.close)
    return config.stash[_running]


@pytest.fixture(params=[OURS, pytest.param(KAFKA, marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue("our_broker" if request.param == OURS else "kafka")
    return str(server.bootstrap)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name that no other test uses."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"
