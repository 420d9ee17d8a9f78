"""A world of members of one consumer group, classic and new, a coordinator that moves, a log that stalls and refuses,
and topics that grow; all from one seed.

Clients follow KIP-848: they take over assigned partitions, revoke partitions that a response removes, report what they
own, and rejoin when they are fenced. Responses get lost. The world checks these invariants:

  18a a partition has one owner: the last response that a client received assigns it, and the client has not revoked it;
  18b the epochs of the group, of its target and of its members never decrease;
  18c after healing, every partition of every subscribed topic has an owner;
  17  the state of the coordinator is what the committed part of the log says;
  and every request is answered.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from chronik.coordinator.groups import GroupCoordinator, GroupsConfig
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.cluster import GROUP, Shard, parts
from tests.coordinator.virtual import Refused, let_everything_happen

CONFIG = GroupsConfig(consumer_assignment_interval_ms=1_000, initial_rebalance_delay_ms=0)
BEGINS_AGAIN = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)
SESSION_S = CONFIG.consumer_session_timeout_ms / 1000


class Client:
    def __init__(self, world: World, name: str, instance_id: str | None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.incarnation = 0
        self.epoch = 0
        self.owned: set[tuple[str, int]] = set()
        self.wanted: set[tuple[str, int]] | None = None  # assigned partitions that it has not taken over yet
        self.heard_s = 0.0  # when an answer confirmed its membership last
        self.sent_s = 0.0
        self.pending: asyncio.Future[ConsumerGroupHeartbeatResponse] | None = None
        self.knows_all = False  # the coordinator has confirmed what this member says about itself

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.incarnation}"

    def step(self) -> None:
        chance = self.world.random.random()
        if self.pending is not None:
            if self.pending.done():
                answer, self.pending = self.pending.result(), None
                if chance < 0.1:
                    self.knows_all = False  # it was lost on its way
                else:
                    self.hear(answer)
        elif self.wanted is not None and chance < 0.7:
            self.owned, self.wanted = self.wanted, None
        elif chance < 0.93:
            self.beat()
        elif chance < 0.95:
            self.leave()
        elif chance < 0.96:
            self.restart()

    def beat(self) -> None:
        self.give_up_if_silent()
        more: dict[str, Any] = {}
        joins = self.epoch == 0
        if joins or not self.knows_all:
            more = self.world.shard.joining(self.world.topics)
        owned: dict[str, list[int]] = {}
        for topic, partition in sorted(self.owned):
            owned.setdefault(topic, []).append(partition)
        told = self.world.random.random() < 0.7
        self.sent_s = self.world.now_s
        answer = self.world.shard.ask(
            self.member_id,
            self.epoch,
            owned if joins or told or not self.knows_all else None,
            instance_id=self.instance_id,
            **more,
        )
        self.take(answer)

    def leave(self) -> None:
        if self.epoch > 0:
            epoch = -2 if self.instance_id is not None and self.world.random.random() < 0.7 else -1
            self.owned, self.wanted = set(), None  # a client gives up before it leaves
            self.world.shard.ask(self.member_id, epoch, instance_id=self.instance_id)
        self.restart()

    def restart(self) -> None:
        self.pending = None
        self.incarnation += 1
        self.begin_again()

    def begin_again(self) -> None:
        self.epoch, self.owned, self.wanted, self.knows_all = 0, set(), None, False

    def give_up_if_silent(self) -> None:
        """A client that has heard nothing for a session time-out has to expect that it is out."""
        if self.epoch > 0 and self.world.now_s - self.heard_s >= SESSION_S:
            self.begin_again()

    def take(self, answer: Any) -> None:
        if isinstance(answer, asyncio.Future):
            self.pending = answer
            self.world.asked.append(answer)
        elif self.world.random.random() < 0.1:
            self.knows_all = False
        else:
            self.hear(answer)

    def hear(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        error = ErrorCode.of(answer.error_code)
        if error in BEGINS_AGAIN:
            self.begin_again()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self.restart()
        elif error is ErrorCode.NONE:
            self.heard_s = self.sent_s
            self.world.check_epoch(self, answer.member_epoch)
            self.epoch, self.knows_all = answer.member_epoch, True
            told = parts(answer)
            if told is not None:
                given = {(topic, partition) for topic, partitions in told.items() for partition in partitions}
                self.world.check_given(self, given)
                new = given - self.owned
                self.owned |= new  # new partitions are read at once; removed ones are given up in a later step
                self.wanted = given if self.owned != given else None


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.shard = Shard(CONFIG, {"t": 5, "u": 3})
        self.clock = self.shard.clock
        self.topics = ["t", "u"]
        self.clients = [Client(self, name, "static" if name == "s" else None) for name in "abcs"]
        self.asked: list[asyncio.Future[Any]] = []
        self.epochs: dict[str, int] = {}
        self.group_epochs = (0, 0)
        self.partition_counts = {"t": 5, "u": 3}
        self.given_count = 0
        self.loads = 0

    @property
    def now_s(self) -> float:
        return self.clock.now_ns / 1e9

    async def run(self, steps: int) -> None:
        await self.shard.coordinator.load(self.shard.partition)
        for _ in range(steps):
            await self._step()
            for client in self.clients:
                client.give_up_if_silent()
            self.check_group()
        await self._heal()
        self.shard.coordinator.unload(0)

    async def _step(self) -> None:
        partition, chance = self.shard.partition, self.random.random()
        if partition.refuses_with is not None and chance < 0.10:
            partition.refuses_with = None
        elif chance < 0.78:
            self.random.choice(self.clients).step()
        elif chance < 0.88:
            await asyncio.sleep(self.random.choice((1, 100, 1_000, 5_000)) / 1000)
        elif chance < 0.93:
            ahead = partition.end_offset - partition.committed_offset
            partition.commit(partition.committed_offset + self.random.randint(0, ahead))
        elif chance < 0.95:
            partition.commits_at_once = not partition.commits_at_once
            if partition.commits_at_once:
                partition.commit()
        elif chance < 0.96:
            partition.refuses_with = Refused(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif chance < 0.97:
            self.partition_counts["t"] += 1
            self.shard.now_has(self.partition_counts)
        elif chance < 0.985:
            await self._fail_over()
        else:
            await self.check_replay()
        await let_everything_happen()

    async def _fail_over(self) -> None:
        for client in self.clients:  # their connections break
            client.pending = None
            client.knows_all = False
        self.asked.clear()
        self.shard.coordinator.unload(0)
        surviving = self.random.randint(self.shard.partition.committed_offset, self.shard.partition.end_offset)
        self.shard.partition = self.shard.partition.after_failover(surviving_offset=surviving)
        self.shard.coordinator = self.shard.new_coordinator()
        await self.shard.coordinator.load(self.shard.partition)
        self.loads += 1
        self.group_epochs = (0, 0)

    async def _heal(self) -> None:
        partition = self.shard.partition
        partition.refuses_with = None
        partition.commits_at_once = True
        partition.commit()
        await let_everything_happen()
        for _ in range(120):
            for client in self.clients:
                client.pending = client.pending if client.pending and not client.pending.done() else None
                if client.pending is None:
                    client.beat()
                    await let_everything_happen()
                if client.wanted is not None:
                    client.owned, client.wanted = client.wanted, None
            await asyncio.sleep(1)
        assert all(answer.done() for answer in self.asked), "a request was never answered"
        await self.check_replay()
        owned = [place for client in self.clients for place in client.owned]
        everything = {(topic, n) for topic, count in self.partition_counts.items() for n in range(count)}
        assert set(owned) == everything, "18c a partition has no owner after healing"
        assert len(owned) == len(everything)

    # --- what must hold

    def check_given(self, client: Client, given: set[tuple[str, int]]) -> None:
        self.given_count += len(given)
        for other in self.clients:
            if other is not client and other.instance_id != (client.instance_id or ""):
                twice = given & other.owned
                assert not twice, f"18a {client.name} is given {sorted(twice)}, which {other.name} has"

    def check_epoch(self, client: Client, epoch: int) -> None:
        known = self.epochs.get(client.member_id, 0)
        assert epoch >= known, f"18b {client.member_id} had epoch {known}, and is told {epoch}"
        self.epochs[client.member_id] = epoch

    def check_group(self) -> None:
        group = self.group_of(self.shard.coordinator)
        if group is not None:
            now = group.epoch, group.target_epoch
            assert now[0] >= self.group_epochs[0], f"18b the group's epoch fell from {self.group_epochs} to {now}"
            self.group_epochs = now

    async def check_replay(self) -> None:
        """The coordinator's state equals what a new one would load from the whole appended log."""
        partition = self.shard.partition
        fresh = self.shard.new_coordinator()
        await fresh.load(partition.after_failover(surviving_offset=partition.end_offset))
        assert state_of(self.group_of(fresh)) == state_of(self.group_of(self.shard.coordinator))
        fresh.unload(0)

    def group_of(self, coordinator: GroupCoordinator) -> ConsumerGroup | None:
        for _, shard in coordinator._runtime.active():
            found = shard.groups.get(GROUP)
            if isinstance(found, ConsumerGroup):
                return found
        return None


def state_of(group: ConsumerGroup | None) -> Any:
    if group is None:
        return None
    return (
        group.epoch,
        group.metadata_hash,
        group.target_epoch,
        group.members,
        group.targets,
        group.static_members,
        group.resolved,
        group._owners,
    )
