"""The doctor's knowledge of a cluster at one moment. Values only; None and missing keys mean no answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chronik.client.admin.configs import Config
from chronik.client.admin.lag import PartitionLag
from chronik.client.admin.nodes import Node
from chronik.client.admin.quorum import Quorum
from chronik.client.admin.reassignments import Move
from chronik.client.admin.survey import Survey
from chronik.client.topology import Topic, TopicPartition


@dataclass(frozen=True, slots=True)
class StatusAt:
    """A node's /status page, with the times of request and answer by this machine's clock."""

    page: Mapping[str, Any]
    asked_ms: int
    answered_ms: int

    @property
    def clock_ahead_ms(self) -> int:
        """How far the node's clock is certainly ahead of this one; negative if it is behind. 0 if the difference is
        within the response time."""
        told_ms = int(self.page.get("time_ms", self.asked_ms))  # older releases omit it
        if told_ms > self.answered_ms:
            return told_ms - self.answered_ms
        return min(0, told_ms - self.asked_ms)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group_id: str
    state: str
    member_count: int
    partitions: Mapping[TopicPartition, PartitionLag]
    later: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)  # measured again shortly after

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.partitions.values())

    @property
    def lag_later(self) -> int:
        return sum(each.lag or 0 for each in self.later.values())


@dataclass(frozen=True, slots=True)
class Facts:
    now_ms: int  # wall time of this machine
    silent_bootstrap: Mapping[str, str] = field(default_factory=dict)  # address: why it does not answer
    survey: Survey | None = None  # set if no controller is elected
    quorum: Quorum | None = None
    nodes: tuple[Node, ...] = ()
    unreachable: Mapping[int, str] = field(default_factory=dict)  # node: why its advertised address does not answer
    statuses: Mapping[int, StatusAt] = field(default_factory=dict)  # by node
    topics: Mapping[str, Topic] | None = None
    topic_configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # by topic and key
    broker_configs: Mapping[int, tuple[Config, ...]] = field(default_factory=dict)  # node: non-default configs
    moves: Mapping[TopicPartition, Move] = field(default_factory=dict)
    groups: tuple[GroupFacts, ...] = ()
    # End offsets of dead-letter topics, measured twice.
    letters: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)  # failed query: reason
