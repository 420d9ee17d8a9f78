"""The fixtures `chronik_cluster` and `secure_chronik_cluster`: a fresh one-node cluster for each test.

Registered with pytest by the package, so every run of pytest imports it: the broker is imported by the fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chronik.testing.cluster import Cluster


@pytest.fixture
def chronik_cluster() -> Iterator[Cluster]:
    """A node of its own in this process: `chronik_cluster.bootstrap` is all a client needs."""
    from chronik.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def secure_chronik_cluster() -> Iterator[Cluster]:
    """The same with TLS, logins and access rules. Clients need `client_settings("alice", "confluent-kafka")`."""
    from chronik.testing.cluster import Cluster

    with Cluster(secure=True) as cluster:
        yield cluster
