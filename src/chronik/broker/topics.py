"""Finds what a request names, for handlers: topics by name or id, and replicas of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.coordinators import INTERNAL
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.metadata.errors import MetadataError
    from chronik.metadata.image import Topic
    from chronik.replication.replica import Replica

INTERNAL_TOPICS = frozenset(INTERNAL)


def find_topic(services: Services, name: str, topic_id: bytes, *, by_id: bool = False) -> Topic | ErrorCode:
    """Finds the topic by id if the request contains one, or can only contain ids; else by name."""
    image = services.store.image
    if by_id or topic_id != ZERO_UUID:
        return image.topics.get(topic_id) or ErrorCode.UNKNOWN_TOPIC_ID
    return image.topics_by_name.get(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def refused_by(fault: MetadataError) -> tuple[ErrorCode, str]:
    """The client's error when the metadata store could not execute its command."""
    return fault.kafka_error, str(fault)


def find_replica(services: Services, topic: Topic, index: int) -> Replica | ErrorCode:
    """The replica on this node, or the error if there is none."""
    replica = services.replicas.get(topic, index)
    return why_no_replica(topic, index) if replica is None else replica


def why_no_replica(topic: Topic, index: int) -> ErrorCode:
    """The client's error for a partition without a replica on this node."""
    if 0 <= index < len(topic.partitions):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
