"""Kafka's TransactionalMessageCopier, as Kafka's own system tests run it: each number once, whatever is killed.

The copier of 4.3.1 lets the leader add partitions to a transaction; the copier of 3.9.1 does so itself, and the leader
verifies it. A third of the transactions is aborted. `CHRONIK_KILLS=20` kills more often and copies more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chronik.testing import Cluster
from tests.clients.copying import PARTITIONS, PATIENCE_S, Copying
from tests.clients.drivers.programs import Program, close_all, kafka_tool
from tests.cluster.load import eventually, rounds

pytestmark = [pytest.mark.java, pytest.mark.timeout(3600)]

RELEASES = ("4.3.1", "3.9.1")
RECORDS_PER_KILL = 3_000
TRANSACTION_RECORDS = 100


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False) as cluster:
        yield cluster


def begin(cluster: Cluster, release: str, count: int) -> Copying:
    """The numbers are those of VerifiableProducer."""
    copying = Copying(cluster, count)
    what = ("--topic", copying.source, "--max-messages", str(count), "--acks", "-1", "--repeating-keys", "10")
    with kafka_tool(release, "VerifiableProducer", "--bootstrap-server", cluster.bootstrap, *what) as producer:
        producer.finish(PATIENCE_S)
    return copying


def start_copier(copying: Copying, release: str, index: int, *more: str) -> Program:
    return kafka_tool(
        release,
        "TransactionalMessageCopier",
        *("--broker-list", copying.cluster.bootstrap),
        *("--input-topic", copying.source, "--input-partition", str(index), "--output-topic", copying.target),
        *("--consumer-group", copying.group, "--transactional-id", copying.transactional_id(index)),
        *("--transaction-size", str(TRANSACTION_RECORDS), "--transaction-timeout", "30000"),
        *("--enable-random-aborts", *more),
    )


@pytest.mark.parametrize("release", ["4.3.1", pytest.param("3.9.1", marks=pytest.mark.long)])
def test_each_number_is_copied_once_while_brokers_and_copiers_are_killed(nodes: Cluster, release: str) -> None:
    """A copier that is started again goes on from the offsets that were committed with the output.

    It asks for them before it takes its transactional id over, and they are not stable while its predecessor's
    transaction is open. So the test ends that one, or the copier would wait for its time-out.
    """
    kills = rounds(3)
    copying = begin(nodes, release, kills * RECORDS_PER_KILL)
    copiers = [start_copier(copying, release, index) for index in range(PARTITIONS)]
    try:
        for number in range(kills):
            copying.wait_for_output(TRANSACTION_RECORDS)
            node_id = number % 3 + 1
            nodes.kill(node_id)
            if number % 2:
                index = number // 2 % PARTITIONS
                copiers[index].close()
                copying.abort(index)
                copiers[index] = start_copier(copying, release, index)
            nodes.start_again(node_id)
        for copier in copiers:
            copier.finish(PATIENCE_S)
    finally:
        close_all(copiers)
    copying.check()


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_each_number_is_copied_once_by_a_group_whose_members_are_killed(nodes: Cluster, release: str) -> None:
    """Members commit offsets with their generation, partitions go from one to the other, and a killed member's
    transaction ends by its time-out, because the member that goes on has another transactional id.
    """
    as_group = ("--group-mode", "--use-group-metadata")
    kills = rounds(3)
    copying = begin(nodes, release, kills * RECORDS_PER_KILL)
    copiers = [start_copier(copying, release, index, *as_group) for index in range(PARTITIONS)]
    try:
        for number in range(kills):
            copying.wait_for_output(TRANSACTION_RECORDS)
            node_id = number % 3 + 1
            nodes.kill(node_id)
            index = number % PARTITIONS
            copiers[index].close()
            copiers[index] = start_copier(copying, release, index, *as_group)
            nodes.start_again(node_id)
        eventually(copying.is_complete, f"the offsets of the end of {copying.source}")
    finally:
        close_all(copiers)
    copying.check()
