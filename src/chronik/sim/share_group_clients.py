"""Members of a share group that come, hold records, accept, release or reject them, and go.

Each life of a member is a process of its own, with the product's share consumer. Each delivery is a `deliver` operation
in the history, with the value and the delivery count; each record that a member accepts or rejects a `settle`
operation, however its request ends. Nothing is judged here.
"""

from __future__ import annotations

import asyncio

from chronik.client.admin import configs
from chronik.client.errors import ClientError
from chronik.client.routing import ClusterClient
from chronik.client.share_consumer import ShareConsumer
from chronik.client.share_session import Acknowledge, ShareFetchOptions, ShareRecord
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, History
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.wire_clients import ClientTasks, WireClient, make_client

SHARE_GROUP = "workers"
DELIVERIES_MAX = 5  # group.share.delivery.count.limit
LIFE_MS = (2_000, 9_000)
ABSENCE_MS = (50, 1_500)
WORK_MS = (0, 300)
RETRY_MS = 200
POLL_MS = 300
KINDS = (Acknowledge.ACCEPT,) * 8 + (Acknowledge.RELEASE, Acknowledge.RELEASE, Acknowledge.REJECT)


class ShareGroupClients:
    def __init__(self, cluster: SimCluster, history: History, records: RecordClients, *, member_count: int) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._records, self._member_count = records, member_count
        self._random = cluster.world.random("members")
        self._members: dict[int, _Member] = {}
        self._life_count = 0
        self._is_over = False
        self.is_calm = False  # nobody comes or goes any more

    def begin(self) -> None:
        self._records.begin()
        for slot in range(self._member_count):
            self._live(slot)

    def end(self) -> None:
        """Members read on: what producers have written must reach them."""
        self._is_over = True
        self._records.end()

    @property
    def are_answered(self) -> bool:
        return self._records.are_answered

    @property
    def unsettled_count(self) -> int:
        """Of records that were acknowledged to their producers."""
        made = {op.value for op in self.history.operations if op.kind == "produce" and op.status == OK}
        return len(made - settled(self.history))

    def _live(self, slot: int) -> None:
        self._life_count += 1
        client = make_client(self.cluster, f"member-{self._life_count}")
        member = self._members[slot] = _Member(self.cluster, self.history, client)
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
    """One life of one member."""

    def __init__(self, cluster: SimCluster, history: History, client: WireClient) -> None:
        self.cluster, self.history, self.world, self.client = cluster, history, cluster.world, client
        self.is_leaving = False
        self._random = self.world.random(client.name)

    def begin(self) -> None:
        self.world.note(self.client.name, "begins")
        ClientTasks(self.world).start(self.client, self._run())

    def die(self) -> None:
        if not self.client.loop.is_dead:
            self.world.note(self.client.name, "dies")
            self.client.loop.kill()
            self.world.wires.process_died(self.client.name)

    async def _run(self) -> None:
        routing = routing_of(self.cluster, self.client)
        options = ShareFetchOptions(max_records=self._random.choice((1, 3, 50)))
        while not self.is_leaving:
            consumer = ShareConsumer(routing, group_id=SHARE_GROUP, accepts=False, options=options)
            try:
                await routing.retrying(lambda: _begin_at_the_start(routing))
                consumer.subscribe([TOPIC])
                while not self.is_leaving:
                    await self._work(consumer, await consumer.poll(POLL_MS))
            except ClientError as trouble:  # the application begins again
                self.world.note(self.client.name, f"has trouble: {type(trouble).__name__}: {trouble}")
                await asyncio.sleep(RETRY_MS / 1000)
            finally:
                await consumer.close()
        await routing.close()

    async def _work(self, consumer: ShareConsumer, polled: list[ShareRecord]) -> None:
        for each in polled:
            value = (each.record.value or b"").decode()
            delivered = self.history.invoke(self.client.name, "-", "deliver", f"{each.at}", value)
            self.history.complete(delivered, OK, each.delivery_count)
        for each in polled:
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.randint(*WORK_MS) / 1000)
            kind = self._random.choice(KINDS)
            if kind is not Acknowledge.RELEASE:
                settled = self.history.invoke(
                    self.client.name, "-", "settle", f"{each.at}", (each.record.value or b"").decode()
                )
                self.history.complete(settled, OK, kind.name)
            consumer.acknowledge(each, kind)
        if polled and self._random.random() < 0.5:
            try:
                await consumer.commit()
            except ClientError as refused:  # they are delivered again
                self.world.note(self.client.name, f"could not acknowledge: {refused}")


def settled(history: History) -> set[str]:
    """Values that a member has accepted or rejected, or that had their last delivery."""
    return {
        op.value
        for op in history.operations
        if op.kind == "settle" or (op.kind == "deliver" and op.result == DELIVERIES_MAX)
    }


async def _begin_at_the_start(routing: ClusterClient) -> None:
    resource = configs.ConfigResource(configs.ResourceKind.GROUP, SHARE_GROUP)
    await configs.alter(routing, resource, set_to={"share.auto.offset.reset": "earliest"})
