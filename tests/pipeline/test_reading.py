"""A range of a partition through a blocking socket, against librdkafka and against trouble."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from chronik.client.errors import Unreachable
from chronik.pipeline import reading
from chronik.pipeline.columns import COLUMNS_WITH_HEADERS
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.reading import read_range
from chronik.testing import Cluster
from tests.house.repository import SOURCE
from tests.pipeline import topics

READ_UNCOMMITTED = 0


def rows(tables: Iterator[Any]) -> list[topics.Row]:
    return [tuple(row.values()) for table in tables for row in table.to_pylist()]


def offsets(tables: Iterator[Any]) -> list[int]:
    return [offset for table in tables for offset in table["offset"].to_pylist()]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_are_those_that_librdkafka_reads(bootstrap: str, unique: Callable[[str], str], codec: str) -> None:
    """Every column of every record, over several fetches and batches that librdkafka compressed."""
    topic = topics.create(bootstrap, unique("codec"))
    settings = {"compression.type": codec, "batch.num.messages": 400}
    topics.fill(bootstrap, topic, 3000, headers=[("a", b"1"), ("b", None)], **settings)
    asked = {"columns": COLUMNS_WITH_HEADERS, "fetch_bytes_max": 20_000}
    found = rows(read_range(bootstrap, topic, 0, start=0, end=3000, **asked))
    assert found == topics.dump(bootstrap, topic, count=3000)
    assert rows(read_range(bootstrap, topic, 0, start=777, end=1234, **asked)) == found[777:1234]


def test_an_empty_range_asks_nobody() -> None:
    """Spark may plan tasks of nothing; they must not fail because a broker is away."""
    assert list(read_range("nowhere.invalid:1", "orders", 0, start=5, end=5)) == []


def test_no_broker_at_all_is_said_with_every_address_tried() -> None:
    """The message is all that a user of Spark sees of a wrong address."""
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        list(read_range("127.0.0.1:1,127.0.0.1:2", "orders", 0, start=0, end=5, timeout_ms=0))


def test_deleted_records_stop_the_reader_with_the_missing_range_or_are_passed_over(
    bootstrap: str, unique: Callable[[str], str]
) -> None:
    """A user who resumes after retention has deleted records must know exactly what is missing."""
    topic = topics.create(bootstrap, unique("aged"))
    topics.fill(bootstrap, topic, 100)
    topics.delete_before(bootstrap, topic, 0, 60)
    with pytest.raises(PipelineError) as lost:
        list(read_range(bootstrap, topic, 0, start=10, end=100))
    assert lost.value == PipelineError(
        "DATA_LOSS", topic=topic, partition=0, start=10, end=59, log_start=60, log_end=99
    )
    assert offsets(read_range(bootstrap, topic, 0, start=10, end=80, fail_on_data_loss=False)) == list(range(60, 80))
    assert offsets(read_range(bootstrap, topic, 0, start=10, end=40, fail_on_data_loss=False)) == []


def test_a_log_that_ends_before_the_planned_end_is_data_loss(bootstrap: str, unique: Callable[[str], str]) -> None:
    """After an unclean election a log may be shorter than when a batch was planned."""
    topic = topics.create(bootstrap, unique("short"))
    topics.fill(bootstrap, topic, 10)
    tables = read_range(bootstrap, topic, 0, start=0, end=15, timeout_ms=0)
    assert offsets([next(tables)]) == list(range(10))
    with pytest.raises(PipelineError) as lost:
        next(tables)
    assert (lost.value.condition, lost.value.parameters["start"], lost.value.parameters["end"]) == ("DATA_LOSS", 10, 14)
    beyond = read_range(bootstrap, topic, 0, start=20, end=30, fail_on_data_loss=False)
    assert offsets(beyond) == []


def test_a_topic_made_anew_is_not_taken_for_the_old_one(bootstrap: str, unique: Callable[[str], str]) -> None:
    """Offset 5 of another topic of that name is another record: never resume there."""
    topic = topics.create(bootstrap, unique("recreated"))
    topics.fill(bootstrap, topic, 10)
    old_id = reading.topic_id_of(bootstrap, topic)
    assert offsets(read_range(bootstrap, topic, 0, start=5, end=10, topic_id=old_id)) == [5, 6, 7, 8, 9]
    topics.delete(bootstrap, topic)
    with pytest.raises(PipelineError, match="PARTITION_NOT_FOUND"):
        list(read_range(bootstrap, topic, 0, start=5, end=10, topic_id=old_id))
    topics.create(bootstrap, topic)
    topics.fill(bootstrap, topic, 10)
    with pytest.raises(PipelineError) as refused:
        list(read_range(bootstrap, topic, 0, start=5, end=10, topic_id=old_id))
    assert refused.value.condition == "TOPIC_ID_CHANGED"
    assert refused.value.parameters["topic"] == topic


def test_a_broker_that_restarts_while_it_is_read_costs_no_row_and_doubles_none() -> None:
    """The prefetch is lost with the connection; rows must not be yielded twice."""
    with Cluster() as cluster:
        topic = topics.create(cluster.bootstrap, "restarted")
        topics.fill(cluster.bootstrap, topic, 2000, **{"batch.num.messages": 100})
        tables = read_range(cluster.bootstrap, topic, 0, start=0, end=2000, fetch_bytes_max=4000)
        found = offsets([next(tables), next(tables)])
        cluster.restart()
        found += offsets(tables)
    assert found == list(range(2000))


READ_ALL = """
import sys
from chronik.pipeline.reading import read_range

def resident_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20

sizes = []
for table in read_range(sys.argv[1], "large", 0, start=0, end=int(sys.argv[2])):
    sizes.append(resident_mib())
print(sizes[5], max(sizes), len(sizes))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_large_backlog_does_not_grow_a_worker() -> None:
    """A worker holds one response and its rows, however much there is to read: 200 MiB here."""
    with Cluster(in_process=False) as cluster:
        topics.create(cluster.bootstrap, "large")
        topics.fill(cluster.bootstrap, "large", 50_000, value_bytes=4096, **{"compression.type": "none"})
        command = [sys.executable, "-c", READ_ALL, cluster.bootstrap, "50000"]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    early_mib, most_mib, table_count = map(int, ran.stdout.split())
    assert table_count > 40
    assert most_mib < early_mib + 32


@pytest.mark.java
def test_aborted_transactions_are_seen_only_by_readers_of_uncommitted_records(
    kafka: Any, unique: Callable[[str], str]
) -> None:
    """Many small fetches, so that transactions lie across their borders; Kafka says which were aborted."""
    topic = topics.create(kafka.bootstrap, unique("transactions"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions()
    committed = []
    for transaction in range(6):
        producer.begin_transaction()
        for i in range(50):
            producer.produce(topic, partition=0, value=b"%d-%d" % (transaction, i))
            producer.flush()
        if transaction % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            committed += [b"%d-%d" % (transaction, i) for i in range(50)]

    def values(isolation_level: int) -> list[bytes]:
        asked = {"columns": ["value"], "fetch_bytes_max": 700, "isolation_level": isolation_level}
        return [value for (value,) in rows(read_range(kafka.bootstrap, topic, 0, start=0, end=306, **asked))]

    assert values(reading.READ_COMMITTED) == committed
    assert len(values(READ_UNCOMMITTED)) == 300
