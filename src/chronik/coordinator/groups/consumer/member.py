"""A member of a consumer group: what it subscribes to, and which partitions it has, by epoch.

A value: decisions make another one, and only replayed records put it into the group. A member that still uses the
classic protocol has `classic`; its member epoch is what it calls generation.
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

JOINS: Final = 0  # the epoch of a member that joins
LEAVES: Final = -1  # of one that leaves
LEAVES_FOR_A_WHILE: Final = -2  # of a static one that will come back
NAME_BYTES: Final = 64  # of a short string or a topic's entry, besides its text
PARTITION_BYTES: Final = 100  # of a partition that a member has, with its epoch, and as a target

# Topic id -> partition -> the epoch since which the member has it.
Owned = Mapping[bytes, Mapping[int, int]]
# Topic id -> partitions.
Target = Mapping[bytes, frozenset[int]]
NOTHING_OWNED: Final[Owned] = {}
NO_TARGET: Final[Target] = {}


class MemberState(IntEnum):
    """By the numbers in the log."""

    STABLE = 0  # has what the target of its epoch gives it
    UNREVOKED = 1  # has to give up partitions before its epoch may rise
    UNRELEASED = 2  # waits for partitions that others have not given up yet
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
    topics: frozenset[str] = frozenset()  # by name
    regex: str = ""  # "": none
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    assigned: Owned = NOTHING_OWNED
    revoking: Owned = NOTHING_OWNED  # asked back, and still the member's until it has given them up
    classic: ClassicMemberMetadata | None = None

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def epoch_of(self, topic_id: bytes, partition: int) -> int | None:
        """Since which epoch it has the partition; None if it does not."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.revoking.get(topic_id, {}).get(partition) if epoch is None else epoch

    @property
    def size_bytes(self) -> int:
        """What is remembered of it."""
        texts = (self.member_id, self.instance_id or "", self.rack_id or "", self.client_id, self.regex)
        size_bytes = MEMBER_BYTES + sum(map(len, texts))
        size_bytes += sum(NAME_BYTES + len(topic) for topic in self.topics)
        size_bytes += PARTITION_BYTES * (count(self.assigned) + count(self.revoking))
        if self.classic is not None:
            offered = self.classic.supported_protocols
            size_bytes += sum(PROTOCOL_BYTES + len(each.name) + len(each.metadata) for each in offered)
        return size_bytes

    # --- as the log has it

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
    """Older releases of Kafka wrote no epoch for each partition: then the member's own counts."""
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
