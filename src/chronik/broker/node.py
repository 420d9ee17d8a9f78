"""One node: its parts, and the order in which they start and stop.

Start: admin listener, data directory, logs, quorum, metadata, listeners, registration. A registered node serves
clients.

Stop: leaderships are transferred to other nodes first. Then the parts stop in reverse order, listeners first, so that
no client is served by a partly stopped node. After a failed fsync, a broken invariant or the failure of a task that
must never end, the node acknowledges nothing more and stops.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from chronik.broker import limits
from chronik.broker.api import served_apis
from chronik.broker.audit import Audit
from chronik.broker.authorizer import AllowEverything, Authorizer, StandardAuthorizer
from chronik.broker.awaited import Awaited
from chronik.broker.connection import ServerConnection
from chronik.broker.coordinators import Coordinators, Parts, share_groups_config
from chronik.broker.creation import create_missing
from chronik.broker.delegation_tokens import DelegationTokens
from chronik.broker.described_topics import DescribedTopics
from chronik.broker.disk_errors import advice
from chronik.broker.disk_watch import come_back, give_way
from chronik.broker.dispatch import Dispatcher
from chronik.broker.errors import BadSetting, CannotStart
from chronik.broker.fenced_markers import FencedMarkers
from chronik.broker.fetch_sessions import FetchSessions
from chronik.broker.first_rules import bring_first_rules
from chronik.broker.first_users import bring_first_users
from chronik.broker.group_lag import GroupLags
from chronik.broker.hanging_transactions import HangingTransactions
from chronik.broker.identity import keep_used, require_disk, settle_identity
from chronik.broker.image_directory import ImageDirectory
from chronik.broker.image_listener import ImageListener
from chronik.broker.index_mending import IndexMending
from chronik.broker.lifecycle import Lifecycle
from chronik.broker.marker_connections import MarkerConnections, client_id_of
from chronik.broker.metadata_mark import write_mark
from chronik.broker.metrics import Censuses
from chronik.broker.node_base import NodeBase
from chronik.broker.opening import Opened, open_data
from chronik.broker.pages import NodePages
from chronik.broker.producer_connections import ProducerConnections
from chronik.broker.producer_ids import ProducerIds
from chronik.broker.quotas.client_quotas import ClientQuotas
from chronik.broker.registrations import Registrations
from chronik.broker.replica_manager import ReplicaManager
from chronik.broker.sasl.logins import ListenerLogins, ScramUsers
from chronik.broker.services import Services
from chronik.broker.settings import Settings
from chronik.broker.settings.listeners import EVERYWHERE
from chronik.broker.settings.resolving import LOOPBACK
from chronik.broker.share.persister import NodePersister
from chronik.broker.share.share_partitions import SharePartitions
from chronik.broker.signing_keys import SigningKeys
from chronik.broker.telemetry.receiver import Receiver
from chronik.broker.transaction_markers import LedHere, TransactionMarkers
from chronik.broker.transaction_partitions import TransactionPartitions
from chronik.coordinator.share.coordinator import STATE_TOPIC as SHARE_STATE_TOPIC
from chronik.metadata.commands.elect_leaders import PREFERRED, ElectLeaders
from chronik.metadata.errors import MetadataError
from chronik.peer.connections import Login, no_login
from chronik.peer.password_login import PasswordLogin
from chronik.peer.peers import Peers
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.errors import RaftError
from chronik.runtime.alarms import DISK_FULL
from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Runtime
from chronik.runtime.secured_network import SecuredNetwork
from chronik.runtime.units import MINUTE_MS
from chronik.security.errors import BadKey
from chronik.security.token_source import token_login
from chronik.storage.errors import StorageError, StorageFailed
from chronik.wire.framing import make_scratch
from chronik.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

log = logging.getLogger("chronik.broker")

WATCH_FILES_S = 2.0
LOGS_PER_LOOK = 200  # before the loop continues: about a millisecond
MAINTENANCE_MS = 15_000  # between steps of compaction and checkpoints, if retention is not due earlier
BEGIN_PAUSE_S = 0.05  # between two calls of `begin_more`
RAFT_CONFIG = RaftConfig()  # values without a setting


class Node:
    """Created by `start`. `wait_stopped` returns when it has ended, by `stop` or by itself.

    A Node is created when its data is open, and has all its parts from then on. Before that there is a NodeBase.
    """

    def __init__(self, base: NodeBase, opened: Opened) -> None:
        self._base = base
        self.runtime = base.runtime
        self.live_settings = base.live_settings
        self.node_id = base.node_id
        self.duties = base.duties
        self.tasks = base.tasks
        self.sends = base.sends
        self.alarms = base.alarms
        self.turns = base.turns
        self.memory = base.memory
        self.connections = base.connections
        self.metrics = base.metrics
        self.listeners = base.listeners
        self.admin = base.admin
        self.record_lane = opened.record_lane
        self.logs = opened.logs
        self.scrubber = opened.scrubber
        self.conditions = opened.conditions
        self.quorum = opened.quorum
        self.store = opened.store
        settings = base.settings
        self.scratch = make_scratch()  # shared by all connections, which share this node's event loop
        directory = ImageDirectory(lambda: self.store.image, lambda: self.settings.inter_broker_listener_name)
        self.certificates = base.certificates
        # Requests to other brokers use their inter-broker listeners.
        self.broker_network = SecuredNetwork(
            self.runtime.network, self.certificates.client_to(settings.inter_broker_listener_name)
        )
        secured = self.runtime._replace(network=self.broker_network)
        self.peers = Peers(
            secured, directory, client_id=client_id_of(self.node_id), login=self._login(), scratch=self.scratch
        )
        self._scram_users = ScramUsers(lambda: self.store.image)
        clock = self.runtime.clock
        self._tokens = DelegationTokens(settings.delegation_token_key, lambda: self.store.image, clock.wall_ms)
        self.awaited = Awaited()
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            self.runtime.randomness.below,
            settings.memory_budget_bytes // limits.KEPT_SHARE,
            self.memory.keep,
        )
        self.described_topics = DescribedTopics()
        self.telemetry = Receiver(self.runtime, self.memory, self.turns)
        self.quotas = ClientQuotas(self.runtime.clock, settings)
        self.census = Censuses()
        self.lifecycle = Lifecycle(self)
        self.producer_ids = ProducerIds(self)
        self.replication = ReplicaManager(self)
        self.replicas = self.replication.replicas
        markers = TransactionMarkers(
            lambda: self.store.image,
            self._send_markers,
            self.tasks.start,
            asyncio.sleep,
            LedHere(self.node_id, lambda: self.services),
            FencedMarkers(self.node_id, lambda: self.services).epoch_at,
        )
        self.persister = NodePersister(
            self.node_id,
            self.runtime,
            self.peers,
            lambda: self.store.image,
            lambda: self.coordinators.share,
            lambda: create_missing(self.services, [SHARE_STATE_TOPIC]),
            self.tasks.start,
        )
        self.coordinators = Coordinators(
            Parts(
                self.runtime,
                settings,
                self.memory,
                self.producer_ids.next,
                markers,
                self.persister,
                self.tasks.start,
            )
        )
        self.groups = self.coordinators.groups
        self.following = ImageListener(self)
        self.services = self._services()
        self.group_lags = GroupLags(self.services)
        self.dispatcher = Dispatcher(self.services, served_apis())
        self._serves = False  # registered, and not stopping yet

    @classmethod
    async def start(cls, runtime: Runtime, settings: Settings, raft_config: RaftConfig = RAFT_CONFIG) -> Node:
        """Raises CannotStart with the reason: another node's directory, damage, a failing disk."""
        base = NodeBase(runtime, settings)
        stop = base.end

        async def opened_and_joined() -> Node:
            nonlocal stop
            opened = await open_data(base, raft_config)
            node = cls(base, opened)
            stop = node.stop
            await node._join(opened)
            return node

        try:
            return await base.unless_broken(opened_and_joined())
        except BaseException as fault:
            await stop()
            if isinstance(fault, (RuntimeFault, StorageError, MetadataError, RaftError)):
                raise CannotStart(str(fault)) from fault
            if isinstance(fault, OSError) and (text := advice(fault, settings)):
                raise CannotStart(text) from fault
            raise

    async def _join(self, opened: Opened) -> None:
        """From open data to a serving node: the metadata becomes ready, clients can connect, the node registers."""
        runtime, settings = self.runtime, self.settings
        self.admin.show(NodePages(self._base, self))
        self._base.disk_watch.tell(partial(give_way, self), partial(come_back, self))
        if self.quorum is not None:
            self.quorum.on_stranger = self.lifecycle.met_stranger
            self.lifecycle.met_stranger()  # a message may have arrived while the store was opened
        self.lifecycle.say_if_it_waits_to_be_added()
        await self.lifecycle.unless_outvoted(self.store.ready())
        await bring_first_users(runtime.disk, settings.log_dir, self.store)
        obeyed = settings.access_policy is not None
        await bring_first_rules(runtime.disk, settings.log_dir, self.store, are_obeyed=obeyed)
        is_empty = opened.identity is None and not any(True for _ in self.logs.all())
        if is_empty and not settings.lost_disk_accept:
            require_disk(self.store.image, self.node_id, settings.log_dir)
        identity = settle_identity(
            runtime, settings.log_dir, opened.identity, node_id=self.node_id, cluster_id=self.store.image.cluster_id
        )
        await self.logs.belong_to(identity.directory_id)
        if self.quorum is not None:
            self.store.found_at(quorum_address(settings, self.quorum.address.port))
        self.following.begin()
        for listener in settings.listeners:
            logins = await self._logins(listener.name) if listener.needs_login else None
            made = partial(ServerConnection, self, listener.name, logins=logins)
            tls = self.certificates.server(listener.name)
            opened_at = await runtime.network.listen(listener.host, listener.port, made, tls)  # type: ignore[arg-type]
            self.listeners[listener.name] = opened_at
            self.certificates.attach(listener.name, opened_at)
        # A release without this file may have registered since then, which makes the file useless.
        keeps_registrations = opened.is_used and not self.logs.older_release_wrote
        registrations = Registrations(runtime.disk, settings.log_dir, is_used=keeps_registrations)
        await self.lifecycle.unless_outvoted(self.lifecycle.register(identity.directory_id, registrations))
        self._base.closers.push_async_callback(self._mark_metadata)
        keep_used(runtime, settings.log_dir, identity)
        self.following.join()
        self.replication.start()
        await self.following.clean_up()
        await self.lifecycle.join()
        self._serves = True
        self.connections.begin()
        self.duties.start("topics without records", self._begin_more())
        self.duties.start("heartbeats", self.lifecycle.keep_alive())
        self.duties.start("connections", self.connections.sweep())
        if self.certificates.are_used:
            self.duties.start("certificates", self.certificates.watch())
        self.duties.start("maintenance", self._maintain())
        self.duties.start("files in place", self._watch_files())
        self.duties.start("scrubber", self.scrubber.run())
        self.duties.start("conditions", self.conditions.watch(self.store.raft))
        self.duties.start("group expiry", self._expire_groups())
        self.duties.start("transactional id expiry", self._expire_transactional_ids())
        self.duties.start("hanging transactions", HangingTransactions(self.services).run())
        self.duties.start("preferred leaders", self._prefer_leaders())

    def _login(self) -> Login:
        """How this node logs in to other nodes."""
        own = self.settings.broker_login
        if own is None:
            return no_login
        if own.source is not None:
            try:
                return token_login(self.runtime, own.source)
            except BadKey as fault:
                raise BadSetting(fault.key, fault.value, fault.reason) from None
        login = PasswordLogin(self.runtime, own.mechanism, own.user, own.password)
        self._base.closers.callback(login.close)
        return login

    async def _logins(self, listener: str) -> ListenerLogins:
        runtime, signing_keys = self.runtime, await self._signing_keys(listener)
        return ListenerLogins(
            listener,
            self.live_settings,
            self._scram_users,
            runtime.randomness,
            runtime.clock,
            self.metrics,
            self._tokens,
            signing_keys,
        )

    async def _signing_keys(self, listener: str) -> SigningKeys | None:
        """The keys for the tokens that this listener accepts; None if it accepts none."""
        bearer = self.settings.sasl_listeners[listener].bearer
        if bearer is None:
            return None
        lane = self.runtime.disk.lane(f"signing keys of {listener}")
        self._base.closers.callback(lane.close)
        keys = SigningKeys(self.runtime, lane, listener, bearer, self.alarms)
        await keys.open()
        self.duties.start(f"signing keys of {listener}", keys.watch())
        return keys

    def _services(self) -> Services:
        return Services(
            node_id=self.node_id,
            runtime=self.runtime,
            live_settings=self.live_settings,
            authorizer=self._authorizer(),
            quotas=self.quotas,
            tokens=self._tokens,
            certificates=self.certificates,
            store=self.store,
            logs=self.logs,
            replicas=self.replicas,
            coordinators=self.coordinators,
            producer_ids=self.producer_ids,
            fetch_sessions=self.fetch_sessions,
            described_topics=self.described_topics,
            telemetry=self.telemetry,
            metrics=self.metrics,
            memory=self.memory,
            turns=self.turns,
            peers=self.peers,
            producer_connections=ProducerConnections(),
            marker_connections=MarkerConnections(),
            transaction_partitions=TransactionPartitions(
                self.node_id, self.peers, self.coordinators.transactions, self.tasks.start
            ),
            persister=self.persister,
            share_partitions=SharePartitions(
                self.persister,
                image=lambda: self.store.image,
                config=share_groups_config(self.settings),
                clock=self.runtime.clock,
                lane=self.record_lane,
                start=self.tasks.start,
                held_bytes_max=self.settings.memory_budget_bytes // limits.KEPT_SHARE,
                hold=self.memory.keep,
            ),
            index_mending=IndexMending(self.turns, self.tasks.start),
            record_lane=self.record_lane,
        )

    def _authorizer(self) -> Authorizer:
        policy = self.settings.access_policy
        if policy is None:
            return AllowEverything()
        return StandardAuthorizer(self.store, policy, Audit(self.runtime.clock.monotonic_ns))

    # --- used by other parts

    @property
    def settings(self) -> Settings:
        """The current settings: an operator may change them at any time."""
        return self.live_settings.now

    @property
    def cluster_id(self) -> str:
        return self.store.image.cluster_id

    @property
    def broker_epoch(self) -> int:
        """-1 until this process is registered."""
        return self.lifecycle.broker_epoch

    @property
    def failure(self) -> str | None:
        """Why the node has ended by itself; None while it has not."""
        return self._base.failure

    def port(self, listener: str | None = None) -> int:
        """The actual port, also if port 0 was configured."""
        return self.listeners[listener or next(iter(self.listeners))].port

    # --- background work

    async def _begin_more(self) -> None:
        """After a restart with thousands of topics, clients come first, then topics without a log here."""
        are_more = True
        while are_more:
            await asyncio.sleep(BEGIN_PAUSE_S)
            are_more = self.replicas.begin_more()
        # Retention needs high watermarks, which a partition only has once it is opened, even if it is not used.
        for count, log in enumerate(list(self.logs.all())):
            if count % LOGS_PER_LOOK == LOGS_PER_LOOK - 1:
                await asyncio.sleep(BEGIN_PAUSE_S)
            self.replicas.opened((log.topic_id, log.partition))

    async def _maintain(self) -> None:
        """Retention runs every log.retention.check.interval.ms, and soon after a start.

        While the disk is full it runs at every step, because it frees space.
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
        """Writes to a file that was removed while the node runs do not fail, and their data is lost."""
        while True:
            await asyncio.sleep(WATCH_FILES_S)
            for count, _ in enumerate(self.logs.look_for_vanished()):
                if count % LOGS_PER_LOOK == LOGS_PER_LOOK - 1:
                    await asyncio.sleep(0)
            if not self.store.raft.is_log_in_place:
                self.stop_broken(
                    StorageFailed(OSError(f"{self.settings.metadata_dir}/raft was removed, replaced or cut"))
                )

    async def _expire_groups(self) -> None:
        while True:
            await asyncio.sleep(self.settings.offsets_retention_check_interval_ms / 1000)
            retention_ms = self.settings.offsets_retention_minutes * MINUTE_MS
            await self.groups.expire(self.conditions.wall_clock.now_ms(retention_ms))

    async def _expire_transactional_ids(self) -> None:
        while True:
            interval_ms = self.settings.transaction_remove_expired_transaction_cleanup_interval_ms
            await asyncio.sleep(interval_ms / 1000)
            expiration_ms = self.settings.transactional_id_expiration_ms
            self.coordinators.transactions.expire(self.conditions.wall_clock.now_ms(expiration_ms))

    async def _send_markers(self, node_id: int, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        return await self.peers.ask(node_id, request, WriteTxnMarkersResponse)

    async def _prefer_leaders(self) -> None:
        """As controller: returns leaderships to preferred replicas, which lost them while they were away."""
        while True:
            await asyncio.sleep(self.settings.leader_imbalance_check_interval_seconds)
            if not self.settings.auto_leader_rebalance_enable or not self.store.is_controller:
                continue
            try:
                await self.store.submit(ElectLeaders(election_type=PREFERRED, topics=None))
            except MetadataError as error:
                log.warning("leadership was not returned to preferred leaders: %s", error)

    # --- stopping

    async def stop(self) -> None:
        """A clean stop: transfers leaderships, accepts no new requests, cancels pending ones, syncs everything."""
        if self._serves and not self._base.ended.done():
            self._serves = False
            await self.lifecycle.hand_over()
        self._base.close_doors("the node is stopping")
        self.replication.stop()
        self.peers.close()
        await self._base.end()

    async def wait_stopped(self) -> None:
        """Returns after `stop`; raises the error if the node has ended by itself."""
        await asyncio.shield(self._base.ended)

    def stop_broken(self, cause: BaseException) -> None:
        """After a broken invariant: acknowledges nothing more, and stops."""
        self._base.stop_broken(cause)

    async def _mark_metadata(self) -> None:
        """Call this before the store is closed. Runs on the lane, after a write that may be in progress, because both
        use the same temporary file."""
        if self.failure is None:
            index = self.store.raft.durable_index
            await self.record_lane.run(partial(write_mark, self.runtime.disk, self.settings.log_dir, index))


def quorum_address(settings: Settings, port: int) -> Address:
    """Where other nodes reach this node's quorum listener: at the host advertised to clients, if it has no other."""
    host = settings.controller_listeners[0].host
    if host in EVERYWHERE:
        host = next((each.host for each in settings.advertised_listeners if each.host not in EVERYWHERE), LOOPBACK)
    return Address(host, port)
