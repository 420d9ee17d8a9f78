"""Requests of group members as pure decisions: records come back to the caller, and nothing is written on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.shard import GroupShard
from chronik.coordinator.open_transactions import Producer
from chronik.coordinator.shard import CoordinatorRecord, Decision, OnWritten
from chronik.coordinator.timers import Timers
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import GroupMetadataValue
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from chronik.wire.records import ControlType
from tests.coordinator.virtual import FakeCaller, FakeClock, FakeRandomness, run_virtually

NONE = ErrorCode.NONE


class NoWriter:
    """Fails the test when a shard writes by itself."""

    def write(self, records: list[CoordinatorRecord], written: OnWritten, *, producer: Producer | None = None) -> bool:
        raise AssertionError(f"the shard wrote {records}")

    def end_transaction(
        self, producer: Producer, outcome: ControlType, coordinator_epoch: int, written: OnWritten
    ) -> None:
        raise AssertionError("the shard ended a transaction")

    def when_settled(self, settled: OnWritten) -> None:
        settled(NONE)

    def unsettled(self) -> Iterator[CoordinatorRecord]:
        return iter(())


def join(shard: GroupShard, replies: list[JoinGroupResponse], member_id: str = "") -> Decision:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return shard.classic.join(request, FakeCaller(9), replies.append)


def sync(shard: GroupShard, joined: JoinGroupResponse, replies: list[SyncGroupResponse]) -> Decision:
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id="static",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
    )
    return shard.classic.sync(request, replies.append)


def commit(shard: GroupShard, decision: Decision, error: ErrorCode = NONE) -> None:
    """Does with a decision what the runtime does."""
    if error is NONE:
        for offset, record in enumerate(decision.records):
            shard.replay(record, offset)
    decision.written(error)


def play(story: Callable[[GroupShard, JoinGroupResponse], None]) -> None:
    """The story begins after the only member's first join was answered."""
    clock = FakeClock()

    async def begun() -> None:
        config = GroupsConfig(initial_rebalance_delay_ms=0)
        timers = Timers(clock)
        shard = GroupShard(config, clock, FakeRandomness(), NoWriter(), timers)
        joins: list[JoinGroupResponse] = []
        assert join(shard, joins).records == []
        timers._run_due(clock.monotonic_ns())  # the initial delay is over
        story(shard, joins[0])
        timers.clear()

    run_virtually(begun(), clock)


def stored(decision: Decision) -> Any:
    [record] = decision.records
    assert isinstance(record.value, GroupMetadataValue)
    return record.value


def test_the_leaders_sync_returns_the_assignment_and_is_answered_when_it_is_committed() -> None:
    """An assignment that members act upon must survive the coordinator."""

    def story(shard: GroupShard, joined: JoinGroupResponse) -> None:
        replies: list[SyncGroupResponse] = []
        decision = sync(shard, joined, replies)
        assert [member.assignment for member in stored(decision).members] == [b"all"]
        assert replies == []
        commit(shard, decision)
        assert [(reply.error_code, reply.assignment) for reply in replies] == [(NONE, b"all")]

    play(story)


def test_an_assignment_is_decided_once_in_a_generation() -> None:
    """An impatient leader's second SyncGroup waits for the record of the first one, and writes none itself."""

    def story(shard: GroupShard, joined: JoinGroupResponse) -> None:
        first, second = [], []
        decision = sync(shard, joined, first)
        assert sync(shard, joined, second).records == []
        commit(shard, decision)
        assert ([reply.error_code for reply in first], [reply.error_code for reply in second]) == (
            [ErrorCode.REBALANCE_IN_PROGRESS],
            [NONE],
        )

    play(story)


def test_an_assignment_that_cannot_be_written_sends_the_members_back() -> None:
    def story(shard: GroupShard, joined: JoinGroupResponse) -> None:
        replies: list[SyncGroupResponse] = []
        commit(shard, sync(shard, joined, replies), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert [reply.error_code for reply in replies] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert shard.groups["g"].state == "PreparingRebalance"

    play(story)


def test_a_static_member_that_returns_is_told_its_new_id_when_the_id_is_committed() -> None:
    """Told before, it would be unknown to the next coordinator, and its place taken by its old id."""

    def story(shard: GroupShard, joined: JoinGroupResponse) -> None:
        commit(shard, sync(shard, joined, []))
        joins: list[JoinGroupResponse] = []
        decision = join(shard, joins)
        [member] = stored(decision).members
        assert (member.group_instance_id, member.member_id != joined.member_id, joins) == ("static", True, [])
        commit(shard, decision)
        assert [(reply.error_code, reply.member_id) for reply in joins] == [(NONE, member.member_id)]

    play(story)
