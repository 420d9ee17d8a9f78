"""Three nodes whose only listener asks for a login: brokers log in to each other by SCRAM, and renew their logins."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.broker.first_users import write_first_users
from chronik.cli.formatting import new_user
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("uncomplaining_nodes")]

RECORDS = 200
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{MODULE} required username="admin" password="top";',
    "connections.max.reauth.ms": "2000",
}


def make_cluster(data: Path) -> Cluster:
    """As three operators would do it: each node is formatted with the same user, and salts of its own."""
    runtime = real_runtime()
    for node_id in (1, 2, 3):
        user = new_user("admin", "SCRAM-SHA-512", "top", runtime.randomness)
        write_first_users(runtime.disk, str(node_directory(data, node_id)), [user])
    return Cluster(nodes=3, data=data, settings=SETTINGS, in_process=False)


def login(cluster: Cluster, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "admin",
        "sasl.password": "top",
        "log_level": "2",
        **{key.replace("_", "."): text for key, text in more.items()},
    }


def test_records_are_replicated_over_logins_that_end_and_a_killed_node_comes_back(tmp_path: Path) -> None:
    """acks=all over more than two lifetimes of every login: followers that log in again lose and repeat nothing."""
    with make_cluster(tmp_path) as cluster:
        admin = AdminClient(login(cluster))
        admin.create_topics([NewTopic("t", 3, 3)])["t"].result(60)
        producer = Producer(login(cluster, acks="all", enable_idempotence="true"))
        for number in range(RECORDS):
            producer.produce("t", str(number).encode(), partition=0)
            assert producer.flush(60) == 0
            if number == RECORDS // 2:
                cluster.kill(3)
                cluster.start_again(3)
        consumer = Consumer(login(cluster, group_id="g", auto_offset_reset="earliest"))
        consumer.subscribe(["t"])
        seen: list[bytes | None] = []
        while len(seen) < RECORDS:
            seen += [message.value() for message in consumer.consume(RECORDS, 1) if not message.error()]
        consumer.close()
        assert seen == [str(number).encode() for number in range(RECORDS)]
        while any(len(each.isrs) < 3 for each in admin.list_topics("t", timeout=60).topics["t"].partitions.values()):
            pass  # every follower is let in again, however long that takes
