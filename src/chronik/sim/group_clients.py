"""Members of a consumer group that join, read, commit and leave, while a producer writes what they read.

Each incarnation of a member is a process with the product's consumer; it ends by leaving, or without notice. The
history records a member's assignment as an `own` operation (generation, member id, partitions), offsets it looked up as
`committed`, and its commits as `commit`. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chronik.client.admin import offsets as group_offsets
from chronik.client.consumer import Consumer
from chronik.client.errors import ClientError
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, UNKNOWN, History, Operation
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.wire_clients import ClientTasks, WireClient, make_client

MEMBERS_GROUP = "members"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 1500, 2000, 300
ASSIGNORS = ("range", "roundrobin", "cooperative-sticky")
LIFE_MS = (800, 7000)
ABSENCE_MS = (50, 1500)
POLL_MS = 200


def committed_key(at: TopicPartition) -> str:
    return f"{MEMBERS_GROUP} {at}"


class GroupClients:
    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        records: RecordClients,
        *,
        member_count: int,
        think_ms: tuple[int, int],
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._records, self._member_count, self._think_ms = records, member_count, think_ms
        self._random = cluster.world.random("members")
        self._assignor = self._random.choice(ASSIGNORS)
        self._members: dict[int, _Member] = {}
        self._life_count = 0
        self._is_over = False
        self.is_calm = False  # no member joins or leaves after this

    def begin(self) -> None:
        self._records.begin()
        for slot in range(self._member_count):
            self._live(slot)

    def end(self) -> None:
        """Members stop at once: their pending requests do not matter."""
        self._is_over = True
        self._records.end()
        for member in self._members.values():
            member.die()

    @property
    def are_answered(self) -> bool:
        return self._records.are_answered

    def _live(self, slot: int) -> None:
        if self._is_over:
            return
        self._life_count += 1
        client = make_client(self.cluster, f"member-{self._life_count}")
        member = self._members[slot] = _Member(self.cluster, self.history, client, self._assignor, self._think_ms)
        member.begin()
        self.world.time.after_ms(self._random.randint(*LIFE_MS), self._end_life, slot, member)

    def _end_life(self, slot: int, member: _Member) -> None:
        if self.is_calm or self._is_over:
            return
        if self._random.random() < 0.5:
            member.die()
        else:
            member.is_leaving = True
        self.world.time.after_ms(self._random.randint(*ABSENCE_MS), self._live, slot)


class _Member:
    """One incarnation of one member."""

    def __init__(
        self, cluster: SimCluster, history: History, client: WireClient, assignor: str, think_ms: tuple[int, int]
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self.client, self._assignor, self._think_ms = client, assignor, think_ms
        self.is_leaving = False
        self._looking_up: dict[TopicPartition, Operation] = {}

    def begin(self) -> None:
        self.world.note(self.client.name, f"begins, to assign by {self._assignor}")
        ClientTasks(self.world).start(self.client, self._run())

    def die(self) -> None:
        if not self.client.loop.is_dead:
            self.world.note(self.client.name, "dies")
            self.client.loop.kill()
            self.world.wires.process_died(self.client.name)

    async def _run(self) -> None:
        random = self.world.random(self.client.name)
        routing = routing_of(self.cluster, self.client)
        consumer = Consumer(
            routing,
            group_id=MEMBERS_GROUP,
            assignors=[self._assignor],
            auto_commit_ms=None,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            heartbeat_ms=HEARTBEAT_MS,
        )
        consumer.subscribe([TOPIC], on_assigned=lambda added: self._started_at(consumer, added))
        self._watch_joins(consumer)
        while not self.is_leaving:
            try:
                await consumer.poll(POLL_MS)
                await self._commit(consumer)
            except ClientError as error:
                self.world.note(self.client.name, f"has trouble: {type(error).__name__}: {error}")
                await asyncio.sleep(0.1)
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
        self.world.note(self.client.name, "leaves")
        await consumer.close()
        await routing.close()

    def _watch_joins(self, consumer: Consumer) -> None:
        membership = consumer._membership
        assert membership is not None
        join = membership.join

        async def watched(owned: Sequence[TopicPartition]) -> tuple[TopicPartition, ...]:
            operation = self.history.invoke(self.client.name, "-", "own", MEMBERS_GROUP)
            try:
                assigned = await join(owned)
            except ClientError as error:
                self.history.complete(operation, UNKNOWN, type(error).__name__)
                raise
            self.history.complete(operation, OK, (membership.generation, membership.member_id, assigned))
            # It looks up no offset of a partition that it keeps reading; such an operation stays open and is ignored.
            self._looking_up = {
                at: self.history.invoke(self.client.name, "-", "committed", committed_key(at)) for at in assigned
            }
            return assigned

        membership.join = watched  # type: ignore[method-assign]

    async def _started_at(self, consumer: Consumer, added: Sequence[TopicPartition]) -> None:
        positions = consumer.positions()
        for at in added:
            self.history.complete(self._looking_up.pop(at), OK, positions[at])

    async def _commit(self, consumer: Consumer) -> None:
        positions = {at: offset for at, offset in consumer.positions().items() if consumer._committed.get(at) != offset}
        if not positions:
            return
        operations = [
            self.history.invoke(self.client.name, "-", "commit", committed_key(at), offset)
            for at, offset in positions.items()
        ]
        try:
            await consumer.commit(positions)
        except ClientError as error:
            for operation in operations:
                self.history.complete(operation, UNKNOWN, type(error).__name__)
            raise
        for operation in operations:
            self.history.complete(operation, OK)


async def look_up_commits(history: History, client: WireClient, routing: ClusterClient, partition_count: int) -> None:
    """Looks up the group's commits in all partitions, each as one `committed` operation."""
    partitions = [TopicPartition(TOPIC, index) for index in range(partition_count)]
    operations = {at: history.invoke(client.name, "-", "committed", committed_key(at)) for at in partitions}
    found = await group_offsets.committed(routing, MEMBERS_GROUP)
    for at, operation in operations.items():
        history.complete(operation, OK, found[at].offset if at in found else 0)
