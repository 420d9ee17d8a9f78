"""Retention of what real clients write, on a real disk and by the node's own checks."""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from chronik.testing import Cluster

DAY_MS = 86_400_000
SECONDS_MAX = 60


def test_records_of_librdkafka_without_a_timestamp_outlive_the_next_check(tmp_path: Path) -> None:
    """Its header has 0 as the largest timestamp, which must not delete records that were acknowledged a second ago.

    A record with an old timestamp is deleted by the check that must keep the others.
    """
    settings = {"log.retention.ms": str(DAY_MS), "log.retention.check.interval.ms": "200"}
    with Cluster(settings=settings, data=tmp_path) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(5):
            producer.produce("untimed", b"v", timestamp=-1)
        assert producer.flush(SECONDS_MAX) == 0
        producer.produce("old", b"v", timestamp=int(time.time() * 1000) - 2 * DAY_MS)
        assert producer.flush(SECONDS_MAX) == 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        until = time.monotonic() + SECONDS_MAX
        while consumer.get_watermark_offsets(TopicPartition("old", 0), timeout=SECONDS_MAX) != (1, 1):
            assert time.monotonic() < until, "no check has taken place"
            time.sleep(0.05)
        assert consumer.get_watermark_offsets(TopicPartition("untimed", 0), timeout=SECONDS_MAX) == (0, 5)
        consumer.close()
