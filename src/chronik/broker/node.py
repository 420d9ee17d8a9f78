"""One node: its parts, and the order in which they start and stop.

Start: admin listener, data directory, logs, quorum, metadata, listeners, registration. A registered node serves
clients.

Stop: leaderships are transferred to other nodes first. Then the parts stop in reverse order, listeners first, so that
no client is served by half a node. After a failed fsync, a broken invariant or the failure of a task that must never
end, the node acknowledges nothing more and stops.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from chronik.broker import limits
from chronik.broker.admin import Admin
from chronik.broker.api import served_apis
from chronik.broker.authorizer import AllowEverything
from chronik.broker.awaited import Awaited
from chronik.broker.conditions import Conditions
from chronik.broker.connection import Connection
from chronik.broker.connections import Connections
from chronik.broker.coordinators import INTERNAL, Coordinators
from chronik.broker.described_topics import DescribedTopics
from chronik.broker.disk_errors import advice
from chronik.broker.disk_watch import DiskWatch
from chronik.broker.dispatch import Dispatcher
from chronik.broker.errors import CannotStart, DutyFailed
from chronik.broker.features import AT_FOUNDING
from chronik.broker.fetch_sessions import FetchSessions
from chronik.broker.following import Following
from chronik.broker.identity import keep_used, read_identity, require_disk, settle_identity
from chronik.broker.image_directory import ImageDirectory
from chronik.broker.lifecycle import Lifecycle
from chronik.broker.live_settings import LiveSettings
from chronik.broker.memory import MemoryBudget
from chronik.broker.metadata_mark import read_mark, write_mark
from chronik.broker.metrics import Censuses, Metrics
from chronik.broker.producer_ids import ProducerIds
from chronik.broker.registrations import Registrations
from chronik.broker.replication import Replication
from chronik.broker.services import Services
from chronik.broker.settings import Settings
from chronik.broker.settings.listeners import EVERYWHERE, are_all_own
from chronik.broker.settings.resolving import LOOPBACK
from chronik.broker.turns import Turns
from chronik.coordinator.groups.coordinator import GroupCoordinator
from chronik.metadata.commands import PREFERRED, ElectLeaders
from chronik.metadata.decisions.decision import Rules, TopicShape
from chronik.metadata.errors import MetadataError
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.peer.peers import Peers
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.errors import RaftError
from chronik.raft.transport import TcpTransport
from chronik.replication.assignment import Replicas
from chronik.runtime.alarms import DISK_FULL, Alarms
from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Lane, Listener, Runtime
from chronik.runtime.invariants import InvariantBroken, hear_of_broken
from chronik.runtime.tasks import Tasks
from chronik.runtime.units import MINUTE_MS
from chronik.storage.config import LogsConfig
from chronik.storage.errors import StorageError, StorageFailed
from chronik.storage.logs import Logs
from chronik.storage.scrubber import Scrubber
from chronik.wire.framing import make_scratch

log = logging.getLogger("chronik.broker")

TURNS_TO_CLOSE = 10
WATCH_FILES_S = 2.0
LOGS_PER_LOOK = 200  # before the loop gets its turn: about a millisecond
MAINTENANCE_MS = 15_000  # between steps of compaction and checkpoints, if retention is not due earlier
BEGIN_PAUSE_S = 0.05  # between steps of taking up topics


class Node:
    """Made by `start`; `wait_stopped` returns when it has ended, by `stop` or by itself."""

    raft_config = RaftConfig()  # what no setting says

    dispatcher: Dispatcher
    logs: Logs
    store: MetadataStore
    replicas: Replicas
    coordinators: Coordinators
    groups: GroupCoordinator  # one of them
    scrubber: Scrubber
    broker_epoch: int
    incarnation_id: bytes  # of this process, by which other nodes know its fetches; drawn when it registers
    record_lane: Lane  # where batches are taken apart that would hold up the loop
    quorum: TcpTransport | None = None  # None: nobody can join this node

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        self.runtime = runtime
        self.live_settings = LiveSettings(settings)
        self.node_id = settings.node_id
        self.duties = Tasks(f"node {settings.node_id}", self._duty_failed)  # without which it is half a node
        self.tasks = Tasks(f"node {settings.node_id}", self._task_failed)  # each for one client, topic or partition
        self.scratch = make_scratch()  # of all connections: they share this node's event loop
        self.sends = runtime.network.sends()
        directory = ImageDirectory(lambda: self.store.image, lambda: self.settings.inter_broker_listener_name)
        self.peers = Peers(runtime, directory, client_id=f"broker-{self.node_id}", scratch=self.scratch)
        self.alarms = Alarms(runtime.clock)
        self.conditions = Conditions(self)
        self.awaited = Awaited()
        self.turns = Turns(runtime.clock)
        budget_bytes = settings.memory_budget_bytes
        self.memory = MemoryBudget(budget_bytes, budget_bytes // limits.HOST_SHARE)
        self.connections = Connections(
            runtime.clock,
            connections_max=min(settings.max_connections, runtime.network.connections_max),
            idle_ms_max=settings.connections_max_idle_ms,
            per_host_max=settings.max_connections_per_ip,
            per_host_overrides=settings.max_connections_per_ip_overrides,
            is_memory_short=lambda: self.memory.is_short,
        )
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            runtime.randomness.below,
            budget_bytes // limits.KEPT_SHARE,
            self.memory.keep,
        )
        self.producer_ids = ProducerIds(self)
        self.described_topics = DescribedTopics()
        self.metrics = Metrics()
        self.census = Censuses()
        self.admin = Admin(self)
        self.listeners: dict[str, Listener] = {}  # by listener name
        self.lifecycle = Lifecycle(self)
        self._serves = False  # registered, and not stopping yet
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop_hearing = hear_of_broken(asyncio.get_running_loop(), self.stop_broken)

    @classmethod
    async def start(cls, runtime: Runtime, settings: Settings) -> Node:
        """Raises CannotStart with what stands in the way: another node's directory, damage, a failing disk."""
        node = cls(runtime, settings)
        try:
            await node._open_unless_broken()
        except BaseException as fault:
            await node.stop()
            if isinstance(fault, (RuntimeFault, StorageError, MetadataError, RaftError)):
                raise CannotStart(str(fault)) from fault
            if isinstance(fault, OSError) and (text := advice(fault, settings)):
                raise CannotStart(text) from fault
            raise
        return node

    async def _open_unless_broken(self) -> None:
        """A disk may fail while the node waits for others, who would wait for it in vain."""
        opening = asyncio.ensure_future(self._open())
        try:
            await asyncio.wait([opening, self._ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if self._ended.done() and not opening.cancelled():
            opening.exception()  # read here: what the failure brought about is no error of its own
        await (self._ended if self._ended.done() else opening)

    async def _open(self) -> None:
        runtime, settings = self.runtime, self.settings
        require_both_roles(settings)
        await self.admin.open()
        self.duties.start("disk", DiskWatch(self).run())
        runtime.disk.make_directory(settings.log_dir)
        self.record_lane = runtime.disk.lane("records")
        identity = read_identity(runtime, settings.log_dir, self.node_id)
        is_used = identity is not None and identity.is_used
        self.logs = await Logs.open(
            runtime,
            settings.log_dir,
            LogsConfig(
                producer_id_expiration_ms=settings.producer_id_expiration_ms,
                compacts=settings.log_cleaner_enable,
                stray_retention_ms=settings.stray_retention_ms,
            ),
            self._storage_failed,
            is_used=is_used,
            now_ms=runtime.clock.wall_ms(),
        )
        self.scrubber = Scrubber(self.logs, runtime.disk, runtime.clock, settings.scrub_interval_ms)
        self.conditions.opened()
        self.replication = Replication(self)
        self.replicas = self.replication.replicas
        self.coordinators = Coordinators(runtime, settings, self.memory)
        self.groups = self.coordinators.groups
        cluster_id = identity.cluster_id if identity else ""
        self.quorum = await self._listen_to_quorum(cluster_id)
        self.store = await MetadataStore.open(
            runtime,
            settings.metadata_dir,
            node_id=self.node_id,
            cluster_id=cluster_id or None,
            config=store_config(settings, self.raft_config),
            transport=self.quorum,
            notes=self.quorum,
            is_used=is_used,
            index_min=read_mark(runtime.disk, settings.log_dir),
        )
        self.lifecycle.say_if_it_waits_to_be_added()
        self.store.on_failure = self._store_failed
        self.store.on_answer = self.metrics.wrote_metadata
        await self.lifecycle.unless_outvoted(self.store.ready())
        is_empty = identity is None and not any(True for _ in self.logs.all())
        if is_empty and not settings.lost_disk_accept:
            require_disk(self.store.image, self.node_id, settings.log_dir)
        identity = settle_identity(
            runtime, settings.log_dir, identity, node_id=self.node_id, cluster_id=self.store.image.cluster_id
        )
        if self.quorum is not None:
            self.store.found_at(quorum_address(settings, self.quorum.address.port))
        self.dispatcher = Dispatcher(self._services(), served_apis())
        self.following = Following(self)
        self.following.begin()
        for listener in settings.listeners:
            made = partial(Connection, self, listener.name)
            self.listeners[listener.name] = await runtime.network.listen(listener.host, listener.port, made)  # type: ignore[arg-type]
        # A release that keeps no registrations may have registered since: then they say nothing.
        keeps_registrations = is_used and not self.logs.older_release_wrote
        registrations = Registrations(runtime.disk, settings.log_dir, is_used=keeps_registrations)
        registration = self.lifecycle.register(identity.directory_id, registrations)
        self.broker_epoch = await self.lifecycle.unless_outvoted(registration)
        keep_used(runtime, settings.log_dir, identity)
        self.following.join()
        self.replication.start()
        await self.following.clean_up()
        await self.store.joined()
        await self.lifecycle.join()
        self._serves = True
        self.connections.begin()
        self.duties.start("topics without records", self._begin_more())
        self.duties.start("heartbeats", self.lifecycle.keep_alive())
        self.duties.start("connections", self.connections.sweep())
        self.duties.start("maintenance", self._maintain())
        self.duties.start("files in place", self._watch_files())
        self.duties.start("scrubber", self.scrubber.run())
        self.duties.start("conditions", self.conditions.watch())
        self.duties.start("group expiry", self._expire_groups())
        self.duties.start("preferred leaders", self._prefer_leaders())

    def _services(self) -> Services:
        return Services(
            node_id=self.node_id,
            runtime=self.runtime,
            live_settings=self.live_settings,
            authorizer=AllowEverything(),
            store=self.store,
            logs=self.logs,
            replicas=self.replicas,
            coordinators=self.coordinators,
            producer_ids=self.producer_ids,
            fetch_sessions=self.fetch_sessions,
            described_topics=self.described_topics,
            metrics=self.metrics,
            memory=self.memory,
            turns=self.turns,
            peers=self.peers,
            record_lane=self.record_lane,
        )

    async def _listen_to_quorum(self, cluster_id: str) -> TcpTransport | None:
        if not self.settings.controller_listeners:
            return None
        listener = self.settings.controller_listeners[0]
        address = Address(listener.host, listener.port)
        quorum = await TcpTransport.listen(
            self.runtime,
            address,
            cluster_id=cluster_id,
            node_id=self.node_id,
            configured=[voter.node_id for voter in self.settings.voters],
            secret=self.settings.quorum_secret,
        )
        quorum.on_stranger = self.lifecycle.met_stranger
        return quorum

    # --- what other parts ask

    @property
    def settings(self) -> Settings:
        """As they are now: an operator may change them at any time."""
        return self.live_settings.now

    @property
    def cluster_id(self) -> str:
        return self.store.image.cluster_id

    @property
    def is_open(self) -> bool:
        """Whether the metadata can be read; a node that is starting may wait for that."""
        return hasattr(self, "store")

    @property
    def failure(self) -> str | None:
        """Why the node has ended by itself; None while it has not."""
        if not self._ended.done() or self._ended.exception() is None:
            return None
        return str(self._ended.exception())

    def port(self, listener: str | None = None) -> int:
        """The real port, also where 0 was asked for."""
        return self.listeners[listener or next(iter(self.listeners))].port

    # --- background work

    async def _begin_more(self) -> None:
        """After a restart among thousands of topics clients come first, then those of which this node has nothing."""
        are_more = True
        while are_more:
            await asyncio.sleep(BEGIN_PAUSE_S)
            are_more = self.replicas.begin_more()
        # Retention goes by high watermarks, which a partition has once it is opened, be it read and written to or not.
        for count, log in enumerate(list(self.logs.all())):
            if count % LOGS_PER_LOOK == LOGS_PER_LOOK - 1:
                await asyncio.sleep(BEGIN_PAUSE_S)
            self.replicas.opened((log.topic_id, log.partition))

    async def _maintain(self) -> None:
        """Retention runs every log.retention.check.interval.ms, and soon after a start.

        While the disk is full it runs at every step, because it makes space.
        """
        until_check_ms = 0
        while True:
            interval_ms = self.settings.log_retention_check_interval_ms
            step_ms = min(until_check_ms or interval_ms, MAINTENANCE_MS)
            await asyncio.sleep(step_ms / 1000)
            until_check_ms = max(until_check_ms - step_ms, 0)
            retains = until_check_ms == 0 or self.alarms.is_active(DISK_FULL, self.settings.log_dir)
            await self.logs.maintain(self.runtime.clock.wall_ms(), self.conditions.wall_clock.now_ms, retains=retains)
            until_check_ms = until_check_ms or interval_ms

    async def _watch_files(self) -> None:
        """Files that somebody removes under a running node take what is written to them along, and no write fails."""
        while True:
            await asyncio.sleep(WATCH_FILES_S)
            for count, _ in enumerate(self.logs.look_for_vanished()):
                if count % LOGS_PER_LOOK == LOGS_PER_LOOK - 1:
                    await asyncio.sleep(0)
            if not self.store.raft.is_log_in_place:
                self.stop_broken(StorageFailed(OSError(f"{self.settings.metadata_dir}/raft was removed or replaced")))

    async def _expire_groups(self) -> None:
        while True:
            await asyncio.sleep(self.settings.offsets_retention_check_interval_ms / 1000)
            retention_ms = self.settings.offsets_retention_minutes * MINUTE_MS
            await self.groups.expire(self.conditions.wall_clock.now_ms(retention_ms))

    async def _prefer_leaders(self) -> None:
        """As controller: gives leaderships back to the first replicas, which lost them while they were away."""
        while True:
            await asyncio.sleep(self.settings.leader_imbalance_check_interval_seconds)
            if not self.settings.auto_leader_rebalance_enable or not self.store.is_controller:
                continue
            try:
                await self.store.submit(ElectLeaders(election_type=PREFERRED, topics=None))
            except MetadataError as error:
                log.warning("leadership was not returned to preferred leaders: %s", error)

    # --- the end

    async def stop(self) -> None:
        """A clean end: leaderships handed over, then no new requests, answers under way are given up, all synced."""
        if self._serves and not self._ended.done():
            self._serves = False
            await self.lifecycle.hand_over()
        for listener in self.listeners.values():
            listener.close()
        self.admin.close()
        self.connections.close_all("the node is stopping")
        if hasattr(self, "replication"):
            self.replication.stop()
        self.peers.close()
        await self.tasks.stop()
        await self.duties.stop()
        for _ in range(TURNS_TO_CLOSE):  # the loop must let go of its transports before anybody closes it
            await asyncio.sleep(0)
        self.sends.close()
        if hasattr(self, "store"):
            if self.failure is None and hasattr(self, "broker_epoch"):
                # On the lane, behind a mark that may be under way: both go through the same temporary file.
                index = self.store.raft.durable_index
                await self.record_lane.run(partial(write_mark, self.runtime.disk, self.settings.log_dir, index))
            await self.store.close()
        if self.quorum is not None:
            await self.quorum.stop()
        if hasattr(self, "scrubber"):
            self.scrubber.close()
        if hasattr(self, "logs"):
            await self.logs.close()
        if hasattr(self, "record_lane"):
            self.record_lane.close()
        self._stop_hearing()
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait_stopped(self) -> None:
        """Returns after `stop`; raises what made the node end by itself."""
        await asyncio.shield(self._ended)

    def stop_broken(self, cause: BaseException) -> None:
        """Something that must never happen did: acknowledge nothing more, and end."""
        log.critical("stopping: %s", cause, exc_info=cause)
        for listener in self.listeners.values():
            listener.close()
        self.connections.close_all("the node has failed")
        if not self._ended.done():
            self._ended.set_exception(cause)

    def _storage_failed(self, failure: BaseException) -> None:
        self.stop_broken(failure)

    def _store_failed(self, failure: BaseException) -> None:
        self.stop_broken(failure)

    def _task_failed(self, name: str, failure: Exception) -> None:
        """It is logged, and costs whoever it was for; unless it proves that the node is not what it should be."""
        if isinstance(failure, InvariantBroken):
            self.stop_broken(failure)

    def _duty_failed(self, name: str, failure: Exception) -> None:
        if not self._ended.done():  # else it failed for the same reason, most likely
            self.stop_broken(DutyFailed(name, failure))


def require_both_roles(settings: Settings) -> None:
    """Raises CannotStart. A node with one role would wait for ever: nothing connects a broker to a quorum apart."""
    if not (settings.is_broker and settings.is_controller):
        raise CannotStart(
            f"process.roles={settings.layers.value('process.roles')}: in this release every node is both, so set "
            "process.roles=broker,controller; and list the node in controller.quorum.voters, or leave that empty, set "
            "controller.quorum.bootstrap.servers and add the node with `chronik cluster add`"
        )


def quorum_address(settings: Settings, port: int) -> Address:
    """Where other nodes reach this one's part of the quorum: on the host that clients are told, if it has no other."""
    host = settings.controller_listeners[0].host
    if host in EVERYWHERE:
        host = next((each.host for each in settings.advertised_listeners if each.host not in EVERYWHERE), LOOPBACK)
    return Address(host, port)


def store_config(settings: Settings, raft: RaftConfig | None = None) -> StoreConfig:
    voters = {voter.node_id: Address(voter.host, voter.port) for voter in settings.voters}
    bootstrap = settings.controller_quorum_bootstrap_servers
    # A file that names only its own node as the way to the quorum, as Kafka's own does, founds one.
    if not voters and (
        not bootstrap or are_all_own(bootstrap, settings.controller_listeners, settings.machine.host_name)
    ):
        voters = {settings.node_id: Address("", 0)}
    return StoreConfig(
        voters=voters if settings.node_id in voters else None,
        rules=Rules(
            topic_default=TopicShape(settings.num_partitions, settings.default_replication_factor),
            coordinator_topics={topic: row.shape(settings) for topic, row in INTERNAL.items()},
            static_configs=settings.layers.static,
        ),
        raft=replace(
            raft or RaftConfig(), snapshot_every_bytes=settings.metadata_log_max_record_bytes_between_snapshots
        ),
        broker_session_timeout_ms=settings.broker_session_timeout_ms,
        batching=settings.metadata_batching_enable,
        forwarding=settings.metadata_forwarding_enable,
        leases=settings.metadata_leases_enable,
        answer_timeout_ms=settings.controller_quorum_request_timeout_ms,
        features=AT_FOUNDING,
    )
