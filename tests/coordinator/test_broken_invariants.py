"""Invalid states of a group, created on purpose: the next step stops the node before members see them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.members import Member
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.timers import Timers
from chronik.runtime.invariants import InvariantBroken
from tests.raft.virtual_time import LoopClock, run

Break = Callable[[ClassicGroup], object]


def member(member_id: str, instance_id: str | None = None, protocol: str = "range") -> Member:
    return Member(
        member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1000,
        session_timeout_ms=1000,
        protocols=((protocol, b""),),
    )


def group() -> ClassicGroup:
    """A round of joining with the members a (static) and b."""
    made = ClassicGroup("g", MemberMemory())
    made.transition(GroupState.PREPARING, 0)
    made.add(member("a", "one"), "consumer")
    made.add(member("b"), "consumer")
    return made


def begin(change: Break) -> Break:
    def act(made: ClassicGroup) -> None:
        change(made)
        made.begin_generation(1)

    return act


BROKEN: dict[str, tuple[str, Break]] = {
    "a step it does not have": ("30 a group", lambda made: made.transition(GroupState.STABLE, 0)),
    "a generation out of nowhere": (
        "18 a generation begins",
        begin(lambda made: setattr(made, "state", GroupState.STABLE)),
    ),
    "members and no leader": ("18 a group with members", begin(lambda made: setattr(made, "leader_id", None))),
    "a leader that is no member": ("18 a group's leader", begin(lambda made: setattr(made, "leader_id", "x"))),
    "more joins than members": ("27 a member waits", begin(lambda made: setattr(made, "joined_count", 3))),
    "a member that is still to come": ("18 who has joined", begin(lambda made: made.pending_joins.update(b=None))),
    "a generation below 0": ("18 generations are counted", begin(lambda made: setattr(made, "generation", -5))),
    "static ids of nobody": ("18 a static id", begin(lambda made: made.static_members.update(x="x", y="y"))),
    "a protocol that nobody has": ("18 all members support", begin(lambda made: made._supporters.clear())),
    "a member twice": ("18 a member joins once", lambda made: made.add(member("b"), "consumer")),
    "a static id twice": ("18 a static id", lambda made: made.add(member("c", "one"), "consumer")),
    "an id given twice": ("18 a member's id", lambda made: made.await_id("b")),
    "a dynamic member is replaced": ("18 only static", lambda made: made.replace_static("b", "c")),
    "a successor that is there": ("18 a member's id", lambda made: made.replace_static("a", "b")),
    "an assignment of some": ("18 an assignment", lambda made: made.to_stored({"a": b""})),
    "a protocol uncounted": ("26 protocols", lambda made: made._count_protocols((("other", b""),), -1)),
    "a join answered twice": ("27 a join", lambda made: answered_twice(made)),
}


def answered_twice(made: ClassicGroup) -> None:
    first = made.members["b"]
    made.await_join(first, lambda response: None)
    made.joined_count = 0
    made.remove("b")


@pytest.mark.parametrize("what", BROKEN)
def test_a_group_that_cannot_be_stops_the_node(what: str) -> None:
    promise, act = BROKEN[what]
    with pytest.raises(InvariantBroken, match=rf"invariant {promise}.*\(group g"):
        act(group())


def test_generations_never_go_back_in_the_log() -> None:
    """A member of the later generation would count as one of an earlier generation."""
    made = group()
    made.begin_generation(1)
    made.stored = made.to_stored({"a": b"", "b": b""})
    made.generation = 0
    with pytest.raises(InvariantBroken, match="18 generations only go up"):
        made.to_stored({"a": b"", "b": b""})


def test_members_give_back_no_more_memory_than_they_hold() -> None:
    memory = MemberMemory()
    memory.change(10)
    with pytest.raises(InvariantBroken, match=r"26 no member gives back more than it held \(held -1, change -11\)"):
        memory.change(-11)


def test_a_deadline_has_its_place_in_the_queue() -> None:
    """Otherwise a session would never end."""

    async def story() -> None:
        timers = Timers(LoopClock())
        timers.set("a", 1000, lambda: None)
        timers._queued_ns["a"] = 1 << 62
        timers._deadlines["b"] = timers._deadlines["a"]
        with pytest.raises(InvariantBroken, match="25 every deadline has its place in the queue"):
            timers._wake()
        timers.clear()

    run(story)
