"""What a decision is: the records that would make it true, and the reply once they are committed.

Deciding changes nothing, waits for nothing, and reads neither clock nor randomness.
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
    # Whether the records may come true one after the other, so that ten thousand leaders need not move at one stroke:
    # a controller that finds half of it done decides the other half when it is asked again.
    divisible: bool = False


class TopicShape(NamedTuple):
    partition_count: int
    replication_factor: int


class Rules(NamedTuple):
    """The controller's configuration, as far as decisions depend on it."""

    # num.partitions and default.replication.factor
    topic_default: TopicShape = TopicShape(1, 1)
    # offsets.topic.*, transaction.state.log.*: what a coordinators' topic gets when the asker names no numbers
    coordinator_topics: Mapping[str, TopicShape] = MappingProxyType({})
    # server.properties of this node, from which topic configs take their defaults
    static_configs: Mapping[str, str] = MappingProxyType({})


class ControllerState(NamedTuple):
    """What a command is decided on: the newest metadata, also if it is not committed yet, and the controller's own."""

    view: View
    rules: Rules
    has_session: Callable[[int], bool] = lambda _: False  # whether the broker of this id was heard of lately
