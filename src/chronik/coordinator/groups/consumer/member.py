"""A member of a consumer group: its subscription, and its partitions with their epochs.

It is an immutable value: decisions create a new one, and only replayed records change the group. A member with the
classic protocol has `classic`; its generation is its member epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from chronik.coordinator.groups.member_memory import MEMBER_BYTES, PROTOCOL_BYTES
from chronik.wire.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartition,
    TopicPartitions,
)

JOINS: Final = 0  # the epoch of a joining member
LEAVES: Final = -1  # of a leaving member
LEAVES_FOR_A_WHILE: Final = -2  # of a static member that will return
NAME_BYTES: Final = 64  # memory of a short string or a topic's entry, in addition to the text
PARTITION_BYTES: Final = 100  # memory of one partition of a member: its epoch and the target

# Topic id -> partition -> the epoch in which the member got it.
Owned = Mapping[bytes, Mapping[int, int]]
# Topic id -> partitions.
Target = Mapping[bytes, frozenset[int]]
NOTHING_OWNED: Final[Owned] = {}
NO_TARGET: Final[Target] = {}


class MemberState(IntEnum):
    """The numbers in the log."""

    STABLE = 0  # has reached the target of its epoch
    UNREVOKED = 1  # must revoke partitions before its epoch can rise
    UNRELEASED = 2  # waits for partitions that other members have not released yet
    UNKNOWN = 127  # written by a newer release


_STATES: Final = {int(state): state for state in MemberState}


class Member(NamedTuple):
    member_id: str
    member_epoch: int = JOINS
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()  # subscribed by name
    regex: str = ""  # "": none
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    revoking: Owned = NOTHING_OWNED  # to be revoked; they belong to the member until it has revoked them
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which the member got the partition; None if it does not have it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    @property
    def size_bytes(self) -> int:
        """The memory that this member's data takes."""
        texts = (self.member_id, self.instance_id or "", self.rack_id or "", self.client_id, self.regex)
        size_bytes = MEMBER_BYTES + sum(map(len, texts))
        size_bytes += sum(NAME_BYTES + len(topic) for topic in self.topics)
        size_bytes += PARTITION_BYTES * (count(self.assigned) + count(self.revoking))
        if self.classic is not None:
            offered = self.classic.supported_protocols
            size_bytes += sum(PROTOCOL_BYTES + len(each.name) + len(each.metadata) for each in offered)
        return size_bytes

    # --- replay

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> Member:
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
        return self._replace(
            member_epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_owned(value.assigned_partitions, value.member_epoch),
            revoking=_owned(value.partitions_pending_revocation, value.member_epoch),
        )

    def to_metadata(self) -> ConsumerGroupMemberMetadataValue:
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def to_assignment(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=_with_epochs(self.assigned),
            partitions_pending_revocation=_with_epochs(self.revoking),
        )


def count(owned: Owned) -> int:
    return sum(map(len, owned.values()))


def target_of(stored: Iterable[TopicPartition]) -> Target:
    return {each.topic_id: frozenset(each.partitions) for each in stored}


def stored_target(target: Target) -> list[TopicPartition]:
    return [TopicPartition(topic_id=topic_id, partitions=sorted(parts)) for topic_id, parts in sorted(target.items())]


def _owned(stored: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """Older releases of Kafka wrote no epoch per partition: then the member's epoch counts."""
    owned = {}
    for each in stored:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        owned[each.topic_id] = dict(zip(each.partitions, epochs, strict=True))
    return owned


def _with_epochs(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id, partitions=sorted(parts), assignment_epochs=[parts[p] for p in sorted(parts)]
        )
        for topic_id, parts in sorted(owned.items())
    ]
