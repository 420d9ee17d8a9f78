"""A member of a streams group: one thread of an application, its process, and which tasks it has, by epoch.

A value: decisions make another one, and only replayed records put it into the group.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from chronik.coordinator.groups.member_memory import MEMBER_BYTES
from chronik.coordinator.groups.streams.tasks import (
    NOTHING_HELD,
    DatedTasks,
    HeldTasks,
    Tasks,
    TaskSet,
    count,
    task_set,
)
from chronik.wire.messages.streams_group_records import (
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    TargetTaskIds,
)

JOINS: Final = 0  # the epoch of a member that joins
LEAVES: Final = -1  # of one that leaves
LEAVES_FOR_A_WHILE: Final = -2  # of a static one, which streams groups do not have
TASK_BYTES: Final = 100  # of a task that a member has, with its epoch, and as a target


class MemberState(IntEnum):
    """By the numbers in the log."""

    STABLE = 1  # has what the target of its epoch gives it
    UNREVOKED = 2  # has to give up tasks before its epoch may rise
    UNRELEASED = 3  # waits for tasks that others have not given up yet
    UNKNOWN = 127  # written by a newer release


_STATES: Final = {int(state): state for state in MemberState}


class Member(NamedTuple):
    member_id: str
    member_epoch: int = JOINS
    previous_epoch: int = 0
    instance_id: str | None = None  # none; kept for records of a newer release
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: tuple[str, int] | None = None  # where the application answers queries
    tags: tuple[tuple[str, str], ...] = ()
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NOTHING_HELD
    revoking: HeldTasks = NOTHING_HELD  # asked back, and still the member's until it has given them up

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def epoch_of(self, subtopology: str, partition: int) -> int | None:
        """Since which epoch it has the active task; None if it does not."""
        epoch = self.assigned.active.get(subtopology, {}).get(partition)
        return self.revoking.active.get(subtopology, {}).get(partition) if epoch is None else epoch

    @property
    def size_bytes(self) -> int:
        """What is remembered of it."""
        texts = [self.member_id, self.rack_id or "", self.client_id, self.process_id]
        texts += [text for tag in self.tags for text in tag]
        size_bytes = MEMBER_BYTES + sum(map(len, texts)) + len(self.endpoint[0] if self.endpoint else "")
        return size_bytes + TASK_BYTES * (self.assigned.size + self.revoking.size)

    # --- as the log has it

    def with_metadata(self, value: StreamsGroupMemberMetadataValue) -> Member:
        return self._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            endpoint=None if value.user_endpoint is None else (value.user_endpoint.host, value.user_endpoint.port),
            tags=tuple((tag.key, tag.value) for tag in value.client_tags),
        )

    def with_assignment(self, value: StreamsGroupCurrentMemberAssignmentValue) -> Member:
        epoch = value.member_epoch
        return self._replace(
            member_epoch=epoch,
            previous_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=HeldTasks(
                _dated(value.active_tasks, epoch), task_set(value.standby_tasks), task_set(value.warmup_tasks)
            ),
            revoking=HeldTasks(
                _dated(value.active_tasks_pending_revocation, epoch),
                task_set(value.standby_tasks_pending_revocation),
                task_set(value.warmup_tasks_pending_revocation),
            ),
        )

    def to_metadata(self) -> StreamsGroupMemberMetadataValue:
        return StreamsGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            topology_epoch=self.topology_epoch,
            process_id=self.process_id,
            user_endpoint=None if self.endpoint is None else Endpoint(host=self.endpoint[0], port=self.endpoint[1]),
            client_tags=[KeyValue(key=key, value=value) for key, value in self.tags],
        )

    def to_assignment(self) -> StreamsGroupCurrentMemberAssignmentValue:
        return StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            active_tasks=_with_epochs(self.assigned.active),
            standby_tasks=_current(self.assigned.standby),
            warmup_tasks=_current(self.assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(self.revoking.active),
            standby_tasks_pending_revocation=_current(self.revoking.standby),
            warmup_tasks_pending_revocation=_current(self.revoking.warmup),
        )


def target_of(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(task_set(value.active_tasks), task_set(value.standby_tasks), task_set(value.warmup_tasks))


def stored_target(target: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target(target.active), standby_tasks=_target(target.standby), warmup_tasks=_target(target.warmup)
    )


def target_bytes(target: Tasks) -> int:
    return TASK_BYTES * (count(target.active) + count(target.standby) + count(target.warmup))


def _dated(stored: Iterable[CurrentTaskIds], member_epoch: int) -> DatedTasks:
    """Older releases of Kafka wrote no epoch for each task: then the member's own counts."""
    held = {}
    for each in stored:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        held[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return held


def _with_epochs(held: DatedTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=subtopology, partitions=sorted(parts), assignment_epochs=[parts[p] for p in sorted(parts)]
        )
        for subtopology, parts in sorted(held.items())
    ]


def _current(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=subtopology, partitions=sorted(parts), assignment_epochs=None)
        for subtopology, parts in sorted(tasks.items())
    ]


def _target(tasks: TaskSet) -> list[TargetTaskIds]:
    return [TargetTaskIds(subtopology_id=name, partitions=sorted(parts)) for name, parts in sorted(tasks.items())]
