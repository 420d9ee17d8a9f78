"""From what a member has to its target, one heartbeat after the other. An active task has one owner at any moment."""

from __future__ import annotations

from random import Random

import pytest

from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.streams import records
from chronik.coordinator.groups.streams.assignor import Work, Worker, assign
from chronik.coordinator.groups.streams.group import StreamsGroup
from chronik.coordinator.groups.streams.member import Member, MemberState
from chronik.coordinator.groups.streams.reconciling import reconcile
from chronik.coordinator.groups.streams.tasks import NOTHING, NOTHING_HELD, HeldTasks, Tasks

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED


def tasks(*partitions: int) -> dict[str, frozenset[int]]:
    return {"0": frozenset(partitions)} if partitions else {}


def dated(epoch: int, *partitions: int) -> dict[str, dict[int, int]]:
    return {"0": dict.fromkeys(partitions, epoch)} if partitions else {}


class Nobody:
    """No other member has anything."""

    def __init__(self, *, active: set[int] | None = None, own: set[int] | None = None) -> None:
        self.active, self.own = active or set(), own or set()

    def has_active(self, subtopology: str, partition: int) -> bool:
        return partition in self.active

    def process_has(self, process_id: str, subtopology: str, partition: int) -> bool:
        return partition in self.own


def member(state: MemberState, epoch: int, has: HeldTasks = NOTHING_HELD, revoking: HeldTasks = NOTHING_HELD) -> Member:
    return Member("m", epoch, epoch - 1, process_id="p", state=state, assigned=has, revoking=revoking)


CASES: dict[str, tuple[Member, Tasks, Tasks | None, Nobody, tuple[MemberState, int, HeldTasks, HeldTasks]]] = {
    "a member takes over what is free": (
        member(STABLE, 4),
        Tasks(tasks(0, 1), tasks(2)),
        None,
        Nobody(),
        (STABLE, 5, HeldTasks(dated(5, 0, 1), tasks(2)), NOTHING_HELD),
    ),
    "it waits for what another member has": (
        member(STABLE, 4),
        Tasks(tasks(0, 1)),
        None,
        Nobody(active={1}),
        (UNRELEASED, 5, HeldTasks(dated(5, 0)), NOTHING_HELD),
    ),
    "it gives up first, at its old epoch": (
        member(STABLE, 4, HeldTasks(dated(3, 0, 1))),
        Tasks(tasks(1, 2)),
        None,
        Nobody(),
        (UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
    ),
    "unless it says that it has given up already": (
        member(STABLE, 4, HeldTasks(dated(3, 0, 1))),
        Tasks(tasks(1, 2)),
        Tasks(tasks(1)),
        Nobody(),
        (STABLE, 5, HeldTasks({"0": {1: 3, 2: 5}}), NOTHING_HELD),
    ),
    "without a word it stays where it is": (
        member(UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
        Tasks(tasks(1, 2)),
        None,
        Nobody(),
        (UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
    ),
    "still having one of them, too": (
        member(UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
        Tasks(tasks(1, 2)),
        Tasks(tasks(0, 1)),
        Nobody(),
        (UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
    ),
    "having given up it goes on": (
        member(UNREVOKED, 4, HeldTasks(dated(3, 1)), HeldTasks(dated(3, 0))),
        Tasks(tasks(1, 2)),
        Tasks(tasks(1)),
        Nobody(),
        (STABLE, 5, HeldTasks({"0": {1: 3, 2: 5}}), NOTHING_HELD),
    ),
    "the same task in another role is given up first": (
        member(STABLE, 4, HeldTasks(standby=tasks(0))),
        Tasks(tasks(0)),
        None,
        Nobody(own={0}),
        (UNREVOKED, 4, NOTHING_HELD, HeldTasks(standby=tasks(0))),
    ),
    "a standby waits while a thread of its process has the task": (
        member(STABLE, 4),
        Tasks(standby=tasks(0, 1)),
        None,
        Nobody(own={0}),
        (UNRELEASED, 5, HeldTasks(standby=tasks(1)), NOTHING_HELD),
    ),
    "a standby does not wait for the active of another process": (
        member(STABLE, 4),
        Tasks(standby=tasks(0)),
        None,
        Nobody(active={0}),
        (STABLE, 5, HeldTasks(standby=tasks(0)), NOTHING_HELD),
    ),
    "a waiting member gets what became free": (
        member(UNRELEASED, 5, HeldTasks(dated(5, 0))),
        Tasks(tasks(0, 1)),
        None,
        Nobody(),
        (STABLE, 5, HeldTasks(dated(5, 0, 1)), NOTHING_HELD),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_step(name: str) -> None:
    before, target, named, holders, (state, epoch, assigned, revoking) = CASES[name]
    after = reconcile(before, 5, target, holders, named)
    assert (after.state, after.member_epoch, after.assigned, after.revoking) == (state, epoch, assigned, revoking)


def test_members_reach_every_new_target_and_never_share_an_active_task() -> None:
    """The group checks the owners of each task at every replayed record. Targets change before the last is reached."""
    random = Random(11)
    for _ in range(60):
        group = StreamsGroup("g", MemberMemory())
        ids = [f"m{number}" for number in range(4)]
        for number, member_id in enumerate(ids):
            made = Member(member_id, process_id=f"p{number % 2}")
            group.replay(records.member_record("g", made))
        epoch = 1
        for _ in range(3):
            epoch += 1
            present = random.sample(ids, random.randrange(1, 5))
            work = {"0": Work(random.randrange(1, 8), is_stateful=True)}
            workers = [
                Worker(each, group.members[each].process_id, group.targets.get(each, NOTHING)) for each in present
            ]
            found = assign(workers, work, random.randrange(2))
            group.replay(records.epoch_record("g", epoch, 0, 0, 0))
            for each in ids:
                group.replay(records.target_record("g", each, found.get(each, NOTHING)))
            group.replay(records.target_epoch_record("g", epoch, 0))
            for _ in range(random.choice((2, 20))):
                _beat(group, random.choice(ids), honest=random.random() < 0.8)
        for _ in range(6):
            for each in ids:
                _beat(group, each, honest=True)
        for each in ids:
            assert group.members[each].is_reconciled_to(epoch), each
            assert _as_target(group.members[each].assigned) == group.targets[each]


def _beat(group: StreamsGroup, member_id: str, *, honest: bool) -> None:
    before = group.members[member_id]
    named = _as_target(before.assigned) if honest else None
    after = reconcile(before, group.target_epoch, group.targets.get(member_id, NOTHING), group, named)
    if after != before:
        assert after.member_epoch >= before.member_epoch
        group.replay(records.current_record(group.group_id, after))


def _as_target(held: HeldTasks) -> Tasks:
    return Tasks({name: frozenset(parts) for name, parts in held.active.items()}, held.standby, held.warmup)
