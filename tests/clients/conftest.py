"""One broker for the clients of a test process, as they would find it: a process of its own, on Kafka's settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chronik.testing import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"num.partitions": "3"}, in_process=False) as cluster:
        yield cluster
