"""Rows into topics, without a session: options, columns, and the records that a task writes to a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from chronik.client.partitioners import partition_of_key
from chronik.pipeline.columns import HEADERS_TYPE
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.sink import SinkCommit, write_rows
from chronik.pipeline.sink_options import SinkOptions, parse, require_columns
from chronik.testing import Cluster
from chronik.wire.compression import Codec
from tests.pipeline import topics

HERE = {"kafka.bootstrap.servers": "localhost:9092"}
KEY_VALUE = [("key", "binary"), ("value", "binary")]


def refused(condition: str) -> Any:
    return pytest.raises(PipelineError, match=rf"^\[{condition}\]")


def test_defaults_and_values_of_the_sinks_options() -> None:
    """These values determine how a task writes."""
    assert parse(HERE) == SinkOptions("localhost:9092")
    given = {
        **HERE,
        "TOPIC": "orders",
        "onTooLarge": "dlq",
        "exactlyOnce": "off",
        "kafka.compression.type": "zstd",
        "kafka.max.request.size": "500",
        "kafka.acks": "all",
        "checkpointLocation": "/somewhere",
    }
    assert parse(given) == SinkOptions("localhost:9092", "orders", True, Codec.ZSTD, 500)
    once = parse({**HERE, "exactlyOnce": "True", "kafka.transaction.timeout.ms": "60000"})
    assert once == SinkOptions("localhost:9092", exactly_once=True, transaction_timeout_ms=60_000)


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        ({"exactlyOnce": "task"}, "UNSUPPORTED_OPTION"),
        ({"exactlyOnce": "Batch"}, "UNSUPPORTED_OPTION"),
        ({"exactlyOnce": "always"}, "INVALID_OPTION"),
        ({"onTooLarge": "drop"}, "INVALID_OPTION"),
        ({"kafka.acks": "1"}, "UNSUPPORTED_OPTION"),
        ({"kafka.enable.idempotence": "false"}, "UNSUPPORTED_OPTION"),
        ({"kafka.transactional.id": "x"}, "UNSUPPORTED_OPTION"),
        ({"kafka.value.serializer": "x"}, "UNSUPPORTED_OPTION"),
        ({"kafka.compression.type": "rar"}, "INVALID_OPTION"),
        ({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "GSSAPI"}, "UNSUPPORTED_SECURITY"),
        ({"topics": "orders"}, "UNKNOWN_OPTION"),
        ({"kafka.bootstrap.servers": ""}, "OPTION_REQUIRED"),
    ],
)
def test_what_the_sink_cannot_do_is_refused_by_name(given: dict[str, str], condition: str) -> None:
    """Accepting exactlyOnce=task silently would look like a promise."""
    with refused(condition):
        parse({**HERE, **given})


@pytest.mark.parametrize(
    ("columns", "condition"),
    [
        ([("key", "binary"), ("topic", "string")], "COLUMN_REQUIRED"),
        (KEY_VALUE, "COLUMN_REQUIRED"),
        ([("value", "int"), ("topic", "string")], "COLUMN_TYPE_MISMATCH"),
        ([*KEY_VALUE, ("topic", "int")], "COLUMN_TYPE_MISMATCH"),
        ([*KEY_VALUE, ("topic", "string"), ("partition", "bigint")], "COLUMN_TYPE_MISMATCH"),
        ([*KEY_VALUE, ("topic", "string"), ("headers", "map<string,string>")], "COLUMN_TYPE_MISMATCH"),
    ],
)
def test_a_frame_that_is_not_records_is_refused_by_its_column(columns: list[tuple[str, str]], condition: str) -> None:
    """Before the first row is written, not after a million."""
    with refused(condition):
        require_columns(columns, SinkOptions("localhost"))


def test_columns_that_records_do_not_have_are_left_alone() -> None:
    """As Spark's own sink does; a frame need not be cut down to be written."""
    require_columns([("value", "string"), ("day", "date")], SinkOptions("localhost", "orders"))


def frame(**columns: list[Any]) -> pa.RecordBatch:
    types = {"headers": HEADERS_TYPE, "partition": pa.int32()}
    return pa.record_batch({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def test_rows_arrive_as_they_are(our_broker: Cluster, unique: Callable[[str], str]) -> None:
    """Keys decide on partitions as Java's producer does; null stays null; headers keep their order."""
    topic = topics.create(our_broker.bootstrap, unique("sink"), partitions=3)
    keys = [b"k%d" % i for i in range(60)]
    headers = [[{"key": "b", "value": b"1"}, {"key": "a", "value": None}], *[None] * 59]
    rows = frame(key=keys, value=[f"v{i}" for i in range(59)] + [None], headers=headers)
    report = write_rows(iter([rows.slice(0, 20), rows.slice(20)]), SinkOptions(our_broker.bootstrap, topic))
    assert report == SinkCommit(60, 0)
    for partition in range(3):
        mine = [i for i, key in enumerate(keys) if partition_of_key(key, 3) == partition]
        found = topics.dump(our_broker.bootstrap, topic, partition, count=len(mine))
        assert [row[:2] for row in found] == [(keys[i], None if i == 59 else b"v%d" % i) for i in mine]
        assert [row[7] for row in found] == [headers[i] for i in mine]


def test_rows_name_their_topic_and_partition_and_the_option_wins(
    our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """One frame may feed many topics; null in a row is an error and not a guess."""
    first, second = (topics.create(our_broker.bootstrap, unique("named"), partitions=2) for _ in range(2))
    named = frame(value=[b"1", b"2", b"3"], topic=[first, second, first], partition=[1, 0, 1])
    write_rows(iter([named]), SinkOptions(our_broker.bootstrap))
    assert [row[1] for row in topics.dump(our_broker.bootstrap, first, 1, count=2)] == [b"1", b"3"]
    write_rows(iter([named]), SinkOptions(our_broker.bootstrap, second))
    assert [row[1] for row in topics.dump(our_broker.bootstrap, second, 1, count=2)] == [b"1", b"3"]
    with refused("NO_TOPIC"):
        write_rows(iter([frame(value=[b"1"], topic=pa.array([None], pa.string()))]), SinkOptions(our_broker.bootstrap))


def test_a_record_that_is_too_large_fails_the_task_or_becomes_a_dead_letter(
    our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """If the user has requested this, one bad row must not stop a stream forever."""
    topic = topics.create(our_broker.bootstrap, unique("large"))
    topics.create(our_broker.bootstrap, f"{topic}.dlq")
    rows = frame(key=[b"a", b"b", b"c"], value=[b"1", b"x" * 2000, b"3"])
    with refused("RECORD_TOO_LARGE"):
        write_rows(iter([rows.slice(1, 1)]), SinkOptions(our_broker.bootstrap, topic, record_bytes_max=1000))
    kept = SinkOptions(our_broker.bootstrap, topic, keeps_too_large=True, record_bytes_max=1000)
    assert write_rows(iter([rows]), kept) == SinkCommit(3, 1)
    assert [row[1] for row in topics.dump(our_broker.bootstrap, topic, count=2)] == [b"1", b"3"]
    [letter] = topics.dump(our_broker.bootstrap, f"{topic}.dlq", count=1)
    assert letter[:2] == (b"b", None)
    assert {each["key"]: each["value"] for each in letter[7]}["chronik.dlq.error"] == b"RECORD_TOO_LARGE"


def test_what_the_broker_refuses_fails_the_task(our_broker: Cluster, unique: Callable[[str], str]) -> None:
    """A task that reports success although a row was not written would lose it."""
    topic = topics.create(our_broker.bootstrap, unique("limited"), config={"max.message.bytes": "100"})
    with refused("RECORD_REFUSED"):
        write_rows(iter([frame(value=[b"x" * 500])]), SinkOptions(our_broker.bootstrap, topic))
    with refused("RECORD_REFUSED"):
        write_rows(iter([frame(value=[b"x"], partition=[7])]), SinkOptions(our_broker.bootstrap, topic))
