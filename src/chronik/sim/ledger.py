"""The quorum by itself: a state machine that records proposals, and a writer that does not wait between them.

The metadata store has one entry in flight, so diverging logs never differ by much. Here they do: an isolated leader
keeps accepting proposals, and after every restart all of them must be gone, or present.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping

from chronik.metadata.store import MetadataStore
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.driver import RaftNode
from chronik.raft.errors import RaftError
from chronik.raft.transport import TcpTransport
from chronik.runtime.interfaces import Runtime
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import OK, UNKNOWN, History, Operation
from chronik.sim.programs import CLUSTER_ID, CONTROLLER_PORT, Maker, Program, host_of

_NUMBER = struct.Struct(">Q")


class Ledger:
    """A StateMachine that records every applied number, in order."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def apply(self, index: int, term: int, data: bytes) -> None:
        self.numbers.append(_NUMBER.unpack(data)[0])

    def snapshot(self) -> bytes:
        return b"".join(map(_NUMBER.pack, self.numbers))

    def restore(self, index: int, data: bytes) -> None:
        self.numbers = [number for (number,) in _NUMBER.iter_unpack(data)]

    def refusal(self, data: bytes) -> str | None:
        return None if len(data) == _NUMBER.size else f"{len(data)} bytes are not a number"

    def snapshot_refusal(self, data: bytes) -> str | None:
        return None if len(data) % _NUMBER.size == 0 else f"{len(data)} bytes are not a list of numbers"

    def leadership_changed(self, *, leader_id: int | None, term: int, is_self: bool) -> None:
        pass


class LedgerProgram:
    store: MetadataStore | None = None

    def __init__(self, runtime: Runtime, node_id: int, voters: Mapping[int, Address], config: RaftConfig) -> None:
        self._runtime, self._node_id, self._voters, self._config = runtime, node_id, voters, config
        self.failed: Callable[[BaseException], None] = lambda _: None
        self.is_ready = False
        self.ledger = Ledger()
        self.raft: RaftNode | None = None

    async def run(self) -> None:
        at = Address(host_of(self._node_id), CONTROLLER_PORT)
        transport = await TcpTransport.listen(self._runtime, at, cluster_id=CLUSTER_ID, node_id=self._node_id)
        raft = await RaftNode.open(
            self._runtime,
            "/raft",
            node_id=self._node_id,
            voters=self._voters,
            transport=transport,
            machine=self.ledger,
            config=self._config,
        )
        raft.on_failure = self.failed
        self.raft = raft
        if raft.stopped:
            self.failed(RuntimeError("the quorum's node stopped while it started"))
            return
        self.is_ready = True


def ledger_programs(node_count: int, config: RaftConfig) -> Maker:
    voters = {node_id: Address(host_of(node_id), CONTROLLER_PORT) for node_id in range(1, node_count + 1)}

    def make(runtime: Runtime, node_id: int) -> Program:
        return LedgerProgram(runtime, node_id, voters, config)

    return make


class LedgerWriter:
    """Proposes a number every few milliseconds to its preferred node, while that node claims to lead."""

    def __init__(self, cluster: SimCluster, history: History, *, think_ms: tuple[int, int]) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._random = cluster.world.random("writer")
        self._think_ms = think_ms
        self._prefers = self._random.choice([*cluster.machines, 1])  # node 1 usually leads first
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._later()

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        """Proposals in dead processes are never answered."""
        return all(task.done() or task.get_loop().is_dead for task in self._tasks)  # type: ignore[attr-defined]

    def _later(self) -> None:
        if not self._is_over:
            self.world.time.after_ms(self._random.randint(*self._think_ms), self._propose)

    def _propose(self) -> None:
        machine = self.cluster.machines[self._prefers]
        if machine.is_up and machine.leads:
            self._propose_to(machine)
        elif self._random.random() < 0.02 and (leader := self.cluster.leader()) is not None:
            self._propose_to(leader)
        self._later()

    def _propose_to(self, machine: SimMachine) -> None:
        raft = machine.program.raft if machine.program is not None else None
        assert raft is not None
        assert machine.loop is not None
        operation = self.history.invoke("writer", machine.host, "propose", "ledger")
        operation.value = operation.number
        self._tasks.append(machine.loop.create_task(self._wait(raft, operation)))

    async def _wait(self, raft: RaftNode, operation: Operation) -> None:
        try:
            await raft.propose(_NUMBER.pack(operation.value))
        except RaftError as error:
            self.history.complete(operation, UNKNOWN, type(error).__name__)
        else:
            self.history.complete(operation, OK)
