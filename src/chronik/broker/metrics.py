"""Counters of a node, updated per request and never per record. `exposition` formats them.

Nothing here waits or reads the clock: callers pass durations. Counters start at 0 with the process and never decrease,
as Prometheus expects.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import accumulate
from typing import Any

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, Reply
from chronik.metadata.commands.create_topics import CreateTopics, CreateTopicsReply
from chronik.metadata.commands.describe_quorum import DescribeQuorum
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image, Topic
from chronik.runtime.units import NS_PER_S, NS_PER_US, OCTAVES, US_PER_MS

CREATION_WINDOW_SECONDS = 60
TOPICS_PER_TURN = 500

# Heartbeats and queries: they usually write nothing.
NO_WRITES = (BrokerHeartbeat, FenceBroker, DescribeQuorum)


class Histogram:
    """Durations by powers of two: slot n counts those from 2**(n-1) to below 2**n microseconds."""

    __slots__ = ("slots", "sum_ns")

    def __init__(self, slots: list[int] | None = None, sum_ns: int = 0) -> None:
        self.slots = [0] * (OCTAVES + 1) if slots is None else slots
        self.sum_ns = sum_ns

    def took(self, duration_ns: int) -> None:
        self.slots[min((duration_ns // NS_PER_US).bit_length(), OCTAVES)] += 1
        self.sum_ns += duration_ns

    @property
    def count(self) -> int:
        return sum(self.slots)

    def percentile_ms(self, percent: int) -> float | None:
        """An upper bound for this share of the durations: the upper end of a slot. None before the first."""
        wanted = -(-self.count * percent // 100)
        if not wanted:
            return None
        octave = next(octave for octave, below in enumerate(accumulate(self.slots)) if below >= wanted)
        return (1 << octave) / US_PER_MS


class Traffic:
    """The traffic of one topic, for partitions that this node led."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "fetches_failed",
        "messages_in",
        "produces_failed",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0
        self.produces_failed = 0
        self.fetches_failed = 0

    def add(self, other: Traffic) -> None:
        for name in Traffic.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Topics(dict[str, Traffic]):
    """Traffic by topic, created on first use."""

    def __missing__(self, name: str) -> Traffic:
        made = self[name] = Traffic()
        return made


class Metrics:
    """One per node."""

    def __init__(self) -> None:
        self.requests: dict[str, Histogram] = {}  # by API; from arrival to the response
        self.topics = Topics()
        self.topics_gone = Traffic()  # of deleted topics, because totals must not decrease
        self.metadata_writes = Histogram()
        self.metadata_writes_failed = 0
        self.topics_created = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.logins = 0
        self.logins_refused = 0
        self._created: deque[tuple[int, int]] = deque()  # (second, number of topics created in it), for the last minute

    def request(self, api: str) -> Histogram:
        return self.requests.setdefault(api, Histogram())

    def wrote_metadata(self, command: Command[Any], reply: Reply | None, duration_ns: int, now_ns: int) -> None:
        """A command of this node was answered. `reply` is None if it was refused, or if its outcome is unknown."""
        if isinstance(command, NO_WRITES):
            return
        self.metadata_writes.took(duration_ns)
        self.metadata_writes_failed += reply is None
        if isinstance(command, CreateTopics) and isinstance(reply, CreateTopicsReply) and not command.validate_only:
            self._topics_were_created(sum([not topic.error_code for topic in reply.topics]), now_ns)

    def _topics_were_created(self, count: int, now_ns: int) -> None:
        self.topics_created += count
        second = now_ns // NS_PER_S
        if self._created and self._created[-1][0] == second:
            count += self._created.pop()[1]
        self._created.append((second, count))
        self._forget_creations(second)

    def topics_created_per_second(self, now_ns: int) -> float:
        """The average over the last minute."""
        self._forget_creations(now_ns // NS_PER_S)
        return sum(count for _, count in self._created) / CREATION_WINDOW_SECONDS

    def _forget_creations(self, second: int) -> None:
        while self._created and self._created[0][0] <= second - CREATION_WINDOW_SECONDS:
            self._created.popleft()

    def follow(self, node_id: int, changes: Changes) -> None:
        """Counts ISR changes of partitions that this node leads, and drops the metrics of deleted topics."""
        for topic in changes.topics_removed:
            if topic.name in self.topics:
                self.topics_gone.add(self.topics.pop(topic.name))
        for before, after in changes.topics_changed:
            for old, new in zip(before.partitions, after.partitions, strict=False):
                if new.leader == node_id and old.isr is not new.isr:
                    self.isr_shrinks += len(new.isr) < len(old.isr)
                    self.isr_expands += len(new.isr) > len(old.isr)

    def forget_deleted(self, image: Image) -> None:
        """Drops a deleted topic's metrics, which remain in the totals."""
        for name in [name for name in self.topics if image.topic_named(name) is None]:
            self.topics_gone.add(self.topics.pop(name))

    def total(self) -> Traffic:
        total = Traffic()
        for traffic in (self.topics_gone, *self.topics.values()):
            total.add(traffic)
        return total


class Census:
    """Partitions and brokers of one image, counted once per image, so that a scrape of an idle cluster counts
    nothing."""

    def __init__(self, image: Image, node_id: int) -> None:
        self.image, self.node_id = image, node_id
        self.topics = len(image.topics)
        self.partitions = self.offline = self.imbalanced = 0  # in the cluster
        self.here = self.led = self.under_replicated = 0  # on this node
        self.live_brokers = len(image.live_brokers)
        self.fenced_brokers = sum(broker.fenced for broker in image.brokers.values())

    def count(self, topic: Topic) -> None:
        self.partitions += len(topic.partitions)
        for partition in topic.partitions:
            leader, replicas = partition.leader, partition.replicas
            self.offline += leader < 0
            self.imbalanced += leader != replicas[0]
            if self.node_id in replicas:
                self.here += 1
                if leader == self.node_id:
                    self.led += 1
                    self.under_replicated += len(partition.isr) < len(replicas)


class Censuses:
    """The newest census, computed in steps, so that a large image does not delay requests."""

    def __init__(self) -> None:
        self._newest: Census | None = None

    async def take(self, image: Image, node_id: int) -> Census:
        if self._newest is None or self._newest.image is not image:
            census = Census(image, node_id)
            for number, topic in enumerate(image.topics.values()):
                census.count(topic)
                if number % TOPICS_PER_TURN == 0:
                    await asyncio.sleep(0)
            self._newest = census
        return self._newest
