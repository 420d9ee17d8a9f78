"""A member of a share group: what it subscribes to, and which partitions it reads.

A value: decisions make another one, and only replayed records put it into the group. Members share partitions, so
nobody waits for anybody: a member goes to its target in one step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from chronik.coordinator.groups.member_memory import MEMBER_BYTES
from chronik.wire.messages.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TopicPartition,
    TopicPartitions,
)

JOINS: Final = 0  # the epoch of a member that joins
LEAVES: Final = -1  # of one that leaves
STABLE: Final = 0  # the only state that is written
NAME_BYTES: Final = 64  # of a topic's entry, besides its text
PARTITION_BYTES: Final = 40  # of a partition that a member has, and has as its target

Partitions = Mapping[bytes, frozenset[int]]  # by topic id
NOTHING: Final[Partitions] = {}


class _Stored(Protocol):
    topic_id: bytes
    partitions: list[int]


class Member(NamedTuple):
    member_id: str
    member_epoch: int = JOINS
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()  # by name
    assigned: Partitions = NOTHING

    @property
    def size_bytes(self) -> int:
        texts = (self.member_id, self.rack_id or "", self.client_id, self.client_host)
        names = sum(NAME_BYTES + len(name) for name in self.topics)
        return MEMBER_BYTES + sum(map(len, texts)) + names + PARTITION_BYTES * count(self.assigned)

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> Member:
        return self._replace(
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> Member:
        return self._replace(
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=partitions_of(value.assigned_partitions),
        )

    def to_metadata(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
        )

    def to_assignment(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(parts))
                for topic_id, parts in sorted(self.assigned.items())
            ],
        )


def count(partitions: Mapping[bytes, Collection[int]]) -> int:
    return sum(map(len, partitions.values()))


def partitions_of(stored: Iterable[_Stored]) -> Partitions:
    return {each.topic_id: frozenset(each.partitions) for each in stored if each.partitions}


def stored_target(target: Partitions) -> list[TopicPartition]:
    return [
        TopicPartition(topic_id=topic_id, partitions=sorted(parts))
        for topic_id, parts in sorted(target.items())
        if parts
    ]
