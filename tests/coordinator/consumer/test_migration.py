"""Groups that change between the classic and the consumer protocol while members of both read."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from chronik.coordinator.groups import GroupsConfig
from chronik.coordinator.groups.config import MigrationPolicy
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.consumer.cluster import AT_ONCE, GROUP, REBALANCE_MS, Owned, Shard, parts
from tests.coordinator.virtual import FakeCaller, let_everything_happen

SESSION_MS = 10_000


def subscription(topics: Sequence[str], owned: Owned | None = None) -> bytes:
    held = [TopicPartition(topic=name, partitions=indexes) for name, indexes in (owned or {}).items()]
    return b"\0\1" + encode(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=held), 1)


def assignment(owned: Owned) -> bytes:
    given = [TopicPartition(topic=name, partitions=indexes) for name, indexes in owned.items()]
    return b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=given), 1)


def assigned(data: bytes) -> Owned:
    read = decode(ConsumerProtocolAssignment, 1, data[2:])
    return {each.topic: list(each.partitions) for each in read.assigned_partitions}


class Classic:
    """A consumer with the classic protocol, which leads its group if it is elected."""

    def __init__(self, shard: Shard, instance_id: str | None = None) -> None:
        self.shard = shard
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: Owned = {}

    async def join(self, topics: Sequence[str] = ("t",)) -> ErrorCode:
        protocol = JoinGroupRequestProtocol(name="range", metadata=subscription(topics, self.owned))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        answer = await self._told(self.shard.coordinator.join_group(request, FakeCaller(9)))
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self.join(topics)
        if not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.leads = answer.leader == self.member_id
        return ErrorCode.of(answer.error_code)

    async def sync(self, given: Owned | None = None) -> ErrorCode:
        parts = [SyncGroupRequestAssignment(member_id=self.member_id, assignment=assignment(given or {}))]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=parts if given is not None else [],
        )
        answer = await self._told(self.shard.coordinator.sync_group(request, FakeCaller(5)))
        if not answer.error_code:
            self.owned = assigned(answer.assignment)
        return ErrorCode.of(answer.error_code)

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode.of(self.shard.coordinator.heartbeat(request, FakeCaller(4)).error_code)

    async def leave(self) -> ErrorCode:
        gone = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=GROUP, members=[gone])
        answer = await self._told(self.shard.coordinator.leave_group(request, FakeCaller(5)))
        return ErrorCode.of(answer.members[0].error_code)

    async def _told(self, answer: Any) -> Any:
        return await answer if isinstance(answer, asyncio.Future) else answer


async def alone(shard: Shard, instance_id: str | None = None) -> Classic:
    """A classic group with one member that has everything."""
    member = Classic(shard, instance_id)
    assert await member.join() is ErrorCode.NONE
    assert await member.sync({"t": [0, 1, 2, 3]}) is ErrorCode.NONE
    return member


def test_a_group_is_upgraded_and_downgraded_while_its_members_read() -> None:
    async def story(shard: Shard) -> None:
        old = await alone(shard)
        joined = shard.join("new")
        assert (shard.kind, joined.member_epoch, parts(joined)) == ("consumer", 2, {})
        assert shard.group.owner_of(shard.image.topic_named("t").topic_id, 3) == old.member_id  # type: ignore[union-attr]
        assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert await old.join() is ErrorCode.NONE
        assert (old.generation, old.leads) == (1, False), "it has to give up first"
        assert await old.sync() is ErrorCode.NONE
        assert old.owned == {"t": [0, 1]}
        assert parts(shard.beat("new", 2, {})) is None
        assert await old.join() is ErrorCode.NONE
        assert await old.sync() is ErrorCode.NONE
        assert (old.generation, old.owned) == (2, {"t": [0, 1]})
        assert parts(shard.beat("new", 2, {})) == {"t": [2, 3]}
        assert old.heartbeat() is ErrorCode.NONE
        await shard.fail_over()
        assert old.heartbeat() is ErrorCode.NONE
        assert shard.beat("new", -1).error_code == 0
        assert shard.kind == "classic"
        assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert await old.join() is ErrorCode.NONE
        assert old.leads, "it assigns itself again"
        assert await old.sync({"t": [0, 1, 2, 3]}) is ErrorCode.NONE
        await shard.fail_over()
        assert (shard.kind, old.heartbeat()) == ("classic", ErrorCode.NONE)

    Shard().play(story)


def test_the_group_is_downgraded_when_the_last_member_of_the_other_protocol_is_silent() -> None:
    async def story(shard: Shard) -> None:
        old = await alone(shard)
        shard.join("new")
        for _ in range(12):
            await asyncio.sleep(4)
            if old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
                assert await old.join() is ErrorCode.NONE
                assert await old.sync({}) is ErrorCode.NONE
        assert shard.kind == "classic"

    Shard().play(story)


def test_a_classic_member_that_does_not_join_again_is_out() -> None:
    async def story(shard: Shard) -> None:
        old = await alone(shard)
        shard.join("new")
        for _ in range(6):
            assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
            await asyncio.sleep(REBALANCE_MS / 6000)
        await asyncio.sleep(0.1)
        assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
        assert parts(shard.beat("new", 2, {})) == {"t": [0, 1, 2, 3]}

    Shard().play(story)


def test_a_classic_member_that_does_not_sync_is_out() -> None:
    async def story(shard: Shard) -> None:
        old = await alone(shard)
        shard.join("new")
        await old.join()
        for _ in range(3):
            await asyncio.sleep(SESSION_MS / 1000 - 3)
            old.heartbeat()
        assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID

    Shard().play(story)


def test_members_that_wait_for_a_round_are_asked_to_join_again_by_an_upgrade() -> None:
    async def story(shard: Shard) -> None:
        first = await alone(shard)
        second = Classic(shard)
        waiting = asyncio.ensure_future(second.join())
        await let_everything_happen()
        shard.join("new")
        assert await waiting is ErrorCode.REBALANCE_IN_PROGRESS
        assert (shard.kind, set(shard.group.members)) == ("consumer", {first.member_id, second.member_id, "new"})

    Shard().play(story)


def test_an_assignment_on_its_way_does_not_bring_the_classic_group_back() -> None:
    """It is committed after the group has been converted, and replayed then."""

    async def story(shard: Shard) -> None:
        old = Classic(shard)
        await old.join()
        shard.partition.commits_at_once = False
        syncing = asyncio.ensure_future(old.sync({"t": [0]}))
        await let_everything_happen()
        joining = shard.ask("new", 0, {}, **shard.joining())
        assert shard.kind == "consumer"
        shard.partition.commit()
        await let_everything_happen()
        assert shard.kind == "consumer"
        assert isinstance(joining, asyncio.Future)
        assert joining.result().error_code == 0
        assert await syncing is ErrorCode.REBALANCE_IN_PROGRESS
        await shard.fail_over()
        assert shard.kind == "consumer"

    Shard().play(story)


def test_a_conversion_that_the_log_refuses_leaves_the_classic_group() -> None:
    from tests.coordinator.virtual import Refused

    async def story(shard: Shard) -> None:
        old = await alone(shard)
        shard.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert shard.join("new").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (shard.kind, old.heartbeat()) == ("classic", ErrorCode.NONE)
        shard.partition.refuses_with = None
        shard.join("new")
        shard.partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert shard.beat("new", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert shard.kind == "consumer"
        shard.partition.refuses_with = None
        assert shard.beat("new", 2, {}).error_code == 0

    Shard().play(story)


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [
        (MigrationPolicy.BIDIRECTIONAL, True, True),
        (MigrationPolicy.UPGRADE, True, False),
        (MigrationPolicy.DOWNGRADE, False, False),
        (MigrationPolicy.DISABLED, False, False),
    ],
)
def test_the_policy_says_which_way_groups_may_go(policy: MigrationPolicy, upgrades: bool, downgrades: bool) -> None:
    config = GroupsConfig(
        consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0, consumer_migration_policy=policy
    )

    async def story(shard: Shard) -> None:
        await alone(shard)
        answer = shard.join("new")
        assert (answer.error_code == 0, shard.kind == "consumer") == (upgrades, upgrades)
        if upgrades:
            shard.beat("new", -1)
            assert (shard.kind == "classic") == downgrades
        else:
            assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    Shard(config).play(story)


def test_a_static_member_changes_its_protocol_and_keeps_its_partitions() -> None:
    """A rolling restart of one process at a time, with another group.protocol."""

    async def story(shard: Shard) -> None:
        old = await alone(shard, "one")
        upgraded = shard.join("new", instance_id="one")
        assert parts(upgraded) == {"t": [0, 1, 2, 3]}
        assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
        shard.join("other")
        back = Classic(shard, "one")
        assert await back.join() is ErrorCode.NONE
        assert set(shard.group.members) == {back.member_id, "other"}
        assert shard.beat("other", -1).error_code == 0
        assert shard.kind == "classic"

    Shard().play(story)


def test_the_last_member_of_the_other_protocol_is_replaced_and_the_group_is_classic() -> None:
    async def story(shard: Shard) -> None:
        await alone(shard, "one")
        two = shard.join("two", instance_id="two")
        assert two.error_code == 0
        assert shard.kind == "consumer"
        back = Classic(shard, "two")
        assert await back.join() is ErrorCode.NONE
        assert shard.kind == "classic"
        await shard.fail_over()
        assert shard.kind == "classic"
        assert back.heartbeat() in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)

    Shard().play(story)


def test_an_empty_group_takes_the_protocol_of_the_next_member() -> None:
    async def story(shard: Shard) -> None:
        old = await alone(shard)
        assert await old.leave() is ErrorCode.NONE
        shard.join("new")
        assert shard.kind == "consumer"
        shard.beat("new", -1)
        stranger = Classic(shard)
        stranger.member_id = "stranger"
        assert await stranger.join() is ErrorCode.UNKNOWN_MEMBER_ID
        assert shard.kind == "consumer"
        await alone(shard)
        assert shard.kind == "classic"
        await shard.fail_over()
        assert shard.kind == "classic"

    Shard(AT_ONCE).play(story)


def test_a_leader_that_gave_a_partition_twice_does_not_make_two_owners() -> None:
    """Clients assign in a classic group, and nothing keeps them from it."""

    async def story(shard: Shard) -> None:
        first, second = Classic(shard), Classic(shard)
        await first.join()
        await first.sync({"t": [0]})
        joining = asyncio.ensure_future(second.join())
        await let_everything_happen()
        await first.join()
        await joining
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=first.generation,
            member_id=first.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=assignment({"t": [0, 1]}))
                for each in (first, second)
            ],
        )
        shard.coordinator.sync_group(request, FakeCaller(5))
        assert shard.join("new").error_code == 0
        assert shard.kind == "consumer"

    Shard().play(story)
