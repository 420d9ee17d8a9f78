"""A world of consumers, one coordinator and a log that stalls, refuses and fails over; all from one seed.

Clients behave as Kafka's do: join, sync, heartbeat, commit, leave, restart, give up on requests. The world checks these
invariants:

  - a partition has one owner in a generation, however often the coordinator moved meanwhile;
  - an acknowledged offset, and an assignment that was sent, are in the committed part of the log at that moment;
  - an acknowledged offset is never lost, and an offset that is read was committed before;
  - the state of the coordinator is what the committed part of the log says, at any moment;
  - no request stays without an answer.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.records import RECORD_TYPES
from chronik.coordinator.records import decode_record
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from chronik.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.script import subscription
from tests.coordinator.virtual import (
    FakeCaller,
    FakeClock,
    FakePartition,
    Refused,
    let_everything_happen,
    make_coordinator,
)

GROUP = "g"
PARTITION_COUNT = 4
FORGETS_ITS_ID = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
CONFIG = GroupsConfig(initial_rebalance_delay_ms=1_000, offsets_retention_ms=10**9)


class Client:
    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self.members: list[str] = []
        self.stage = "out"  # then joined, then stable
        self.owned: list[int] = []
        self.pending: tuple[asyncio.Future[Any], Any] | None = None
        self.topics = ["t"]

    def step(self) -> None:
        chance = self.world.random.random()
        if self.pending is not None:
            self._look(give_up=chance < 0.01)
        elif self.stage == "out":
            self._join()
        elif self.stage == "joined":
            self._sync()
        elif chance < 0.45:
            self._heartbeat()
        elif chance < 0.95:
            self._commit()
        elif chance < 0.965:
            self._leave()
        elif chance < 0.98:
            self.restart()
        else:
            self.topics = ["t"] * self.world.random.randint(1, 2)  # other metadata, as a cooperative member sends
            self._join()

    def restart(self) -> None:
        """The process is gone and comes back: it knows nothing, except its instance id."""
        self.pending = None
        self.member_id, self.generation, self.stage, self.owned = "", -1, "out", []

    def _ask(self, answer: Any, hear: Any) -> None:
        if isinstance(answer, asyncio.Future):
            self.pending = answer, hear
            self.world.asked.append(answer)
        else:
            hear(answer)

    def _look(self, *, give_up: bool) -> None:
        assert self.pending is not None
        answer, hear = self.pending
        if answer.done():
            self.pending = None
            hear(answer.result())
        elif give_up:
            answer.cancel()
            self.restart()

    def _join(self) -> None:
        metadata = subscription(self.topics)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.stage, self.owned = "out", []
        self._ask(self.world.coordinator.join_group(request, FakeCaller(9, self.name)), self._joined)

    def _joined(self, response: Any) -> None:
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error is not ErrorCode.NONE:
            self._hear_error(error)
        else:
            self.member_id, self.generation = response.member_id, response.generation_id
            self.is_leader = response.leader == self.member_id and not response.skip_assignment
            self.members = [member.member_id for member in response.members]
            self.stage = "joined"

    def _sync(self) -> None:
        assignments = []
        if self.is_leader:
            dealt: dict[str, list[int]] = {member_id: [] for member_id in self.members}
            for partition in range(PARTITION_COUNT):
                dealt[self.world.random.choice(self.members)].append(partition)
            assignments = [
                SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(partitions))
                for member_id, partitions in dealt.items()
            ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self._ask(self.world.coordinator.sync_group(request, FakeCaller(5)), self._synced)

    def _synced(self, response: Any) -> None:
        if response.error_code:
            self._hear_error(ErrorCode.of(response.error_code))
            return
        self.stage, self.owned = "stable", list(response.assignment)
        self.world.check_assignment(self)

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        self._ask(self.world.coordinator.heartbeat(request, FakeCaller(4)), self._heard)

    def _heard(self, response: Any) -> None:
        if response.error_code:
            self._hear_error(ErrorCode.of(response.error_code))

    def _commit(self) -> None:
        committed = {partition: self.world.next_offset() for partition in self.owned}
        if not committed:
            return
        parts = [
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=None)
            for partition, offset in committed.items()
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=parts)],
        )

        def hear(response: Any) -> None:
            error = ErrorCode.of(response.topics[0].partitions[0].error_code)
            if error is ErrorCode.NONE:
                self.world.acknowledged(committed)
            else:
                self._hear_error(error)

        answer = self.world.coordinator.offset_commit(request, FakeCaller(9))
        if isinstance(answer, asyncio.Future):
            # Checked when the answer is given, not when the client gets round to reading it.
            answer.add_done_callback(
                lambda done: done.cancelled() or self.world.check_committed(committed, done.result())
            )
        self._ask(answer, hear)

    def _leave(self) -> None:
        leaving = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)]
        request = LeaveGroupRequest(group_id=GROUP, members=leaving)
        self.restart()
        self._ask(self.world.coordinator.leave_group(request, FakeCaller(5)), lambda response: None)

    def _hear_error(self, error: ErrorCode) -> None:
        self.stage, self.owned = "out", []
        if error in FORGETS_ITS_ID:
            self.member_id, self.generation = "", -1


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = FakeClock()
        self.partition = FakePartition()
        self.coordinator = make_coordinator(self.clock, CONFIG, seed)
        self.clients = [Client(self, f"c{number}", f"i{number}" if number % 3 == 0 else None) for number in range(5)]
        self.asked: list[asyncio.Future[Any]] = []
        self.acked: dict[int, int] = {}  # partition to the last offset that was acknowledged
        self.owners: dict[tuple[int, int], str] = {}  # generation and partition -> the client that got it assigned
        self.loads = 0
        self._offset = 0

    def next_offset(self) -> int:
        """Offsets only go up, so that of two commits the later one in the log is the larger one."""
        self._offset += 1
        return self._offset

    async def run(self, step_count: int) -> None:
        await self.coordinator.load(self.partition)
        for _ in range(step_count):
            await self._step()
            await let_everything_happen()
            self.check_offsets()
        await self._heal()

    async def _step(self) -> None:
        chance = self.random.random()
        if self.partition.refuses_with is not None and chance < 0.10:
            self.partition.refuses_with = None
        elif chance < 0.80:
            self.random.choice(self.clients).step()
        elif chance < 0.88:
            await asyncio.sleep(self.random.choice((1, 100, 1_000, 3_000)) / 1000)
        elif chance < 0.94:
            ahead = self.partition.end_offset - self.partition.committed_offset
            self.partition.commit(self.partition.committed_offset + self.random.randint(0, ahead))
        elif chance < 0.96:
            self.partition.commits_at_once = not self.partition.commits_at_once
            if self.partition.commits_at_once:
                self.partition.commit()
        elif chance < 0.97:
            code = self.random.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR))
            self.partition.refuses_with = Refused(code)
        elif chance < 0.98:
            await self.coordinator.expire(self.clock.wall_ms())
        elif chance < 0.985:
            await self._fail_over()
        else:
            await self.check_replay()

    async def _fail_over(self) -> None:
        """The old coordinator is notified, or just stops; any prefix of the uncommitted records may survive."""
        if self.random.random() < 0.5:
            self.coordinator.unload(0)
        else:
            for client in self.clients:  # their connections break
                client.pending = None
            self.asked.clear()
        surviving = self.random.randint(self.partition.committed_offset, self.partition.end_offset)
        self.partition = self.partition.after_failover(surviving_offset=surviving)
        self.loads += 1
        self.coordinator = make_coordinator(self.clock, CONFIG, seed=self.random.randrange(2**32))
        await self.coordinator.load(self.partition)

    async def _heal(self) -> None:
        """With a log that works and time passing, every request that was sent gets its answer."""
        self.partition.refuses_with = None
        self.partition.commits_at_once = True
        self.partition.commit()
        await asyncio.sleep(400)
        assert all(answer.done() for answer in self.asked), "a request was never answered"
        await self.check_replay()
        self.check_offsets()

    # --- what must hold

    def check_assignment(self, client: Client) -> None:
        for partition in client.owned:
            owner = self.owners.setdefault((client.generation, partition), client.name)
            assert owner == client.name, f"{owner} and {client.name} own {partition} in generation {client.generation}"
        stored = [
            member.assignment
            for value in self._committed(GroupMetadataKey)
            if isinstance(value, GroupMetadataValue) and value.generation == client.generation
            for member in value.members
            if member.member_id == client.member_id
        ]
        assert bytes(client.owned) in stored, "an assignment was told that is not committed"

    def check_committed(self, committed: dict[int, int], response: Any) -> None:
        if response.topics[0].partitions[0].error_code:
            return
        there = {value.offset for value in self._committed(OffsetCommitKey) if isinstance(value, OffsetCommitValue)}
        assert set(committed.values()) <= there, "an offset was acknowledged that is not committed"

    def acknowledged(self, committed: dict[int, int]) -> None:
        for partition, offset in committed.items():
            self.acked[partition] = max(offset, self.acked.get(partition, 0))

    def check_offsets(self) -> None:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        response: Any = self.coordinator.offset_fetch(request, FakeCaller(9))
        found = {
            each.partition_index: each.committed_offset
            for topic in response.groups[0].topics
            for each in topic.partitions
        }
        for partition, offset in self.acked.items():
            assert found.get(partition, -1) >= offset, f"offset {offset} of {partition} was lost, {found} is left"

    async def check_replay(self) -> None:
        """The coordinator's state equals what a new one would load from the committed part of the log."""
        fresh = make_coordinator(self.clock, CONFIG)
        await fresh.load(self.partition.after_failover())
        assert state_of(fresh) == state_of(self.coordinator)
        fresh.unload(0)

    def _committed(self, kind: type) -> list[Any]:
        found = []
        for data in self.partition.log:
            (batch,) = batches.split(memoryview(data))
            if batch.next_offset > self.partition.committed_offset:
                break
            for record in records.iterate(batch, 1 << 20):
                value = None if record.value is None else memoryview(record.value)
                decoded = decode_record(RECORD_TYPES, memoryview(record.key or b""), value)
                if decoded is not None and isinstance(decoded.key, kind):
                    found.append(decoded.value)
        return found


def state_of(coordinator: GroupCoordinator) -> dict[str, Any]:
    """The state that the log contains: a group without a record or a commit is not part of it."""
    state: dict[str, Any] = {}
    for _, shard in coordinator._runtime.active():
        for group_id, group in shard.groups.items():
            if group.stored is not None or shard.offsets.of(group_id):
                state[group_id] = group.stored, shard.offsets.of(group_id)
    return state
