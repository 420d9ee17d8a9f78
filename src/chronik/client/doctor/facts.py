"""What the doctor knows about a cluster at one moment. Values only; None and missing keys mean no answer."""

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
    """The /status page of a node, and when it was asked and answered by the clock of this machine."""

    page: Mapping[str, Any]
    asked_ms: int
    answered_ms: int

    @property
    def clock_ahead_ms(self) -> int:
        """How far the node's clock is certainly ahead of this one; negative if it is behind. 0 if the difference fits
        into the time that the answer took."""
        told_ms = int(self.page.get("time_ms", self.asked_ms))  # older releases do not tell
        if told_ms > self.answered_ms:
            return told_ms - self.answered_ms
        return min(0, told_ms - self.asked_ms)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group_id: str
    state: str
    member_count: int
    partitions: Mapping[TopicPartition, PartitionLag]
    later: Mapping[TopicPartition, PartitionLag] = field(default_factory=dict)  # a moment later

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.partitions.values())

    @property
    def lag_later(self) -> int:
        return sum(each.lag or 0 for each in self.later.values())


@dataclass(frozen=True, slots=True)
class Facts:
    now_ms: int  # wall time of this machine
    silent_bootstrap: Mapping[str, str] = field(default_factory=dict)  # address, and why it does not answer
    survey: Survey | None = None  # where no controller is elected
    quorum: Quorum | None = None
    nodes: tuple[Node, ...] = ()
    unreachable: Mapping[int, str] = field(default_factory=dict)  # by node: why its advertised address does not answer
    statuses: Mapping[int, StatusAt] = field(default_factory=dict)  # by node
    topics: Mapping[str, Topic] | None = None
    topic_configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)  # by topic and key
    broker_configs: Mapping[int, tuple[Config, ...]] = field(default_factory=dict)  # by node: what is not the default
    moves: Mapping[TopicPartition, Move] = field(default_factory=dict)
    groups: tuple[GroupFacts, ...] = ()
    letters: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=dict)  # ends of dead-letter topics, twice
    unanswered: Mapping[str, str] = field(default_factory=dict)  # questions that failed, and why
