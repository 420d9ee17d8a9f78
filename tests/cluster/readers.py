"""A consumer that reads a topic from the beginning again and again while a cluster is hurt.

It meets every segment on disk, also the damaged ones. An offset must have the same value each time it is read.
"""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, TopicPartition

from chronik.testing import Cluster
from tests.cluster.load import PARTITIONS, PATIENCE_S, Load

BATCH = 1000
POLL_S = 0.1
REST_S = 0.2  # between two passes: the nodes share the processor


class Reader:
    def __init__(self, cluster: Cluster, load: Load) -> None:
        self._load = load
        self.found: dict[tuple[int, int], bytes] = {}  # by partition and offset
        self.failures: list[str] = []
        self.passes = 0
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "topic.metadata.refresh.interval.ms": 1000,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)  # a test that failed does not wait for it
        self._thread.start()

    def _run(self) -> None:
        places = [TopicPartition(self._load.topic, index, 0) for index in range(PARTITIONS)]
        while not self._stopping.wait(REST_S):
            self._consumer.assign(places)
            self._read_to_ends(self._load.ends())
        self._consumer.close()

    def _read_to_ends(self, ends: dict[int, int]) -> None:
        """`ends` were the ends when the pass began: more is written all the time."""
        while ends and not self._stopping.is_set():
            for message in self._consumer.consume(BATCH, POLL_S):
                if message.error() is not None:
                    self.failures.append(str(message.error()))
                    continue
                self._check(message.partition(), message.offset(), message.value())
                if message.offset() + 1 >= ends.get(message.partition(), 1 << 63):
                    del ends[message.partition()]
        self.passes += not ends

    def _check(self, partition: int, offset: int, value: bytes) -> None:
        before = self.found.setdefault((partition, offset), value)
        if before != value:
            self.failures.append(f"{partition}/{offset} was {before[:40]!r} and is now {value[:40]!r}")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the reader hangs"
