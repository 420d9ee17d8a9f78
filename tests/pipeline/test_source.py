"""The requests and results of the readers of `format("chronik")`, called as Spark calls them, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.pipeline import topics

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from chronik.pipeline.columns import COLUMNS
from chronik.pipeline.options import parse
from chronik.pipeline.source import TopicReader, TopicStreamReader

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("kafka")]  # which it shares

COMMITTED, ABORTED, OPEN = (b"committed %d", b"aborted %d", b"open %d")


@pytest.fixture
def unfinished(kafka: Any, unique: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Options for a topic whose records are committed, aborted, and then of a transaction that is still open.

    On Kafka, because its definition of stable offsets counts.
    """
    topic = topics.create(kafka.bootstrap, unique("unfinished"))
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "linger.ms": 0}
    producer = Producer(settings)
    producer.init_transactions()
    for value, finish in (
        (COMMITTED, producer.commit_transaction),
        (ABORTED, producer.abort_transaction),
        (OPEN, None),
    ):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, partition=0, value=value % number)
        assert producer.flush(30) == 0
        if finish is not None:
            finish()
    yield {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
    producer.abort_transaction()


def values(reader: TopicReader | TopicStreamReader, tasks: list[Any]) -> list[bytes]:
    found = [value.as_py() for task in tasks for table in reader.read(task) for value in table["value"]]
    return sorted(found)


def stream_values(options: dict[str, str]) -> tuple[int, list[bytes]]:
    """The end of a stream's first batch, and its values."""
    reader = TopicStreamReader(parse(options | {"startingOffsets": "earliest"}, is_stream=True), COLUMNS)
    try:
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        return end[options["subscribe"]]["offsets"]["0"], values(reader, reader.partitions(start, end))
    finally:
        reader.stop()


def test_a_query_ends_at_the_last_stable_offset_and_shows_what_is_committed(unfinished: dict[str, str]) -> None:
    """A batch that went further would wait for another producer's transaction, or show records that are aborted
    later."""
    committed = sorted(COMMITTED % number for number in range(10))
    batch = TopicReader(parse(unfinished, is_stream=False), COLUMNS)
    assert values(batch, batch.partitions()) == committed
    assert stream_values(unfinished) == (22, committed)  # twice ten records, each with its marker


def test_uncommitted_records_are_for_those_who_ask_for_them(unfinished: dict[str, str]) -> None:
    """The same option as a consumer's."""
    given = unfinished | {"kafka.isolation.level": "read_uncommitted"}
    every = sorted(value % number for value in (COMMITTED, ABORTED, OPEN) for number in range(10))
    batch = TopicReader(parse(given, is_stream=False), COLUMNS)
    assert values(batch, batch.partitions()) == every
    assert stream_values(given) == (32, every)
