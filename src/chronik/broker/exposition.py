"""A node's metrics as text for Prometheus: the names of Kafka's usual exporters, and metrics of the quorum.

Reads values at each scrape and counts nothing itself. Durations are in milliseconds, as their names say. Metrics such
as `offlinepartitionscount` are about the cluster, as this node sees it; metrics of the replica manager are about this
node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite, isnan
from typing import TYPE_CHECKING

from chronik import __version__
from chronik.broker.metrics import Census, Histogram, Traffic
from chronik.raft.messages import Role
from chronik.runtime.units import MS_PER_S, NS_PER_MS, NS_PER_S, US_PER_MS

if TYPE_CHECKING:
    from chronik.broker.group_lag import GroupLag
    from chronik.broker.node import Node
    from chronik.broker.node_base import NodeBase

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SHOWN_OCTAVES = range(7, 25)  # bounds of 128 us to 16.8 s; shorter and longer durations are in the first and the last
METADATA_READS = ("Metadata", "DescribeTopicPartitions", "DescribeCluster")

TRAFFIC = (
    ("messagesin", "messages_in", "Records appended by producers."),
    ("bytesin", "bytes_in", "Bytes of records appended by producers."),
    ("bytesout", "bytes_out", "Bytes of records sent to consumers."),
    ("replicationbytesout", "replication_bytes_out", "Bytes of records sent to other brokers."),
    ("failedproducerequests", "produces_failed", "Partitions of produce requests that were refused."),
    ("failedfetchrequests", "fetches_failed", "Partitions of fetch requests that were refused."),
)

LINES_PER_TURN = 500

Labels = Mapping[str, object]
NO_LABELS: Labels = {}


async def starting_metrics(base: NodeBase) -> str:
    """The metrics that exist before a node's data is open."""
    return await _text(chain(_alarms(base), _certificates(base), _requests(base)))


async def metrics_text(base: NodeBase, node: Node) -> str:
    census = await node.census.take(node.store.image, node.node_id)
    lags = await node.group_lags.take()
    return await _text(
        chain(
            _of_the_cluster(node, census),
            _groups(lags),
            _clients_metrics(node),
            _machine(node),
            _upkeep(node),
            _alarms(base),
            _certificates(base),
            _requests(base),
        )
    )


async def _text(samples: Iterable[str]) -> str:
    """Lets other work run in between: ten thousand topics make a long page."""
    lines = list(_gauge("chronik_build_info", "The version that runs here.", [({"version": __version__}, 1)]))
    for line in samples:
        lines.append(line)
        if len(lines) % LINES_PER_TURN == 0:
            await asyncio.sleep(0)
    return "\n".join(lines) + "\n"


def _of_the_cluster(node: Node, census: Census) -> Iterator[str]:
    yield from _traffic(node)
    yield from _replicas(node, census)
    yield from _controller(node, census)
    yield from _quorum(node)
    yield from _metadata(node)


def _traffic(node: Node) -> Iterator[str]:
    node.metrics.forget_deleted(node.store.image)
    total = node.metrics.total()
    topics = sorted(node.metrics.topics.items())
    for name, field, help_text in TRAFFIC:
        samples: list[tuple[Labels, int]] = [(NO_LABELS, getattr(total, field))]
        samples += [({"topic": topic}, value) for topic, value in _nonzero(topics, field)]
        yield from _counter(f"kafka_server_brokertopicmetrics_{name}_total", help_text, samples)


def _nonzero(topics: Iterable[tuple[str, Traffic]], field: str) -> Iterator[tuple[str, int]]:
    return ((topic, value) for topic, traffic in topics if (value := getattr(traffic, field)))


def _replicas(node: Node, census: Census) -> Iterator[str]:
    under_min_isr = 0
    for replica in node.replicas.all():
        needed = min(replica.settings.min_insync_replicas, len(replica.state.replicas))
        under_min_isr += replica.is_leader and len(replica.state.isr) < needed
    prefix = "kafka_server_replicamanager_"
    for name, value, help_text in (
        ("underreplicatedpartitions", census.under_replicated, "Partitions led here that lack an in-sync replica."),
        ("underminisrpartitioncount", under_min_isr, "Partitions led here that refuse acks=all for want of replicas."),
        ("partitioncount", census.here, "Partitions with a replica here."),
        ("leadercount", census.led, "Partitions led here."),
    ):
        yield from _gauge(prefix + name, help_text, [(NO_LABELS, value)])
    metrics = node.metrics
    yield from _counter(
        prefix + "isrshrinks_total", "Replicas lost from ISRs here.", [(NO_LABELS, metrics.isr_shrinks)]
    )
    yield from _counter(prefix + "isrexpands_total", "Replicas back in ISRs here.", [(NO_LABELS, metrics.isr_expands)])
    prefix = "kafka_server_socketservermetrics_"
    for name, count, help_text in (
        ("successful_authentication_total", metrics.logins, "Logins that succeeded here."),
        ("failed_authentication_total", metrics.logins_refused, "Logins that failed here."),
    ):
        yield from _counter(prefix + name, help_text, [(NO_LABELS, count)])


def _controller(node: Node, census: Census) -> Iterator[str]:
    for name, value, help_text in (
        ("activecontrollercount", int(node.store.is_controller), "1 on the node that decides, 0 on the others."),
        ("offlinepartitionscount", census.offline, "Partitions of the cluster without a leader."),
        ("preferredreplicaimbalancecount", census.imbalanced, "Partitions led by another than their first replica."),
        ("globaltopiccount", census.topics, "Topics of the cluster."),
        ("globalpartitioncount", census.partitions, "Partitions of the cluster."),
        ("activebrokercount", census.live_brokers, "Brokers that may lead."),
        ("fencedbrokercount", census.fenced_brokers, "Registered brokers that are silent or not ready."),
    ):
        yield from _gauge(f"kafka_controller_kafkacontroller_{name}", help_text, [(NO_LABELS, value)])


def _quorum(node: Node) -> Iterator[str]:
    raft = node.store.raft
    prefix = "kafka_server_raftmetrics_"
    for name, value, help_text in (
        (
            "current_leader",
            -1 if raft.leader_id is None else raft.leader_id,
            "The quorum's leader as known here, -1 for none.",
        ),
        ("current_epoch", raft.term, "The quorum's term."),
        ("high_watermark", raft.commit_index, "The last entry of the metadata log that a majority holds."),
        ("log_end_offset", raft.last_index, "The last entry of the metadata log here."),
        ("applied_index", raft.applied_index, "The last entry of the metadata log that this node acts on."),
    ):
        yield from _gauge(prefix + name, help_text, [(NO_LABELS, value)])
    health = raft.health
    expirations = health.lease_expirations + node.store.lease_expirations
    unheard = health.heartbeat_failures + node.lifecycle.heartbeat_failures
    for name, value, help_text in (
        ("lease_expiration_count", expirations, "Leases of this node, leader's or follower's, that ran out."),
        ("metadata_wal_write_errors", health.write_errors, "Writes of the metadata log that the disk refused."),
        ("metadata_replication_errors", health.undelivered, "Messages of the quorum that did not reach their node."),
        ("leader_heartbeat_failures", unheard, "Heartbeats to or from the leader that had no answer in time."),
        ("metadata_split_brain_detected", health.split_brains, "Messages of a second leader in one term. Must be 0."),
    ):
        # These are counters, but OpenMetrics requires that names of counters end in `_total`, and these names are
        # fixed.
        yield from _gauge(name, help_text, [(NO_LABELS, value)])
    lags = sorted(raft.lag_ms().items()) if raft.role is Role.LEADER else []
    yield from _gauge(
        "metadata_replication_lag_ms",
        "On the leader: for how long each node has lacked an entry of the metadata log.",
        [({"node": peer}, lag_ms) for peer, lag_ms in lags],
    )


def _metadata(node: Node) -> Iterator[str]:
    metrics, now_ns = node.metrics, node.runtime.clock.monotonic_ns()
    yield from _histogram(
        "metadata_write_latency_ms",
        "From a metadata write of this node to its answer: committed by a majority, applied here.",
        [(NO_LABELS, metrics.metadata_writes)],
    )
    reads = [metrics.requests[api] for api in METADATA_READS if api in metrics.requests]
    yield from _histogram(
        "metadata_read_latency_ms",
        f"From a request of {', '.join(METADATA_READS[:-1])} or {METADATA_READS[-1]} to its answer.",
        [(NO_LABELS, _merged(reads))],
    )
    yield from _gauge(
        "topic_creation_throughput",
        "Topics created through this node per second, over the last minute.",
        [(NO_LABELS, metrics.topics_created_per_second(now_ns))],
    )
    created, failed = metrics.topics_created, metrics.metadata_writes_failed
    yield from _counter("topic_creations_total", "Topics created through this node.", [(NO_LABELS, created)])
    yield from _counter(
        "metadata_write_failures_total", "Metadata writes of this node refused or lost.", [(NO_LABELS, failed)]
    )


def _alarms(base: NodeBase) -> Iterator[str]:
    alarms = base.alarms
    yield from _gauge(
        "chronik_alarm_active",
        "Conditions that need an operator, now; /status describes them.",
        [({"cause": cause}, alarms.count(cause)) for cause in sorted(alarms.totals)],
    )
    yield from _counter(
        "chronik_alarms_total",
        "Reports of such conditions since the node started, repeated ones included.",
        [({"cause": cause}, total) for cause, total in sorted(alarms.totals.items())],
    )


def _certificates(base: NodeBase) -> Iterator[str]:
    left = base.certificates.days_left()
    if left:
        yield from _gauge(
            "chronik_certificate_expiry_days",
            "Days until the certificate of a listener expires.",
            [({"listener": name}, round(days, 2)) for name, days in sorted(left.items())],
        )


def _groups(lags: Sequence[GroupLag]) -> Iterator[str]:
    """For the groups that this node coordinates: the sum over all nodes is the cluster's value."""
    places = [({"group": each.group_id, "topic": each.topic, "partition": each.partition}, each) for each in lags]
    yield from _gauge(
        "kafka_consumergroup_lag",
        "Records between the group's committed offset and the end of the partition.",
        [(labels, each.record_count) for labels, each in places],
    )
    yield from _gauge(
        "kafka_consumergroup_lag_seconds",
        "Age of the oldest record that the group has not read; 0 without lag, missing if it is not known.",
        [(labels, each.age_ms / MS_PER_S) for labels, each in places if each.age_ms is not None],
    )


def _clients_metrics(node: Node) -> Iterator[str]:
    """What clients pushed to this node, after numbers about that."""
    receiver, prefix = node.telemetry, "kafka_server_client_metrics_"
    clients, pushed = receiver.clients, receiver.pushed
    pushed.sweep(receiver.now_ms)
    yield from _gauge(prefix + "instance_count", "Clients that ask what to push.", [(NO_LABELS, len(clients))])
    for name, count, help_text in (
        ("throttle_total", clients.throttled, "Requests of clients that came before their interval was over."),
        ("unknown_subscription_request_total", clients.unknown_subscriptions, "Pushes for an outdated subscription."),
        ("plugin_export_total", receiver.pushes, "Pushes whose metrics were read."),
        ("plugin_error_total", receiver.pushes_failed, "Pushes that could not be read."),
    ):
        yield from _counter(prefix + name, help_text, [(NO_LABELS, count)])
    yield from _counter(
        "chronik_client_metrics_series_dropped_total",
        "Series of clients that were dropped because there were too many.",
        [(NO_LABELS, pushed.series_dropped)],
    )
    yield from _gauge(
        "chronik_client_info",
        "Clients whose metrics are shown.",
        [
            (
                {
                    "client_instance_id": each.instance_id,
                    "client_id": each.client_id,
                    "client_software_name": each.software[0],
                    "client_software_version": each.software[1],
                    "client_source_address": each.host,
                },
                1,
            )
            for each in pushed.clients()
        ],
    )
    for name, (kind, samples) in sorted(pushed.by_name().items()):
        yield from _head(name, kind, "Pushed by clients.")
        yield from (_sample(name, labels, value) for labels, value in samples)


def _machine(node: Node) -> Iterator[str]:
    """Not under the names of the usual process and disk exporters, because these values measure only what the node
    uses."""
    directory, disk, journal = node.settings.log_dir, node.runtime.disk, node.logs.journal
    labels = {"log_dir": directory}
    for name, value, help_text in (
        ("chronik_disk_free_bytes", disk.free_bytes(directory), "Free space for the data directory."),
        ("chronik_disk_total_bytes", disk.total_bytes(directory), "Size of the data directory's file system."),
    ):
        yield from _gauge(name, help_text, [(labels, value)])
    yield from _histogram(
        "chronik_sync_time_ms",
        "How long a sync of the journal or of segments took. Producers with acks=all wait for it.",
        [(NO_LABELS, Histogram(journal.sync_octaves, round(journal.sync_s * NS_PER_S)))],
    )
    for name, value, help_text in (
        ("chronik_memory_budget_bytes", node.memory.size_bytes, "The memory budget for clients."),
        ("chronik_segments_open", len(node.logs.open_files), "Segments whose files are open."),
        ("chronik_segments_open_max", node.logs.open_files.segments_max, "Segments that may be open at once."),
        ("chronik_connections_max", node.runtime.network.connections_max, "Connections that may be open at once."),
    ):
        yield from _gauge(name, help_text, [(NO_LABELS, value)])


def _upkeep(node: Node) -> Iterator[str]:
    logs, scrubber = node.logs, node.scrubber
    damaged_count = sum(1 for log in logs.all() if log.lost is not None)
    yield from _gauge("chronik_logs_damaged", "Logs that lack records they acknowledged.", [({}, damaged_count)])
    yield from _gauge(
        "chronik_replicas_without_space",
        "Replicas that found no space for a record and are kept out of ISRs.",
        [({}, len(node.replicas.full.keys))],
    )
    yield from _gauge(
        "chronik_logs_stray", "Logs that the metadata does not know, set aside.", [({}, logs.strays.count)]
    )
    yield from _counter(
        "chronik_scrub_bytes_total",
        "Bytes read again from disk and checked since the node started.",
        [({}, scrubber.checked_bytes)],
    )
    yield from _counter(
        "chronik_scrub_damaged_segments_total",
        "Segments that the scrubber found damaged since the node started.",
        [({}, scrubber.damaged_count)],
    )
    yield from _gauge(
        "chronik_scrub_finished_timestamp_seconds",
        "When every record on disk had been checked last; -1 before that.",
        [({}, scrubber.progress.finished_ms // 1000)],
    )


def _requests(base: NodeBase) -> Iterator[str]:
    requests = sorted(base.metrics.requests.items())
    yield from _counter(
        "kafka_network_requestmetrics_requests_total",
        "Requests answered.",
        [({"request": api}, timing.count) for api, timing in requests],
    )
    yield from _histogram(
        "kafka_network_requestmetrics_totaltimems",
        "From a request's arrival to its answer.",
        [({"request": api}, timing) for api, timing in requests],
    )
    yield from _gauge(
        "kafka_server_socketservermetrics_connection_count",
        "Open connections of clients and brokers.",
        [(NO_LABELS, len(base.connections))],
    )
    now_ns = base.runtime.clock.monotonic_ns()
    yield from _gauge(
        "chronik_longest_turn_seconds",
        "The longest time for which requests kept the event loop from other clients, in the last minute or two.",
        [(NO_LABELS, base.turns.holds.longest_ns(now_ns) / 1e9)],
    )
    yield from _gauge(
        "chronik_memory_held_bytes",
        "Of the memory budget: what requests, unread replies, fetch sessions and group members hold.",
        [(NO_LABELS, base.memory.size_bytes - base.memory.room_bytes)],
    )


def _merged(histograms: Iterable[Histogram]) -> Histogram:
    merged = Histogram()
    for each in histograms:
        merged.slots = [one + other for one, other in zip(merged.slots, each.slots, strict=True)]
        merged.sum_ns += each.sum_ns
    return merged


# --- the text format


def _gauge(name: str, help_text: str, samples: Iterable[tuple[Labels, float]]) -> Iterator[str]:
    yield from _head(name, "gauge", help_text)
    yield from (_sample(name, labels, value) for labels, value in samples)


def _counter(name: str, help_text: str, samples: Iterable[tuple[Labels, int]]) -> Iterator[str]:
    yield from _head(name, "counter", help_text)
    yield from (_sample(name, labels, value) for labels, value in samples)


def _histogram(name: str, help_text: str, samples: Iterable[tuple[Labels, Histogram]]) -> Iterator[str]:
    yield from _head(name, "histogram", help_text)
    for labels, histogram in samples:
        below = sum(histogram.slots[: SHOWN_OCTAVES.start])
        for octave in SHOWN_OCTAVES:
            below += histogram.slots[octave]
            yield _sample(f"{name}_bucket", {**labels, "le": _ms(1 << octave)}, below)
        count = histogram.count
        yield _sample(f"{name}_bucket", {**labels, "le": "+Inf"}, count)
        yield _sample(f"{name}_sum", labels, histogram.sum_ns / NS_PER_MS)
        yield _sample(f"{name}_count", labels, count)


def _ms(us: int) -> str:
    return f"{us // US_PER_MS}.{us % US_PER_MS:03}"


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: Labels, value: float | str) -> str:
    if isinstance(value, float) and not isfinite(value):
        value = "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    if not labels:
        return f"{name} {value}"
    inside = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
