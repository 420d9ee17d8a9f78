"""Operators that add nodes to the quorum and remove them, like `chronik cluster add` and `remove`, and that move
replicas between nodes, through any node.

Each is a process with one task and a time limit: failed requests are repeated through the next node, and a task that
takes too long is given up with unknown outcome. Several may run at once, on different nodes. An operator judges
nothing, and wipes a disk only after the cluster confirmed the removal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from chronik.client.addresses import Address
from chronik.client.admin import quorum, reassignments
from chronik.client.errors import ClientError, Refused
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.programs import CONTROLLER_PORT
from chronik.sim.record_clients import routing_of
from chronik.sim.wire_clients import WireClient, make_client
from chronik.wire.error_codes import ErrorCode

PAUSE_S = 0.1  # before asking the next node
LISTENS_ON, IS_STOPPED, RUNS_ON = range(3)  # the fate of a removed voter

# Answers to requests for what already holds; an earlier request that was given up may have succeeded.
DONE_BEFORE = frozenset(
    {
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
)

Ask = Callable[[ClusterClient], Awaitable[None]]
Work = Callable[["_Operator"], Awaitable[None]]


def take_in(cluster: SimCluster, machine: SimMachine, *, through: int, patience_ms: int) -> None:
    """Makes the machine a voter. One that was removed, or never a member, starts with an empty disk."""
    at = Address(machine.host, CONTROLLER_PORT)

    async def work(operator: _Operator) -> None:
        if machine.is_forgotten and not machine.is_away:
            # It may run as a member, because a request that was given up succeeded: stop it before replacing its disk.
            machine.retire()
            if not await operator.remove(machine):
                machine.return_to_service()
                return
        if machine.is_forgotten:
            machine.come_new()
        machine.start()
        await operator.ask(
            f"add {machine}",
            machine,
            lambda to: quorum.add(to, machine.node_id, at, timeout_ms=operator.left_ms),
        )

    _begin(cluster, machine, work, through, patience_ms)


def let_go(cluster: SimCluster, machine: SimMachine, *, fate: int, through: int, patience_ms: int) -> None:
    """Removes the machine's vote, and unless it stays as a learner, unregisters it.

    A removed node that keeps running was presumed dead, and may be isolated: it must do no harm when it returns.
    """

    async def work(operator: _Operator) -> None:
        if machine.is_away:
            return  # it is not a member
        if fate == IS_STOPPED:
            machine.retire()
        is_gone = await operator.remove(machine)
        if is_gone and fate != LISTENS_ON:
            machine.is_forgotten = is_gone = await operator.forget(machine)
        if fate == IS_STOPPED and not is_gone:
            machine.return_to_service()

    _begin(cluster, machine, work, through, patience_ms)


def move(
    cluster: SimCluster, at: TopicPartition, replicas: Sequence[int] | None, *, through: int, patience_ms: int
) -> None:
    """Assigns the partition to these nodes, once they have caught up; None cancels such a move."""
    client = make_client(cluster, f"operator-{len(cluster.operators) + 1}")
    operator = _Operator(cluster, client, through, patience_ms)

    async def ask(to: ClusterClient) -> None:
        for refused in (await reassignments.move(to, {at: replicas})).values():
            if refused is not None:
                raise refused

    where = "back" if replicas is None else f"to {', '.join(map(str, replicas))}"
    _start(cluster, client, operator.ask(f"move {at} {where}", None, ask))


def _begin(cluster: SimCluster, machine: SimMachine, work: Work, through: int, patience_ms: int) -> None:
    client = make_client(cluster, f"operator-{len(cluster.operators) + 1}")
    operator = _Operator(cluster, client, through, patience_ms)

    async def begin() -> None:
        if machine.is_attended:
            return  # two operators would interfere with each other
        machine.is_attended = True
        await work(operator)
        machine.is_attended = False

    _start(cluster, client, begin())


def _start(cluster: SimCluster, client: WireClient, work: Coroutine[Any, Any, Any]) -> None:
    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            cluster.world.violated("no unhandled error", f"{client.name}: {error!r}")

    task = client.loop.create_task(work, name=client.name)
    task.add_done_callback(ended)
    cluster.operators.append(task)


class _Operator:
    def __init__(self, cluster: SimCluster, client: WireClient, through: int, patience_ms: int) -> None:
        self._cluster, self._client = cluster, client
        self._through = through
        self._routings: dict[int, ClusterClient] = {}
        self._give_up_s = client.loop.time() + patience_ms / 1000

    @property
    def left_ms(self) -> int:
        return max(0, int((self._give_up_s - self._client.loop.time()) * 1000))

    async def forget(self, machine: SimMachine) -> bool:
        """As a broker first, which also removes it from the quorum, unless a node failed in between; then retried."""
        machine.may_end = True  # it learns that it is not registered, and exits
        is_gone = await self.ask(f"forget {machine}", machine, lambda to: quorum.unregister(to, machine.node_id))
        return is_gone and await self.remove(machine)

    async def remove(self, machine: SimMachine) -> bool:
        return await self.ask(f"remove {machine}", machine, lambda to: quorum.remove(to, machine.node_id))

    async def ask(self, what: str, about: SimMachine | None, ask: Ask) -> bool:
        """Whether it is done. False: the operator gave up, and it may be done or not, now or later."""
        while self.left_ms:
            node_id = self._next_node(about)
            try:
                async with asyncio.timeout(self.left_ms / 1000):
                    await ask(self._to(node_id))
            except (ClientError, TimeoutError) as error:
                is_done = isinstance(error, Refused) and error.kafka_error in DONE_BEFORE
                self._note(f"{what}, through node-{node_id}: {type(error).__name__} {error}")
                if is_done:
                    return True
            else:
                self._note(f"{what}, through node-{node_id}: done")
                return True
            await asyncio.sleep(PAUSE_S)
        self._note(f"{what}: given up")
        return False

    def _to(self, node_id: int) -> ClusterClient:
        """Left open: it ends with the process."""
        if node_id not in self._routings:
            self._routings[node_id] = routing_of(self._cluster, self._client, [node_id])
        return self._routings[node_id]

    def _next_node(self, about: SimMachine | None) -> int:
        """In turn, but never the node that is added or removed."""
        while True:
            node_id = 1 + (self._through - 1) % len(self._cluster.machines)
            self._through += 1
            if about is None or node_id != about.node_id:
                return node_id

    def _note(self, what: str) -> None:
        self._cluster.world.note(self._client.name, what)
