"""What members of groups send is bounded, each of them and all together, and every byte is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.member_memory import MEMBER_BYTES_MAX, MemberMemory
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.virtual import FakeCaller, FakeClock, FakePartition, FakeRandomness, run_virtually

MIB = 1 << 20
ROOM_BYTES = 4 * MIB
BEFORE_IDS = 3  # the version of JoinGroup in which a member joins without having got an id
DELAY_S = 0.01
Story = Callable[[GroupCoordinator, MemberMemory], Coroutine[Any, Any, None]]


def play(story: Story, config: GroupsConfig | None = None) -> None:
    clock = FakeClock()

    async def main() -> None:
        memory = MemberMemory(ROOM_BYTES)
        coordinator = GroupCoordinator(
            config or GroupsConfig(initial_rebalance_delay_ms=1), clock, FakeRandomness(0), 1, memory
        )
        await coordinator.load(FakePartition())
        await story(coordinator, memory)

    run_virtually(main(), clock)


def join(coordinator: GroupCoordinator, group: str, size_bytes: int, member_id: str = "", version: int = 3) -> Any:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30 * 60_000,
        rebalance_timeout_ms=30 * 60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes))],
    )
    return coordinator.join_group(request, FakeCaller(version))


async def joined(coordinator: GroupCoordinator, group: str, size_bytes: int, member_id: str = "") -> Any:
    answer = join(coordinator, group, size_bytes, member_id)
    await asyncio.sleep(DELAY_S)
    return answer.result() if isinstance(answer, asyncio.Future) else answer


def sync(coordinator: GroupCoordinator, group: str, member: Any, assignment: bytes) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment)],
    )
    return coordinator.sync_group(request, FakeCaller(3))


def leave(coordinator: GroupCoordinator, group: str, member_id: str) -> None:
    coordinator.leave_group(
        LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id)]), FakeCaller(3)
    )


def test_a_member_with_too_much_metadata_is_refused_for_good() -> None:
    """Twenty megabytes would be kept for half an hour. The error code says that the data is too large."""

    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        assert (await joined(coordinator, "g", 20 * MIB)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert memory.held_bytes == 0
        assert not (await joined(coordinator, "g", MEMBER_BYTES_MAX - 10)).error_code

    play(story)


def test_members_of_many_groups_are_bounded_together() -> None:
    """Clients that get COORDINATOR_NOT_AVAILABLE retry, and succeed when other members have left."""

    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        members = [await joined(coordinator, f"g{n}", MIB - 10) for n in range(50)]
        errors = [member.error_code for member in members]
        assert errors == [0, 0, 0] + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 47
        assert memory.held_bytes <= ROOM_BYTES
        leave(coordinator, "g0", members[0].member_id)
        assert not (await joined(coordinator, "late", MIB - 10)).error_code

    play(story)


def test_a_member_can_join_again_when_the_memory_is_spent() -> None:
    """It needs no additional memory; but it may not use more."""

    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        small = await joined(coordinator, "small", 100)
        while not (await joined(coordinator, f"g{memory.held_bytes}", MIB - 10)).error_code:
            pass
        assert not (await joined(coordinator, "small", 100, small.member_id)).error_code
        refused = await joined(coordinator, "small", MIB - 10, small.member_id)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(story)


def test_ids_that_were_handed_out_count_as_well() -> None:
    """From v4 on a first join only fetches an id, which is remembered for as long as the client says."""

    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        for n in range(5_000):
            last = join(coordinator, f"g{n}", 10, version=5)
        assert last.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert memory.held_bytes <= ROOM_BYTES
        await asyncio.sleep(31 * 60)
        assert memory.held_bytes == 0

    play(story)


def test_an_assignment_is_bounded_and_counted() -> None:
    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        member = await joined(coordinator, "g", 100)
        before_bytes = memory.held_bytes
        assert sync(coordinator, "g", member, bytes(MIB + 1)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        sync(coordinator, "g", member, bytes(MIB))
        await asyncio.sleep(DELAY_S)
        assert memory.held_bytes == before_bytes + MIB

    play(story)


def test_an_assignment_that_finds_no_memory_is_refused() -> None:
    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        member = await joined(coordinator, "g", 100)
        while not (await joined(coordinator, f"g{memory.held_bytes}", MIB - 10)).error_code:
            pass
        assert sync(coordinator, "g", member, bytes(MIB)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    play(story)


def test_everything_is_given_back() -> None:
    """By leaving, by a session that ends, and when the partition goes to another coordinator."""

    async def story(coordinator: GroupCoordinator, memory: MemberMemory) -> None:
        left, silent, kept = [await joined(coordinator, name, MIB // 2) for name in ("left", "silent", "kept")]
        sync(coordinator, "kept", kept, b"assigned")
        join(coordinator, "pending", 10, version=5)
        leave(coordinator, "left", left.member_id)
        leave(coordinator, "silent", silent.member_id)
        assert MIB // 2 < memory.held_bytes < MIB
        coordinator.unload(0)
        assert memory.held_bytes == 0

    play(story)
