"""Nodes in simulated machines: one that asks through `Peers`, others that answer as a test tells them.

Everything runs in the simulator's virtual time, over its network. A node that answers can be killed and started again,
here or elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, cast

from chronik.peer.addresses import Address
from chronik.peer.peers import Peers
from chronik.runtime.interfaces import Runtime
from chronik.sim.clock import SimClock
from chronik.sim.loop import NS_PER_MS, ProcessLoop, VirtualTime
from chronik.sim.network import SimNetwork, Wires
from chronik.sim.randomness import SimRandomness
from tests.client.scripted import ScriptedBroker, ScriptedConnection

WITHIN_MS = 600_000


class Served(asyncio.Protocol):
    """A scripted broker's connection on a simulated transport."""

    def __init__(self, connection: ScriptedConnection) -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        written = cast(asyncio.Transport, transport)
        self._connection.opened(written.write, written.abort)

    def data_received(self, data: bytes) -> None:
        self._connection.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.closed()


class Machines:
    def __init__(self, seed: int = 1) -> None:
        self.time = VirtualTime()
        self.wires = Wires(self.time, Random(seed))
        self.loop = self.time.process("asker")
        self.addresses: dict[int, Address] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.connection_count = 0  # that nodes accepted
        self._processes: dict[str, ProcessLoop] = {}
        self.runtime = Runtime(
            SimClock(self.loop),
            None,  # type: ignore[arg-type]  # nothing here needs a disk
            SimNetwork(self.wires, "asker", self.loop),
            SimRandomness(Random(seed)),
        )

    # What `Peers` asks

    def address_of(self, node_id: int) -> Address | None:
        return self.addresses.get(node_id)

    def leader_of(self, topic: str, partition: int) -> int | None:
        return self.leaders.get((topic, partition))

    # What a test does

    def start(self, host: str, broker: ScriptedBroker, port: int = 9092) -> Address:
        """A process on a machine that listens and answers."""
        loop = self._processes[host] = self.time.process(host)
        network = SimNetwork(self.wires, host, loop)
        listening = loop.create_task(network.listen(host, port, lambda: self._accept(broker)))
        assert self.time.run_until(listening.done, within_ms=1000)
        return Address(host, port)

    def _accept(self, broker: ScriptedBroker) -> Served:
        self.connection_count += 1
        return Served(broker())

    def kill(self, host: str) -> None:
        self._processes.pop(host).kill()
        self.wires.process_died(host)

    def peers(self, **named: Any) -> Peers:
        return Peers(self.runtime, self, client_id="broker-1", **named)

    def run(self, work: Coroutine[Any, Any, None]) -> int:
        """Runs `work` in the asking node; returns the milliseconds that it took."""
        begun_ns = self.time.now_ns
        task = self.loop.create_task(work)
        assert self.time.run_until(task.done, within_ms=WITHIN_MS), "it takes for ever"
        task.result()
        return (self.time.now_ns - begun_ns) // NS_PER_MS
