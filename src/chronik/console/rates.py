"""From two scrapes of a node to values of series: rates, percentiles, levels. Pure.

A counter that fell belongs to a node that was restarted: that interval has no rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from chronik.console.prometheus import Families, single

TOPIC_COUNTERS: Final = {
    "messages_in_per_s": "kafka_server_brokertopicmetrics_messagesin_total",
    "bytes_in_per_s": "kafka_server_brokertopicmetrics_bytesin_total",
    "bytes_out_per_s": "kafka_server_brokertopicmetrics_bytesout_total",
}
REQUESTS: Final = "kafka_network_requestmetrics_requests_total"
REQUEST_TIMES: Final = "kafka_network_requestmetrics_totaltimems_bucket"
SYNC_TIMES: Final = "chronik_sync_time_ms_bucket"
LAG, LAG_SECONDS = "kafka_consumergroup_lag", "kafka_consumergroup_lag_seconds"
LEVELS: Final = {
    "connections": "kafka_server_socketservermetrics_connection_count",
    "under_replicated": "kafka_server_replicamanager_underreplicatedpartitions",
    "under_min_isr": "kafka_server_replicamanager_underminisrpartitioncount",
    "partitions_led": "kafka_server_replicamanager_leadercount",
    "partitions_held": "kafka_server_replicamanager_partitioncount",
    "offline_partitions": "kafka_controller_kafkacontroller_offlinepartitionscount",
    "memory_held_bytes": "chronik_memory_held_bytes",
}
DISK_FREE: Final = "chronik_disk_free_bytes"
WANTED: Final = frozenset(
    {*TOPIC_COUNTERS.values(), *LEVELS.values(), REQUESTS, REQUEST_TIMES, SYNC_TIMES, LAG, LAG_SECONDS, DISK_FREE}
)
SUMMED: Final = frozenset({*TOPIC_COUNTERS, "requests_per_s", "connections", "under_replicated", "under_min_isr"})
WORST: Final = frozenset({"produce_p99_ms", "fetch_p99_ms", "sync_p99_ms", "offline_partitions"})
P99: Final = 0.99


@dataclass(frozen=True, slots=True)
class Scrape:
    time_ms: int
    families: Families


@dataclass(frozen=True, slots=True)
class GroupLag:
    records: int
    seconds: float | None
    topics: tuple[str, ...]


def node_values(before: Scrape | None, after: Scrape) -> dict[str, float]:
    """Values of one node by series, without the node's id."""
    values = {name: level for name, family in LEVELS.items() if (level := single(after.families, family)) is not None}
    free = [each.value for each in after.families.get(DISK_FREE, ())]
    if free:
        values["disk_free_bytes"] = min(free)
    seconds = 0.0 if before is None else (after.time_ms - before.time_ms) / 1_000
    if before is None or seconds <= 0:
        return values
    for name, family in TOPIC_COUNTERS.items():
        _put(values, name, _rate(single(before.families, family), single(after.families, family), seconds))
    old, new = (sum(each.value for each in scrape.families.get(REQUESTS, ())) for scrape in (before, after))
    _put(values, "requests_per_s", _rate(old, new, seconds))
    for name, request in (("produce_p99_ms", "Produce"), ("fetch_p99_ms", "Fetch")):
        _put(values, name, percentile(_between(before, after, REQUEST_TIMES, request), P99))
    _put(values, "sync_p99_ms", percentile(_between(before, after, SYNC_TIMES, None), P99))
    return values


def topic_values(before: Scrape | None, after: Scrape) -> dict[tuple[str, str], float]:
    """Rates of one node by series and topic. A topic that is new began at 0."""
    seconds = 0.0 if before is None else (after.time_ms - before.time_ms) / 1_000
    if before is None or seconds <= 0:
        return {}
    found: dict[tuple[str, str], float] = {}
    for name, family in TOPIC_COUNTERS.items():
        old = {each.labels["topic"]: each.value for each in before.families.get(family, ()) if "topic" in each.labels}
        for each in after.families.get(family, ()):
            topic = each.labels.get("topic")
            if topic is not None and (rate := _rate(old.get(topic, 0.0), each.value, seconds)) is not None:
                found[name, topic] = rate
    return found


def cluster_values(nodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sums over the nodes that answered, or the worst of them, by what a series means."""
    found: dict[str, float] = {}
    for values in nodes:
        for name, value in values.items():
            if name in SUMMED:
                found[name] = found.get(name, 0.0) + value
            elif name in WORST:
                found[name] = max(found.get(name, 0.0), value)
    return found


def group_lags(scrapes: Iterable[Scrape]) -> dict[str, GroupLag]:
    """Of all groups; each is known by the node that coordinates it. Two nodes may tell while a group moves: the
    later scrape counts."""
    found: dict[str, GroupLag] = {}
    for scrape in sorted(scrapes, key=lambda each: each.time_ms):
        records: Counter[str] = Counter()
        topics: dict[str, set[str]] = {}
        for each in scrape.families.get(LAG, ()):
            group = each.labels.get("group", "")
            records[group] += int(each.value)
            topics.setdefault(group, set()).add(each.labels.get("topic", ""))
        seconds: dict[str, float] = {}
        for each in scrape.families.get(LAG_SECONDS, ()):
            group = each.labels.get("group", "")
            seconds[group] = max(seconds.get(group, 0.0), each.value)
        for group, count in records.items():
            found[group] = GroupLag(count, seconds.get(group), tuple(sorted(topics[group])))
    return found


def percentile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """From cumulative counts by upper bound, ascending. Within a bucket, values count as spread evenly; those above the
    last finite bound count as that bound."""
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    rank, low_bound, low_count = share * total, 0.0, 0.0
    for bound, count in buckets:
        if count >= rank:
            if bound == float("inf"):
                return low_bound
            inside = count - low_count
            return low_bound + (bound - low_bound) * ((rank - low_count) / inside if inside else 1.0)
        low_bound, low_count = bound, count
    return low_bound


def _between(before: Scrape, after: Scrape, family: str, request: str | None) -> list[tuple[float, float]]:
    """What was counted between two scrapes; empty if the node was restarted."""
    counted: list[dict[float, float]] = []
    for scrape in (before, after):
        samples = scrape.families.get(family, ())
        counted.append(
            {float(each.labels["le"]): each.value for each in samples if each.labels.get("request") == request}
        )
    old, new = counted
    found = [(bound, count - old.get(bound, 0.0)) for bound, count in sorted(new.items())]
    return [] if any(count < 0 for _, count in found) else found


def _rate(before: float | None, after: float | None, seconds: float) -> float | None:
    if before is None or after is None or after < before:
        return None
    return (after - before) / seconds


def _put(values: dict[str, float], name: str, value: float | None) -> None:
    if value is not None:
        values[name] = value
