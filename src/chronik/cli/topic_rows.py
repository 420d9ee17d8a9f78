"""Topics as rows: what `chronik topic list` and `describe` show, before it is laid out.

A list asks as little as it can: names come from one metadata request; records, sizes and retention ask every broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from chronik.cli.output import human_duration
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import Topic

INTERNAL_PREFIX: Final = "__"  # of topics that programs keep beside those that brokers call internal
SORT_KEYS: Final = {
    "partitions": "partitions",
    "records": "records",
    "rate": "records_per_s",
    "size": "size_bytes",
    "retention": "retention_ms",
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which topics a list shows, and how much of each."""

    names: Sequence[str]  # patterns; all topics if there are none
    internal: bool
    details: bool
    sizes: bool

    def takes(self, topic: Topic) -> bool:
        if self.names:
            return any(fnmatchcase(topic.name, pattern) for pattern in self.names)
        return self.internal or not (topic.is_internal or topic.name.startswith(INTERNAL_PREFIX))


async def listed(cluster: ClusterClient, wanted: Wanted) -> list[dict[str, Any]]:
    """A row for each topic, by name."""
    topology = await cluster.retrying(lambda: cluster.refresh(None))
    topics = [topic for _, topic in sorted(topology.topics.items()) if wanted.takes(topic)]
    rows = [summary(topic) for topic in topics]
    if wanted.sizes:
        sizes_bytes = await _sizes_bytes(cluster)
        for row in rows:
            row["size_bytes"] = sizes_bytes.get(row["name"], 0)
    if wanted.details:
        extents, retentions_ms = await _extents(cluster, topics), await _retentions_ms(cluster, topics)
        for row in rows:
            start, end = extents.get(row["name"], (None, None))
            row["records"] = None if start is None or end is None else end - start
            row["end_offsets"] = end
            row["retention_ms"] = retentions_ms.get(row["name"])
    return rows


def with_rates(
    rows: Sequence[dict[str, Any]], previous: list[tuple[int, dict[str, int]]], now_ns: int
) -> list[dict[str, Any]]:
    """The rows with records per second since the last round, which `previous` remembers."""
    ends: dict[str, int] = {row["name"]: row["end_offsets"] for row in rows if row["end_offsets"] is not None}
    then_ns, then = previous.pop() if previous else (now_ns, {})
    previous.append((now_ns, ends))
    seconds = (now_ns - then_ns) / 1e9

    def rate(name: str) -> float | None:
        if name not in then or name not in ends or seconds <= 0 or ends[name] < then[name]:
            return None  # the first round, or a topic that was created again
        return (ends[name] - then[name]) / seconds

    return [row | {"records_per_s": rate(row["name"])} for row in rows]


def in_order(rows: Sequence[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """By name, or by a number with the largest first. Retention without an end is the largest; unknown is last."""
    if sort not in SORT_KEYS:
        return list(rows)

    def place(row: dict[str, Any]) -> tuple[bool, float]:
        value = row.get(SORT_KEYS[sort])
        if value is None:
            return True, 0.0
        return False, float("-inf") if sort == "retention" and value < 0 else -value

    return sorted(rows, key=place)


def retention_text(retention_ms: int) -> str:
    return "forever" if retention_ms < 0 else human_duration(retention_ms)


def summary(topic: Topic) -> dict[str, Any]:
    partitions = topic.partitions.values()
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(partitions),
        "replication_factor": max((len(each.replicas) for each in partitions), default=0),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
    }


async def _sizes_bytes(cluster: ClusterClient) -> dict[str, int]:
    from chronik.client.admin import nodes

    found: dict[str, int] = {}
    for directory in await nodes.log_directories(cluster):
        for at, size_bytes in directory.sizes_bytes.items():
            found[at.topic] = found.get(at.topic, 0) + size_bytes
    return found


async def _extents(cluster: ClusterClient, topics: Sequence[Topic]) -> dict[str, tuple[int, int]]:
    """Sums of the first and the next offsets of each topic, if all of its partitions have a leader that answers."""
    from chronik.client.admin import offsets
    from chronik.client.topology import NO_LEADER, TopicPartition

    whole = [topic for topic in topics if all(each.leader_id != NO_LEADER for each in topic.partitions.values())]
    places = [TopicPartition(topic.name, index) for topic in whole for index in topic.partitions]
    if not places:
        return {}
    starts = await offsets.look_up(cluster, dict.fromkeys(places, EARLIEST))
    ends = await offsets.look_up(cluster, dict.fromkeys(places, LATEST))
    found = {}
    for topic in whole:
        pairs = [(starts.get(at), ends.get(at)) for at in (TopicPartition(topic.name, i) for i in topic.partitions)]
        known = [
            (a.offset, b.offset)
            for a, b in pairs
            if isinstance(a, offsets.OffsetAt) and isinstance(b, offsets.OffsetAt)
        ]
        if len(known) == len(pairs):
            found[topic.name] = sum(start for start, _ in known), sum(end for _, end in known)
    return found


async def _retentions_ms(cluster: ClusterClient, topics: Sequence[Topic]) -> dict[str, int]:
    """How long each topic keeps records; -1: unlimited, also where nothing is deleted by age."""
    from chronik.client.admin import configs

    found = {}
    keys = ("retention.ms", "cleanup.policy")
    for name, values in (await configs.describe_topics(cluster, [topic.name for topic in topics], keys)).items():
        deletes = "delete" in (values.get("cleanup.policy") or "")
        found[name] = int(values.get("retention.ms") or -1) if deletes else -1
    return found


async def described(cluster: ClusterClient, topic: Topic) -> dict[str, Any]:
    from chronik.client.admin import configs, nodes, offsets
    from chronik.client.topology import NO_LEADER, TopicPartition

    led = [
        TopicPartition(topic.name, each.partition) for each in topic.partitions.values() if each.leader_id != NO_LEADER
    ]
    starts = await offsets.look_up(cluster, dict.fromkeys(led, EARLIEST))
    ends = await offsets.look_up(cluster, dict.fromkeys(led, LATEST))
    sizes_bytes: dict[TopicPartition, int] = {}
    for directory in await nodes.log_directories(cluster):
        for at, size_bytes in directory.sizes_bytes.items():
            sizes_bytes[at] = max(size_bytes, sizes_bytes.get(at, 0))
    own = [
        config
        for config in await configs.describe(cluster, configs.ConfigResource(configs.ResourceKind.TOPIC, topic.name))
        if config.source is configs.Source.TOPIC
    ]
    rows = []
    for each in topic.partitions.values():
        at = TopicPartition(topic.name, each.partition)
        start, end = starts.get(at), ends.get(at)
        rows.append(
            {
                "partition": each.partition,
                "leader": None if each.leader_id == NO_LEADER else each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.isr),
                "offline": list(each.offline),
                "start_offset": start.offset if isinstance(start, offsets.OffsetAt) else None,
                "end_offset": end.offset if isinstance(end, offsets.OffsetAt) else None,
                "size_bytes": sizes_bytes.get(at),
            }
        )
    return summary(topic) | {"configs": {config.name: config.value for config in own}, "partitions": rows}
