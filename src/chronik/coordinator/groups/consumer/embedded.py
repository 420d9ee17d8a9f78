"""The data of classic consumers in the opaque bytes of JoinGroup and SyncGroup, as far as a consumer group needs it.

It consists of an int16 version and the message in that version. An unknown newer version is read as the newest known
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from chronik.coordinator.groups.consumer.member import Target
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.errors import MalformedMessage
from chronik.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

PROTOCOL_TYPE: Final = "consumer"
NEWEST: Final = 3
_VERSION = Struct(">h")


class CustomAssignor(Exception):
    """The assignment carries data for a client-side assignor."""


class Subscription(NamedTuple):
    topics: frozenset[str]
    owned: Mapping[str, list[int]]
    rack_id: str | None


def version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage("ConsumerProtocol", 0, "version", 0, f"{len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessage("ConsumerProtocol", version, "version", 0, "versions are not negative")
    return min(version, NEWEST)


def subscription(data: bytes) -> Subscription:
    version = version_of(data)
    read, _ = decoder_of(ConsumerProtocolSubscription, version)(memoryview(data), _VERSION.size)
    owned = {each.topic: list(each.partitions) for each in read.owned_partitions or ()}
    return Subscription(frozenset(read.topics), owned, read.rack_id)


def assignment(data: bytes) -> dict[str, list[int]]:
    read, _ = decoder_of(ConsumerProtocolAssignment, version_of(data))(memoryview(data), _VERSION.size)
    if read.user_data:
        raise CustomAssignor
    return {each.topic: list(each.partitions) for each in read.assigned_partitions}


def encoded_assignment(named: Mapping[str, list[int]], version: int) -> bytes:
    parts = [_VERSION.pack(version)]
    partitions = [TopicPartition(topic=topic, partitions=named[topic]) for topic in sorted(named)]
    encoder_of(ConsumerProtocolAssignment, version)(ConsumerProtocolAssignment(assigned_partitions=partitions), parts)
    return b"".join(parts)


def named(target: Target | Mapping[bytes, Mapping[int, int]], topics: Topics) -> dict[str, list[int]]:
    """The assignment by topic name. Omits deleted topics."""
    found = {}
    for topic_id, partitions in target.items():
        name = topics.name_of(topic_id)
        if name is not None:
            found[name] = sorted(partitions)
    return found
