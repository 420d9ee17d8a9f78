"""What the console knows about a cluster at one moment. Values only; None and missing keys mean that nothing answered.

The topology may be older than the rest: brokers without a controller do not tell theirs, so the last one stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chronik.client.admin.nodes import Node
from chronik.client.admin.quorum import Quorum
from chronik.client.admin.survey import Survey
from chronik.client.doctor.facts import StatusAt
from chronik.client.topology import NO_LEADER, Partition, Topic, TopicPartition, Topology
from chronik.console.rates import GroupLag


@dataclass(frozen=True, slots=True)
class Missing:
    part: str
    reason: str

    def document(self) -> dict[str, str]:
        return {"part": self.part, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Snapshot:
    time_ms: int
    quorum: Quorum | None = None
    survey: Survey | None = None  # where no controller is elected
    brokers: tuple[Node, ...] = ()  # registered ones, fenced or not
    cluster_id: str | None = None
    statuses: Mapping[int, StatusAt] = field(default_factory=dict)
    topology: Topology = field(default_factory=Topology)
    topology_ms: int = 0
    node_values: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)  # of the cluster
    topic_rates: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by series and topic
    lags: Mapping[str, GroupLag] = field(default_factory=dict)
    group_states: Mapping[str, str] = field(default_factory=dict)
    is_reached: bool = False  # some broker answered
    missing: tuple[Missing, ...] = ()

    @property
    def has_quorum(self) -> bool:
        return self.quorum is not None and self.quorum.leader_id >= 0

    @property
    def node_ids(self) -> list[int]:
        members = () if self.quorum is None else (each.node_id for each in self.quorum.members)
        surveyed = () if self.survey is None else (each.node_id for each in self.survey.nodes)
        return sorted({*members, *surveyed, *(each.node_id for each in self.brokers), *self.statuses})

    def page(self, node_id: int) -> Mapping[str, Any]:
        """Of /status; empty if the node did not answer."""
        at = self.statuses.get(node_id)
        return {} if at is None else at.page


@dataclass(frozen=True, slots=True)
class Health:
    """Counts of partitions by what is wrong with them, with the first few of each."""

    topics: int = 0
    partitions: int = 0
    offline: tuple[TopicPartition, ...] = ()
    offline_count: int = 0
    under_replicated: tuple[TopicPartition, ...] = ()
    under_replicated_count: int = 0


NAMED_MAX = 100


def health_of(topology: Topology) -> Health:
    offline: list[TopicPartition] = []
    under: list[TopicPartition] = []
    count = 0
    for name, topic in topology.topics.items():
        for partition in topic.partitions.values():
            count += 1
            if partition.leader_id == NO_LEADER:
                offline.append(TopicPartition(name, partition.partition))
            if len(partition.isr) < len(partition.replicas):
                under.append(TopicPartition(name, partition.partition))
    return Health(
        len(topology.topics), count, tuple(offline[:NAMED_MAX]), len(offline), tuple(under[:NAMED_MAX]), len(under)
    )


def partition_of(topics: Mapping[str, Topic], at: TopicPartition) -> Partition | None:
    topic = topics.get(at.topic)
    return None if topic is None else topic.partitions.get(at.partition)
