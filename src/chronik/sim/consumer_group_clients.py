"""Members of a consumer group (KIP-848) that join, hold partitions, give them up and leave.

Each incarnation of a member is a separate process. It follows the client's side of the protocol: it starts to read the
partitions that a response assigns, gives up those that are missing in the next response, reports the partitions that it
has, rejoins when it is fenced, and gives up everything if no heartbeat was confirmed for a session time-out. In the
history, each time that it holds a partition is a `hold` operation, and each response is an `epoch` operation. Nothing
is judged here.
"""

from __future__ import annotations

import asyncio

from chronik.client.errors import ClientError
from chronik.client.routing import ClusterClient
from chronik.runtime.units import NS_PER_MS
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, History, Operation
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.wire_clients import ClientTasks, WireClient, make_client
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

CONSUMER_GROUP = "reconciled"
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS = 2_500, 3_000, 300
TRUSTED_MS = (
    SESSION_MS * 9 // 10
)  # since the last confirmed heartbeat was sent; shorter than the coordinator's session timeout
LIFE_MS = (1_500, 8_000)
ABSENCE_MS = (50, 1_500)
GIVE_UP_MS = (0, 400)
RETRY_MS = 100
BEGIN_AGAIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
)

Place = tuple[bytes, int]


class ConsumerGroupClients:
    def __init__(self, cluster: SimCluster, history: History, records: RecordClients, *, member_count: int) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._records, self._member_count = records, member_count
        self._random = cluster.world.random("members")
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

    @property
    def held_count(self) -> int:
        """The number of partitions that members hold now."""
        return sum(len(member.held) for member in self._members.values())

    def _live(self, slot: int) -> None:
        if self._is_over:
            return
        self._life_count += 1
        client = make_client(self.cluster, f"member-{self._life_count}")
        instance_id = f"static-{slot}" if slot == 0 else None
        member = self._members[slot] = _Member(self.cluster, self.history, client, instance_id)
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

    def __init__(self, cluster: SimCluster, history: History, client: WireClient, instance_id: str | None) -> None:
        self.cluster, self.history, self.world, self.client = cluster, history, cluster.world, client
        self.is_leaving = False
        self.held: dict[Place, Operation] = {}
        self._instance_id = instance_id
        self._epoch = 0
        self._is_confirmed = False  # whether the coordinator has confirmed the member's current description
        self._trusted_until_ns = 0

    def begin(self) -> None:
        self.world.note(self.client.name, "begins")
        ClientTasks(self.world).start(self.client, self._run())

    def die(self) -> None:
        self._give_up(list(self.held))
        if not self.client.loop.is_dead:
            self.world.note(self.client.name, "dies")
            self.client.loop.kill()
            self.world.wires.process_died(self.client.name)

    async def _run(self) -> None:
        random = self.world.random(self.client.name)
        routing = routing_of(self.cluster, self.client)
        while not self.is_leaving:
            sent_ns = self.world.time.now_ns
            pause_ms = RETRY_MS
            try:
                answer = await self._ask(routing, self._epoch)
            except ClientError as trouble:
                self.world.note(self.client.name, f"has trouble: {type(trouble).__name__}: {trouble}")
                self._is_confirmed = False
            else:
                error = ErrorCode.of(answer.error_code)
                if error is ErrorCode.NONE:
                    self._trusted_until_ns = sent_ns + TRUSTED_MS * NS_PER_MS
                    asyncio.get_running_loop().call_later(TRUSTED_MS / 1000, self._look_at_the_clock)
                    gone = self._hear(answer)
                    if gone:
                        await asyncio.sleep(random.randint(*GIVE_UP_MS) / 1000)
                        self._give_up(gone)
                        continue
                    pause_ms = min(answer.heartbeat_interval_ms, HEARTBEAT_MS)
                else:
                    self._refused(routing, error)
            await asyncio.sleep(pause_ms / 1000)
        await self._leave(routing, random.random() < 0.5)
        await routing.close()

    async def _ask(self, routing: ClusterClient, epoch: int) -> ConsumerGroupHeartbeatResponse:
        says_all = epoch == 0 or not self._is_confirmed
        owned: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(self.held):
            owned.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMER_GROUP,
            member_id=self.client.name,
            member_epoch=epoch,
            instance_id=self._instance_id,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=[TOPIC] if says_all else None,
            topic_partitions=[TopicPartitions(topic_id=each, partitions=parts) for each, parts in owned.items()],
        )
        return await routing.ask_coordinator(
            CONSUMER_GROUP, request, ConsumerGroupHeartbeatResponse, timeout_ms=SESSION_MS // 2
        )

    def _hear(self, answer: ConsumerGroupHeartbeatResponse) -> list[Place]:
        """Takes over newly assigned partitions; returns those that the member must give up."""
        told = self.history.invoke(self.client.name, "-", "epoch", CONSUMER_GROUP)
        self.history.complete(told, OK, answer.member_epoch)
        self._epoch, self._is_confirmed = answer.member_epoch, True
        if answer.assignment is None:
            return []
        given = {(each.topic_id, index) for each in answer.assignment.topic_partitions for index in each.partitions}
        for place in sorted(given - self.held.keys()):
            self.held[place] = self.history.invoke(self.client.name, "-", "hold", f"{place[0].hex()} {place[1]}")
        return sorted(self.held.keys() - given)

    def _refused(self, routing: ClusterClient, error: ErrorCode) -> None:
        if error in BEGIN_AGAIN:
            self._begin_again()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self._begin_again()
            self.is_leaving = True
        else:
            self._is_confirmed = False
            routing.forget_coordinator(CONSUMER_GROUP)

    def _begin_again(self) -> None:
        self._give_up(list(self.held))
        self._epoch, self._is_confirmed = 0, False

    def _look_at_the_clock(self) -> None:
        """No heartbeat was confirmed for a long time, so the member may have been removed."""
        if self.world.time.now_ns >= self._trusted_until_ns and self._epoch:
            self._begin_again()

    def _give_up(self, places: list[Place]) -> None:
        for place in places:
            if place in self.held:
                self.history.complete(self.held.pop(place), OK)

    async def _leave(self, routing: ClusterClient, for_a_while: bool) -> None:  # noqa: FBT001
        self._give_up(list(self.held))
        if self._epoch:
            try:
                await self._ask(routing, -2 if for_a_while and self._instance_id is not None else -1)
            except ClientError as error:
                self.world.note(self.client.name, f"leaves unheard: {type(error).__name__}")
