"""`bootstrap`: a broker to test clients against, once ours and once the real Kafka (with the mark `java`).

What passes against both is true of Kafka, not only of two programs by the same hands. Import it into a conftest, with
`kafka`. One broker serves all tests of a process, so tests use names of their own: `unique` makes them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from chronik.testing import Cluster

OURS, KAFKA = "chronik", "kafka"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def our_broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=[OURS, pytest.param(KAFKA, marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    server = request.getfixturevalue("our_broker" if request.param == OURS else "kafka")
    return str(server.bootstrap)


@pytest.fixture
def unique() -> Callable[[str], str]:
    """A name that no other test uses."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"
