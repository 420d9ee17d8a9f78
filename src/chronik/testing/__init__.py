"""A real cluster inside the tests of people who use Chronik: no Docker, no JVM, a free port, isolated data.

def test_orders(chronik_cluster):                   # the fixture comes with `pip install chronik`
    producer = KafkaProducer(bootstrap_servers=chronik_cluster.bootstrap)

with Cluster() as cluster: ...                      # without pytest
"""

from chronik.testing.cluster import Cluster

__all__ = ["Cluster"]
