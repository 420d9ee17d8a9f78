"""A real cluster for tests of applications: no Docker, no JVM, a free port, isolated data.

def test_orders(chronik_cluster):                   # the fixture comes with `pip install chronik`
    producer = KafkaProducer(bootstrap_servers=chronik_cluster.bootstrap)

def test_logins(secure_chronik_cluster):            # TLS, logins and access rules
    producer = KafkaProducer(**secure_chronik_cluster.client_settings("alice", "kafka-python"))

with Cluster() as cluster: ...                      # without pytest

pytest imports this package in every run if Chronik is installed. So the broker is imported only when `Cluster` is first
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronik.testing.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> Any:
    if name != "Cluster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chronik.testing.cluster import Cluster

    return Cluster
