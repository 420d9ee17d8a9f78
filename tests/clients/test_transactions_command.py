"""Kafka's kafka-transactions.sh against three nodes of ours: it prints here what it prints about a real Kafka 4.3.1."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from chronik.wire.batches import build
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.produce import ProduceResponse
from chronik.wire.records import Record
from tests.clients.drivers.kafka_tools import KafkaTools
from tests.cluster.asking import Asked
from tests.oracle.asking import produce

pytestmark = pytest.mark.java

TIMEOUT_MS = 60_000
PATIENCE_S = 60
HOUR_MS = 3_600_000
PRODUCE_VERSION = 11  # the last that leaves it to the client to add partitions
INIT_VERSION = 4
NONE = "None"
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["4.3.1", "3.9.1"])
def tools(request: pytest.FixtureRequest) -> Iterator[KafkaTools]:
    tools = KafkaTools(request.param)
    yield tools
    tools.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Nodes that believe older producers, so that a test can leave a transaction that no coordinator knows."""
    with Cluster(nodes=3, settings={"transaction.partition.verification.enable": "false"}) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"written-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for creation in admin.create_topics([NewTopic(name, 2, len(cluster.ports))]).values():
        creation.result(PATIENCE_S)
    return name


class Transactions:
    """The command with its first arguments."""

    def __init__(self, tools: KafkaTools, cluster: Cluster) -> None:
        self._tools = tools
        self._where = ("--bootstrap-server", cluster.bootstrap)

    def rows(self, *arguments: str) -> list[dict[str, str]]:
        """The printed table."""
        lines = self.run(*arguments).splitlines()
        titles, *rows = [[cell.strip() for cell in line.removesuffix("\t").split("\t")] for line in lines]
        return [dict(zip(titles, row, strict=True)) for row in rows]

    def run(self, *arguments: str) -> str:
        return self._tools.run("TransactionsCommand", *self._where, *arguments)

    def refused(self, *arguments: str) -> str:
        return self._tools.refused("TransactionsCommand", *self._where, *arguments)


@pytest.fixture
def transactions(tools: KafkaTools, cluster: Cluster) -> Transactions:
    return Transactions(tools, cluster)


def open_transaction(cluster: Cluster, topic: str) -> Producer:
    """Of a producer whose transactional id is the topic's name: two records in partition 0."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": topic,
            "transaction.timeout.ms": TIMEOUT_MS,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for value in (b"one", b"two"):
        producer.produce(topic, value, partition=0)
    producer.flush(PATIENCE_S)
    return producer


def test_an_open_transaction_is_listed_and_described(cluster: Cluster, transactions: Transactions, topic: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    producer = open_transaction(cluster, topic)
    (described,) = transactions.rows("describe", "--transactional-id", topic)
    producer_id, coordinator = described["ProducerId"], described["CoordinatorId"]
    started_ms = int(described.pop("CurrentTransactionStartTimeMs"))
    assert before_ms <= started_ms <= time.time_ns() // 1_000_000
    assert int(described.pop("TransactionDurationMs")) >= 0
    assert described == {
        "CoordinatorId": coordinator,
        "TransactionalId": topic,
        "ProducerId": producer_id,
        "ProducerEpoch": "0",
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": str(TIMEOUT_MS),
        "TopicPartitions": f"{topic}-0",
    }
    listed = [row for row in transactions.rows("list") if row["TransactionalId"] == topic]
    assert listed == [
        {"TransactionalId": topic, "Coordinator": coordinator, "ProducerId": producer_id, "TransactionState": "Ongoing"}
    ]
    older = transactions.rows("list", "--duration-filter", str(HOUR_MS))
    assert topic not in [row["TransactionalId"] for row in older]
    (written,) = transactions.rows("describe-producers", "--topic", topic, "--partition", "0")
    assert before_ms <= int(written.pop("LastTimestamp")) <= time.time_ns() // 1_000_000
    assert written == {
        "ProducerId": producer_id,
        "ProducerEpoch": "0",
        "LatestCoordinatorEpoch": "-1",
        "LastSequence": "1",
        "CurrentTransactionStartOffset": "0",
    }
    hanging = ("find-hanging", "--topic", topic, "--max-transaction-timeout", "0")
    assert transactions.rows(*hanging) == [], "its coordinator knows it"
    producer.commit_transaction(PATIENCE_S)


def test_an_ended_transaction_is_described(cluster: Cluster, transactions: Transactions, topic: str) -> None:
    producer = open_transaction(cluster, topic)
    producer.commit_transaction(PATIENCE_S)
    while (state := described_state(transactions, topic)) == "PrepareCommit":
        pass
    assert state == "CompleteCommit"
    (described,) = transactions.rows("describe", "--transactional-id", topic)
    assert described["TopicPartitions"] == ""
    (written,) = transactions.rows("describe-producers", "--topic", topic, "--partition", "0")
    assert written["CurrentTransactionStartOffset"] == NONE
    assert int(written["LatestCoordinatorEpoch"]) >= 0
    assert transactions.rows("describe-producers", "--topic", topic, "--partition", "1") == []


def test_what_is_not_there_is_refused(transactions: Transactions, topic: str) -> None:
    said = transactions.refused("describe", "--transactional-id", "nobody")
    assert said.startswith("Failed to describe transaction state of transactional-id `nobody`")
    said = transactions.refused("abort", "--topic", topic, "--partition", "0", "--start-offset", "7")
    assert f"Could not find any open transactions starting at offset 7 on partition {topic}-0" in said


def test_a_transaction_is_terminated_by_its_id(
    cluster: Cluster, tools: KafkaTools, transactions: Transactions, topic: str
) -> None:
    if tools.release == "3.9.1":
        pytest.skip("a command of newer tools")
    producer = open_transaction(cluster, topic)
    transactions.run("forceTerminateTransaction", "--transactionalId", topic)
    assert described_state(transactions, topic) == "Empty"  # the command takes the id over, as a new producer does
    (written,) = transactions.rows("describe-producers", "--topic", topic, "--partition", "0")
    assert written["CurrentTransactionStartOffset"] == NONE
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        producer.commit_transaction(PATIENCE_S)


def test_a_transaction_that_no_coordinator_knows_is_found_and_aborted(
    cluster: Cluster, transactions: Transactions, topic: str
) -> None:
    """Readers wait at its first record. The partition's leader ends it after some minutes; the command does at once."""
    producer_id = leave_hanging(cluster, topic)
    find = ("find-hanging", "--topic", topic)
    (found,) = transactions.rows(*find)
    last_ms = int(found.pop("LastTimestamp"))
    assert found == {
        "Topic": topic,
        "Partition": "1",
        "ProducerId": str(producer_id),
        "ProducerEpoch": "0",
        "CoordinatorEpoch": "-1",
        "StartOffset": "0",
        "Duration(min)": str((time.time_ns() // 1_000_000 - last_ms) // 60_000),
    }
    leader = Asked(cluster, 1).placed(topic)[1].leader
    assert topic in [row["Topic"] for row in transactions.rows("find-hanging", "--broker-id", str(leader))]
    transactions.run("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")
    assert transactions.rows(*find) == []
    (written,) = transactions.rows("describe-producers", "--topic", topic, "--partition", "1")
    assert written["CurrentTransactionStartOffset"] == NONE


def described_state(transactions: Transactions, transactional_id: str) -> str:
    (described,) = transactions.rows("describe", "--transactional-id", transactional_id)
    return described["TransactionState"]


def leave_hanging(cluster: Cluster, topic: str) -> int:
    """Writes a batch, one hour old, in a transaction that no coordinator knows. Returns its producer id."""
    node = Asked(cluster, 1)
    producer_id = node.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), InitProducerIdResponse, INIT_VERSION
    ).producer_id
    leader = Asked(cluster, node.placed(topic)[1].leader)
    batch = build(
        [Record(0, time.time_ns() // 1_000_000 - HOUR_MS, b"", b"late", ())],
        Codec.NONE,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    request = produce(topic, batch, partition=1)
    request.transactional_id = f"{topic}-nobody"
    answer = leader.ask(request, ProduceResponse, PRODUCE_VERSION)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return producer_id
