"""The program of a simulated machine: a quorum node by itself, or a whole broker. The product's code, unchanged.

A program is started in its process's loop and exposes what checkers may observe. It always reports how it ended.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from typing import Protocol

from chronik.broker.node import Node
from chronik.broker.node_base import NodeBase
from chronik.broker.opening import Opened
from chronik.broker.settings import Settings
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.driver import RaftNode
from chronik.raft.transport import TcpTransport
from chronik.runtime.interfaces import Runtime

CONTROLLER_PORT = 9093
BROKER_PORT = 9092
CLUSTER_ID = "simulated"
FIRST_ID = 1  # first node id, unless a scenario draws another


def host_of(node_id: int) -> str:
    return f"node-{node_id}"


class Program(Protocol):
    """One start of one process. `failed` is called at most once, when it exits on its own."""

    failed: Callable[[BaseException], None]
    is_ready: bool  # it serves clients

    async def run(self) -> None:
        """Starts it; returns when it serves clients."""

    @property
    def store(self) -> MetadataStore | None: ...

    @property
    def raft(self) -> RaftNode | None: ...


Maker = Callable[[Runtime, int], Program]


class QuorumProgram:
    """The metadata store of one node with its quorum transport, without a broker."""

    raft_directory = "/metadata/raft"

    def __init__(self, runtime: Runtime, node_id: int, voters: Mapping[int, Address], config: RaftConfig) -> None:
        self._runtime, self._node_id, self._voters, self._config = runtime, node_id, voters, config
        self.failed: Callable[[BaseException], None] = lambda _: None
        self.is_ready = False
        self.store: MetadataStore | None = None

    @property
    def raft(self) -> RaftNode | None:
        return None if self.store is None else self.store._raft

    async def run(self) -> None:
        at = Address(host_of(self._node_id), CONTROLLER_PORT)
        transport = await TcpTransport.listen(self._runtime, at, cluster_id=CLUSTER_ID, node_id=self._node_id)
        # Broker sessions never expire here: no broker runs that could renew its own.
        config = StoreConfig(voters=self._voters, raft=self._config, broker_session_timeout_ms=1_000_000_000)
        store = await MetadataStore.open(
            self._runtime,
            "/metadata",
            node_id=self._node_id,
            cluster_id=CLUSTER_ID,
            config=config,
            transport=transport,
            notes=transport,
        )
        store.on_failure = self.failed
        self.store = store
        if store.raft.stopped:
            self.failed(RuntimeError("the quorum's node stopped while it started"))
            return
        await asyncio.sleep(0)
        self.is_ready = True


def quorum_programs(node_count: int, config: RaftConfig | None = None) -> Maker:
    voters = {node_id: Address(host_of(node_id), CONTROLLER_PORT) for node_id in range(1, node_count + 1)}

    def make(runtime: Runtime, node_id: int) -> Program:
        return QuorumProgram(runtime, node_id, voters, config or RaftConfig())

    return make


class BrokerProgram:
    """A complete node: broker, controller and everything below, with its own settings."""

    def __init__(self, runtime: Runtime, settings: Settings, raft_config: RaftConfig) -> None:
        self._runtime, self._settings, self._raft_config = runtime, settings, raft_config
        self.failed: Callable[[BaseException], None] = lambda _: None
        self.is_ready = False
        self.node: Node | None = None

    @property
    def store(self) -> MetadataStore | None:
        return None if self.node is None else self.node.store

    @property
    def raft(self) -> RaftNode | None:
        store = self.store
        return None if store is None else store._raft

    async def run(self) -> None:
        program = self

        class Watched(Node):
            """Visible to the checkers as soon as its data is open, not only when it serves."""

            def __init__(self, base: NodeBase, opened: Opened) -> None:
                super().__init__(base, opened)
                program.node = self

        node = await Watched.start(self._runtime, self._settings, self._raft_config)
        self.is_ready = True
        try:
            await node.wait_stopped()
        except Exception as error:  # noqa: BLE001 - whatever ended it is what the world is told
            self.failed(error)


def broker_programs(
    node_count: int,
    brokers: Mapping[str, object],
    joins: Callable[[int], bool] = lambda _: False,
    raft_config: RaftConfig | None = None,
    first_id: int = FIRST_ID,
    listeners: tuple[tuple[str, int], ...] = (),
) -> Maker:
    """`node_count` founders; `joins` says which nodes start later, and are added to the existing quorum.

    `listeners` are the names and ports of additional listeners.
    """

    def make(runtime: Runtime, node_id: int) -> Program:
        more = tuple(sorted(brokers.items()))
        settings = broker_settings(
            node_id, node_count, more, joins=joins(node_id), first_id=first_id, listeners=listeners
        )
        return BrokerProgram(runtime, settings, raft_config or RaftConfig())

    return make


@functools.cache  # a start of a node would spend more on reading its settings than on all the rest
def broker_settings(
    node_id: int,
    node_count: int,
    more: tuple[tuple[str, object], ...],
    *,
    joins: bool = False,
    first_id: int = FIRST_ID,
    listeners: tuple[tuple[str, int], ...] = (),
) -> Settings:
    ids = range(first_id, first_id + node_count)
    host = host_of(node_id)
    founders = {each: f"{host_of(each)}:{CONTROLLER_PORT}" for each in ids}
    if joins:
        quorum = ("controller_quorum_bootstrap_servers", ",".join(founders.values()))
    else:
        quorum = ("controller_quorum_voters", ",".join(f"{each}@{at}" for each, at in founders.items()))
    clients = ",".join(f"{name}://{host}:{port}" for name, port in (("PLAINTEXT", BROKER_PORT), *listeners))
    settings: dict[str, object] = {
        "node_id": node_id,
        "process_roles": "broker,controller",
        "log_dirs": "/data",
        "lost_disk_accept": True,  # disks are only exchanged here when their data is known to be lost
        "listeners": f"{clients},CONTROLLER://{host}:{CONTROLLER_PORT}",
        "advertised_listeners": clients,
        "controller_listener_names": "CONTROLLER",
        quorum[0]: quorum[1],
        "admin_listener": "none",
        "group_initial_rebalance_delay_ms": 0,
        "offsets_topic_num_partitions": 2,
    }
    return Settings.default(**(settings | dict(more)))
