"""GroupCoordinator as the broker's handlers use it: many partitions, many versions, and what must not race."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.classic.members import Member
from chronik.coordinator.groups.records import group_removed
from chronik.coordinator.records import encode_records
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, Topic
from chronik.runtime.pieces import at_once
from chronik.wire import batches
from chronik.wire.compiler import encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_groups import DeleteGroupsRequest
from chronik.wire.messages.describe_groups import DescribeGroupsRequest
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest
from chronik.wire.messages.list_groups import ListGroupsRequest
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from chronik.wire.messages.sync_group import SyncGroupRequest
from tests.coordinator.virtual import (
    FakeCaller,
    FakeClock,
    FakePartition,
    FakeRandomness,
    let_everything_happen,
    make_coordinator,
    run_virtually,
)

RETENTION_MS = 1_000
OLD_ID, NEW_ID = bytes([1] * 16), bytes([2] * 16)
Story = Callable[[GroupCoordinator, FakePartition, FakeClock], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    """Runs a story on one loaded partition, which commits only on request."""
    clock = FakeClock()

    async def main() -> None:
        coordinator = make_coordinator(clock, GroupsConfig(offsets_retention_ms=RETENTION_MS))
        partition = FakePartition(commits_at_once=False)
        await coordinator.load(partition)
        await story(coordinator, partition, clock)

    run_virtually(main(), clock)


def commit(
    coordinator: GroupCoordinator, offset: int, group: str = "g", topic_id: bytes = bytes(16), partition: int = 0
) -> Any:
    parts = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=None)]
    topics = [OffsetCommitRequestTopic(name="t", topic_id=topic_id, partitions=parts)]
    return coordinator.offset_commit(OffsetCommitRequest(group_id=group, topics=topics), FakeCaller(9))


def fetched(coordinator: GroupCoordinator, group: str = "g", topic_id: bytes = bytes(16)) -> int:
    topics = [OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])
    response = coordinator.offset_fetch(request, FakeCaller(10))
    assert not isinstance(response, asyncio.Future)
    return response.groups[0].topics[0].partitions[0].committed_offset


def error_of(answer: Any) -> ErrorCode:
    response = answer.result() if isinstance(answer, asyncio.Future) else answer
    return ErrorCode.of(response.topics[0].partitions[0].error_code)


# --- acknowledged commits


def test_an_offset_is_read_only_after_it_is_committed() -> None:
    """A consumer that resumed from an offset that is then lost would skip records that it never processed."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        answer = commit(coordinator, 5)
        await let_everything_happen()
        assert not answer.done()
        assert fetched(coordinator) == -1
        partition.commit()
        await let_everything_happen()
        assert error_of(answer) is ErrorCode.NONE
        assert fetched(coordinator) == 5

    play(story)


def test_a_commit_in_pieces_of_which_nothing_can_be_stored_is_refused() -> None:
    """A request for many partitions may carry metadata that is too long for each of them. Then there is no batch."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        parts = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=5, committed_metadata="x" * 5000)
            for index in range(100)
        ]
        topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
        answer = at_once(
            coordinator.committing_offsets(OffsetCommitRequest(group_id="g", topics=topics), FakeCaller(9))
        )
        assert error_of(answer) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert not partition.log

    play(story)


def test_expiry_spares_an_offset_that_is_being_committed_anew() -> None:
    """The old offset has expired, and a new one is being written: the removal would come after the commit."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        commit(coordinator, 5)
        partition.commit()
        await asyncio.sleep(2 * RETENTION_MS / 1000)
        answer = commit(coordinator, 6)
        await coordinator.expire(clock.wall_ms())
        partition.commit()
        await let_everything_happen()
        assert error_of(answer) is ErrorCode.NONE
        assert fetched(coordinator) == 6
        reloaded = make_coordinator(clock)
        await reloaded.load(partition.after_failover())
        assert fetched(reloaded) == 6

    play(story)


def test_a_commit_beside_the_deletion_of_its_group_is_not_lost() -> None:
    """Both are acknowledged, so one came after the other: a commit that comes last makes a new group."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        first = commit(coordinator, 5)
        partition.commit()
        await let_everything_happen()
        second = commit(coordinator, 6, group="g")
        deletion = coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"]), FakeCaller(2))
        third = commit(coordinator, 7)
        partition.commit()
        await let_everything_happen()
        assert [error_of(answer) for answer in (first, second, third)] == [ErrorCode.NONE] * 3
        assert isinstance(deletion, asyncio.Future)
        assert deletion.result().results[0].error_code == ErrorCode.NONE
        assert fetched(coordinator) == 7
        listed = coordinator.list_groups(ListGroupsRequest(), FakeCaller(5)).groups
        assert [group.group_id for group in listed] == ["g"]
        # The group still ends when its offset has had its time.
        await asyncio.sleep(2 * RETENTION_MS / 1000)
        await coordinator.expire(clock.wall_ms())
        partition.commit()
        await let_everything_happen()
        assert coordinator.list_groups(ListGroupsRequest(), FakeCaller(5)).groups == []

    play(story)


def test_an_offset_that_outlives_its_group_has_one_again() -> None:
    """A commit for another partition was on its way when the group was removed; without a group it never expires."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        commit(coordinator, 5)
        partition.commit()
        await let_everything_happen()
        commit(coordinator, 6, partition=1)
        coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"]), FakeCaller(2))
        partition.commit()
        await let_everything_happen()
        assert fetched(coordinator) == -1
        for either in (coordinator, make_coordinator(clock)):
            if either is not coordinator:
                await either.load(partition.after_failover())
            (listed,) = either.list_groups(ListGroupsRequest(), FakeCaller(5)).groups
            assert (listed.group_id, listed.group_state, listed.protocol_type) == ("g", "Empty", "")

    play(story)


def test_a_client_that_hangs_up_does_not_take_its_commit_back() -> None:
    """The commit is in the log; only the response does not reach the client."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        commit(coordinator, 5).cancel()
        partition.commit()
        await let_everything_happen()
        assert fetched(coordinator) == 5

    play(story)


# --- topics


def test_a_deleted_topic_takes_its_offsets_along_and_spares_its_successor() -> None:
    """A topic that is created again with the same name starts at its own beginning, not at its predecessor's
    offsets."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        partition.commits_at_once = True
        commit(coordinator, 5, "old", OLD_ID)
        commit(coordinator, 6, "new", NEW_ID)
        commit(coordinator, 7, "unknown")
        assert fetched(coordinator, "old", NEW_ID) == -1
        assert fetched(coordinator, "old", OLD_ID) == fetched(coordinator, "old") == 5
        assert fetched(coordinator, "unknown", NEW_ID) == 7
        coordinator.image_changed(EMPTY, Changes(topics_removed=(Topic(OLD_ID, "t", ()),)))
        assert [fetched(coordinator, group) for group in ("old", "new", "unknown")] == [-1, 6, -1]

    play(story)


def test_a_commit_on_its_way_is_removed_with_its_topic() -> None:
    """It was admitted before the deletion was known; nothing would ever remove it again."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        answer = commit(coordinator, 5, topic_id=OLD_ID)
        coordinator.image_changed(EMPTY, Changes(topics_removed=(Topic(OLD_ID, "t", ()),)))
        partition.commit()
        await let_everything_happen()
        partition.commit()
        await let_everything_happen()
        assert error_of(answer) is ErrorCode.NONE
        assert fetched(coordinator) == -1

    play(story)


# --- partitions


def test_groups_are_answered_for_by_their_partitions_alone() -> None:
    """One node leads some of the partitions and is still loading others."""
    clock = FakeClock()

    async def main() -> None:
        coordinator = GroupCoordinator(GroupsConfig(), clock, FakeRandomness(), partition_count=3)
        here, loading, elsewhere = (name for _, name in sorted((coordinator.partition_for(n), n) for n in "abc"))
        await coordinator.load(FakePartition(coordinator.partition_for(here)))
        behind = FakePartition(coordinator.partition_for(loading))
        behind.commits_at_once = False
        behind.append(partition_batch())
        task = asyncio.ensure_future(coordinator.load(behind))
        await let_everything_happen()

        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in (here, loading, elsewhere)]
        response = coordinator.offset_fetch(OffsetFetchRequest(groups=groups), FakeCaller(9))
        assert not isinstance(response, asyncio.Future)
        errors = [ErrorCode.of(group.error_code) for group in response.groups]
        assert errors == [ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]

        described = coordinator.describe_groups(DescribeGroupsRequest(groups=[here, loading, elsewhere]), FakeCaller(5))
        assert [ErrorCode.of(group.error_code) for group in described.groups] == errors
        deleted = coordinator.delete_groups(DeleteGroupsRequest(groups_names=[here, loading, elsewhere]), FakeCaller(2))
        assert not isinstance(deleted, asyncio.Future)
        assert [ErrorCode.of(result.error_code) for result in deleted.results] == [
            ErrorCode.GROUP_ID_NOT_FOUND,
            *errors[1:],
        ]
        listed = coordinator.list_groups(ListGroupsRequest(), FakeCaller(5))
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        # A heartbeat during loading counts: sessions begin when loading ends.
        beats = [
            coordinator.heartbeat(HeartbeatRequest(group_id=name, generation_id=1, member_id="m"), FakeCaller(4))
            for name in (here, loading, elsewhere)
        ]
        assert [ErrorCode.of(beat.error_code) for beat in beats] == [
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.NONE,
            ErrorCode.NOT_COORDINATOR,
        ]
        for name, expected in ((loading, errors[1]), (elsewhere, errors[2])):
            assert error_of(commit(coordinator, 1, name)) is expected
            sync = SyncGroupRequest(group_id=name, generation_id=1, member_id="m", assignments=[])
            leave = LeaveGroupRequest(group_id=name, member_id="m")
            for answer in (
                join(coordinator, name),
                coordinator.sync_group(sync, FakeCaller(4)),
                coordinator.leave_group(leave, FakeCaller(2)),
            ):
                assert not isinstance(answer, asyncio.Future)
                assert answer.error_code == expected
        behind.commit()
        await task
        assert coordinator.list_groups(ListGroupsRequest(), FakeCaller(5)).error_code == ErrorCode.NONE

    run_virtually(main(), clock)


def partition_batch() -> bytes:
    return batches.build(encode_records([group_removed("nobody")], 0))


def join(coordinator: GroupCoordinator, group: str = "g", member_id: str = "", version: int = 3) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return coordinator.join_group(request, FakeCaller(version))


@pytest.mark.parametrize("version", range(10))
def test_old_versions_get_answers_they_can_read(version: int) -> None:
    """A null protocol name, errors per request and lists of members have no place in older layouts."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        refused = join(coordinator, member_id="nobody", version=version)
        assert refused.protocol_name == (None if version >= 7 else "")
        encode(refused, version)
        if version <= 5:
            left = coordinator.leave_group(LeaveGroupRequest(group_id="g", member_id="nobody"), FakeCaller(version))
            assert not isinstance(left, asyncio.Future)
            assert left.error_code == (ErrorCode.UNKNOWN_MEMBER_ID if version < 3 else ErrorCode.NONE)
            encode(left, version)

    play(story)


@pytest.mark.parametrize("version", range(8))
def test_offset_fetch_tells_errors_where_its_version_has_room(version: int) -> None:
    """Before v2 there was no error for the whole request, so every partition carries it."""
    clock = FakeClock()

    async def main() -> None:
        coordinator = make_coordinator(clock)
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        request = OffsetFetchRequest(group_id="g", topics=topics, require_stable=version >= 7)
        response = coordinator.offset_fetch(request, FakeCaller(version))
        assert not isinstance(response, asyncio.Future)
        partitions = [each for topic in response.topics for each in topic.partitions]
        if version < 2:
            assert [each.error_code for each in partitions] == [ErrorCode.NOT_COORDINATOR] * 2
        else:
            assert (response.error_code, partitions) == (ErrorCode.NOT_COORDINATOR, [])

    run_virtually(main(), clock)


def test_version_0_of_join_uses_the_session_as_its_rebalance_timeout() -> None:
    """It has no field for it; -1 would end every round at once."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        join(coordinator, version=0)
        join(coordinator, version=1)
        timeouts = [member.rebalance_timeout_ms for member in members(coordinator)]
        assert timeouts == [10_000, -1]

    play(story)


def members(coordinator: GroupCoordinator) -> list[Member]:
    (group,) = (group for _, shard in coordinator._runtime.active() for group in shard.groups.values())
    return list(group.members.values())


def test_member_ids_are_the_clients_name_and_a_random_uuid() -> None:
    """Operators read them in descriptions, and no client may guess one and act as that member."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        first = join(coordinator, version=4).member_id
        second = join(coordinator, version=4).member_id
        assert first != second
        assert re.fullmatch(r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first)

    play(story)


def test_filters_of_list_groups_are_names_in_any_case() -> None:
    """Tools write `stable`; a name that does not exist finds nothing rather than everything."""

    async def story(coordinator: GroupCoordinator, partition: FakePartition, clock: FakeClock) -> None:
        partition.commits_at_once = True
        commit(coordinator, 1, "simple")
        join(coordinator, "joining")

        def listed(**filters: list[str]) -> list[str]:
            response = coordinator.list_groups(ListGroupsRequest(**filters), FakeCaller(5))
            return [group.group_id for group in response.groups]

        assert listed() == ["simple", "joining"]
        assert listed(states_filter=["empty"]) == ["simple"]
        assert listed(states_filter=["PREPARINGREBALANCE", "nonsense"]) == ["joining"]
        assert listed(states_filter=["nonsense"]) == []
        assert listed(types_filter=["Classic"]) == ["simple", "joining"]
        assert listed(types_filter=["consumer"]) == []

    play(story)
