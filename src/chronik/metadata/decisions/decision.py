"""A decision: the records to write, and the reply once they are committed.

Deciding changes nothing, waits for nothing, and reads neither clock nor random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from chronik.metadata.commands.command import Reply
from chronik.metadata.image import View
from chronik.metadata.records import MetadataRecord

R = TypeVar("R", bound=Reply, covariant=True)


class Decision(NamedTuple, Generic[R]):
    records: list[MetadataRecord]
    reply: R
    # Whether the records may be committed in several entries, so that ten thousand leaders need not move in one: a
    # controller that finds half of it done decides the other half when the request is repeated.
    divisible: bool = False


class TopicShape(NamedTuple):
    partition_count: int
    replication_factor: int


class Rules(NamedTuple):
    """The part of the controller's configuration that affects decisions."""

    # num.partitions and default.replication.factor
    topic_default: TopicShape = TopicShape(1, 1)
    # offsets.topic.*, transaction.state.log.*: the shape of a coordinator's topic if the request names none
    coordinator_topics: Mapping[str, TopicShape] = MappingProxyType({})
    # server.properties of this node, from which topic configs take their defaults
    static_configs: Mapping[str, str] = MappingProxyType({})


class ControllerState(NamedTuple):
    """The input of a decision: the newest metadata, committed or not, and the controller's own state."""

    view: View
    rules: Rules
    has_session: Callable[[int], bool] = lambda _: False  # whether this broker sent a heartbeat recently
