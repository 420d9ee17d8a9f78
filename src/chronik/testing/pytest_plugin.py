"""The fixtures `chronik_cluster` and `secure_chronik_cluster`: a fresh one-node cluster for each test.

The package registers it with pytest, so every run of pytest imports it: only the fixtures import the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from chronik.testing.cluster import Cluster


@pytest.fixture
def chronik_cluster() -> Iterator[Cluster]:
    """A one-node cluster in this process: clients only need `chronik_cluster.bootstrap`."""
    from chronik.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def secure_chronik_cluster() -> Iterator[Cluster]:
    """The same with TLS, logins and access rules. Clients need `client_settings("alice", "confluent-kafka")`."""
    from chronik.testing.cluster import Cluster

    with Cluster(secure=True) as cluster:
        yield cluster
