"""The fixture `chronik_cluster`: a fresh one-node cluster for each test. Registered with pytest by the package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chronik.testing.cluster import Cluster


@pytest.fixture
def chronik_cluster() -> Iterator[Cluster]:
    """A node of its own in this process: `chronik_cluster.bootstrap` is all a client needs."""
    with Cluster() as cluster:
        yield cluster
