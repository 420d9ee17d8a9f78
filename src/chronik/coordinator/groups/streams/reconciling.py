"""How one member gets from what it has to its target: give up first, then take over.

    STABLE ---------> UNREVOKED    it has tasks that the target gives to somebody else; its epoch stays
    any ------------> UNRELEASED   its epoch is the target's; it waits for tasks that others still have
    any ------------> STABLE       it has its target

An active task is free when nobody has it as active, and the member's own process has it in no role: the state on disk
belongs to the process. A task in another role is free when the member's own process has it in no role. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from chronik.coordinator.groups.streams.member import Member, MemberState
from chronik.coordinator.groups.streams.tasks import NOTHING_HELD, DatedTasks, HeldTasks, Tasks, TaskSet

IsHeld = Callable[[str, int], bool]


class Holders(Protocol):
    """Who has a task, or has to give it up still."""

    def has_active(self, subtopology: str, partition: int) -> bool:
        """Whether any member has it as active."""

    def process_has(self, process_id: str, subtopology: str, partition: int) -> bool:
        """Whether any member of this process has it, in whatever role."""


def reconcile(member: Member, target_epoch: int, target: Tasks, holders: Holders, named: Tasks | None) -> Member:
    """The member after this heartbeat. `named` is what the client says that it has; None: it did not say."""
    if member.state is MemberState.STABLE:
        if member.member_epoch == target_epoch:
            return member
        return _next(member, member.member_epoch, target_epoch, target, holders, named)
    if member.state is MemberState.UNREVOKED:
        if named is None or named.touches(member.revoking):
            return member
        return _next(member, member.member_epoch + 1, target_epoch, target, holders, named)
    return _next(member, member.member_epoch, target_epoch, target, holders, named)


def _next(
    member: Member, epoch: int, target_epoch: int, target: Tasks, holders: Holders, named: Tasks | None
) -> Member:
    def active_is_held(subtopology: str, partition: int) -> bool:
        return holders.has_active(subtopology, partition) or is_in_process(subtopology, partition)

    def is_in_process(subtopology: str, partition: int) -> bool:
        return holders.process_has(member.process_id, subtopology, partition)

    has = member.assigned
    active, revoked_active, active_waits = _dated_step(has.active, target.active, target_epoch, active_is_held)
    standby, revoked_standby, standby_waits = _step(has.standby, target.standby, is_in_process)
    warmup, revoked_warmup, warmup_waits = _step(has.warmup, target.warmup, is_in_process)
    revoking = HeldTasks(revoked_active, revoked_standby, revoked_warmup)
    if revoking.size and (named is None or named.touches(revoking)):
        kept = HeldTasks(
            {name: parts for name, parts in _kept_dated(has.active, target.active).items() if parts},
            _kept(has.standby, target.standby),
            _kept(has.warmup, target.warmup),
        )
        return member._replace(
            state=MemberState.UNREVOKED,
            previous_epoch=member.member_epoch,
            member_epoch=epoch,
            assigned=kept,
            revoking=revoking,
        )
    waits = active_waits or standby_waits or warmup_waits
    return member._replace(
        state=MemberState.UNRELEASED if waits else MemberState.STABLE,
        previous_epoch=member.member_epoch,
        member_epoch=target_epoch,
        assigned=HeldTasks(active, standby, warmup),
        revoking=NOTHING_HELD,
    )


def _kept_dated(has: DatedTasks, wanted: TaskSet) -> dict[str, dict[int, int]]:
    return {
        name: {partition: epoch for partition, epoch in parts.items() if partition in wanted.get(name, ())}
        for name, parts in has.items()
    }


def _kept(has: TaskSet, wanted: TaskSet) -> dict[str, frozenset[int]]:
    return {name: kept for name, parts in has.items() if (kept := parts & wanted.get(name, frozenset()))}


def _dated_step(has: DatedTasks, wanted: TaskSet, epoch: int, is_held: IsHeld) -> tuple[DatedTasks, DatedTasks, bool]:
    """What is had afterwards, what has to be given up for that, and whether something has to be waited for."""
    after = {name: parts for name, parts in _kept_dated(has, wanted).items() if parts}
    revoked: dict[str, Mapping[int, int]] = {}
    for name, parts in has.items():
        gone = {partition: since for partition, since in parts.items() if partition not in wanted.get(name, ())}
        if gone:
            revoked[name] = gone
    waits = False
    for name, partitions in wanted.items():
        for partition in sorted(partitions - has.get(name, {}).keys()):
            if is_held(name, partition):
                waits = True
            else:
                after.setdefault(name, {})[partition] = epoch
    return after, revoked, waits


def _step(has: TaskSet, wanted: TaskSet, is_held: IsHeld) -> tuple[TaskSet, TaskSet, bool]:
    after = _kept(has, wanted)
    revoked = {name: gone for name, parts in has.items() if (gone := parts - wanted.get(name, frozenset()))}
    waits = False
    for name, partitions in wanted.items():
        missing = partitions - has.get(name, frozenset())
        free = frozenset(partition for partition in missing if not is_held(name, partition))
        waits = waits or len(free) < len(missing)
        if free:
            after[name] = after.get(name, frozenset()) | free
    return after, revoked, waits
