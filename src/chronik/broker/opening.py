"""Opens what a node has on its disk, and its part of the quorum: logs, quorum port, metadata store.

Each part registers with the base's closers, so that a start that fails halfway closes exactly what was open. The result
does not serve, lead or follow yet; `Node` starts that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from chronik.broker.conditions import Conditions
from chronik.broker.coordinators import INTERNAL
from chronik.broker.errors import CannotStart
from chronik.broker.features import AT_FOUNDING
from chronik.broker.identity import Identity, read_identity, require_used_first
from chronik.broker.metadata_mark import read_mark
from chronik.broker.node_base import NodeBase
from chronik.broker.settings import Settings
from chronik.broker.settings.listeners import are_all_own
from chronik.metadata.decisions.decision import Rules, TopicShape
from chronik.metadata.store import MetadataStore
from chronik.metadata.store_config import StoreConfig
from chronik.raft.addresses import Address
from chronik.raft.config import RaftConfig
from chronik.raft.transport import TcpTransport
from chronik.runtime.interfaces import Lane
from chronik.runtime.secured_network import SecuredNetwork
from chronik.storage.config import LogsConfig
from chronik.storage.logs import Logs
from chronik.storage.scrubber import Scrubber


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    identity: Identity | None  # None for a new directory
    record_lane: Lane  # for decoding batches that would block the loop
    logs: Logs
    scrubber: Scrubber
    conditions: Conditions
    quorum: TcpTransport | None  # None if other nodes cannot join this one
    store: MetadataStore

    @property
    def is_used(self) -> bool:
        """Whether a node has joined a cluster with this directory."""
        return self.identity is not None and self.identity.is_used


async def open_data(base: NodeBase, raft_config: RaftConfig) -> Opened:
    """Raises CannotStart, or the error of the layer that failed."""
    runtime, settings, closers = base.runtime, base.settings, base.closers
    require_both_roles(settings)
    base.certificates.open()
    await base.admin.open()
    base.duties.start("disk", base.disk_watch.run())
    require_used_first(runtime, settings.log_dir, settings.other_log_dirs)
    runtime.disk.make_directory(settings.log_dir)
    record_lane = runtime.disk.lane("records")
    closers.callback(record_lane.close)
    if settings.metadata_dir != settings.log_dir:
        lock = f"{settings.metadata_dir}/.lock"
        runtime.disk.make_directory(settings.metadata_dir)
        runtime.disk.lock(lock)
        closers.callback(runtime.disk.unlock, lock)
    identity = read_identity(runtime, settings.log_dir, base.node_id)
    is_used = identity is not None and identity.is_used
    logs = await Logs.open(
        runtime,
        settings.log_dir,
        LogsConfig(
            producer_id_expiration_ms=settings.producer_id_expiration_ms,
            compacts=settings.log_cleaner_enable,
            stray_retention_ms=settings.stray_retention_ms,
        ),
        base.stop_broken,
        is_used=is_used,
        now_ms=runtime.clock.wall_ms(),
        owner=identity.directory_id if identity is not None and is_used else b"",
    )
    closers.push_async_callback(logs.close)
    scrubber = Scrubber(logs, runtime.disk, runtime.clock, settings.scrub_interval_ms)
    closers.callback(scrubber.close)
    conditions = Conditions(base, logs, record_lane)
    conditions.opened()
    cluster_id = identity.cluster_id if identity else ""
    quorum = await _listen_to_quorum(base, cluster_id)
    if quorum is not None:
        closers.push_async_callback(quorum.stop)
    store = await MetadataStore.open(
        runtime,
        settings.metadata_dir,
        node_id=base.node_id,
        cluster_id=cluster_id or None,
        config=store_config(settings, raft_config),
        transport=quorum,
        notes=quorum,
        is_used=is_used,
        index_min=read_mark(runtime.disk, settings.log_dir),
    )
    closers.push_async_callback(store.close)
    store.on_failure = base.stop_broken
    store.on_answer = base.metrics.wrote_metadata
    return Opened(
        identity=identity,
        record_lane=record_lane,
        logs=logs,
        scrubber=scrubber,
        conditions=conditions,
        quorum=quorum,
        store=store,
    )


async def _listen_to_quorum(base: NodeBase, cluster_id: str) -> TcpTransport | None:
    settings = base.settings
    if not settings.controller_listeners:
        return None
    listener = settings.controller_listeners[0]
    certificates = base.certificates
    network = SecuredNetwork(base.runtime.network, certificates.client_to(listener.name))
    transport = await TcpTransport.listen(
        base.runtime._replace(network=network),
        Address(listener.host, listener.port),
        cluster_id=cluster_id,
        node_id=base.node_id,
        configured=[voter.node_id for voter in settings.voters],
        secret=settings.quorum_secret,
        tls=certificates.server(listener.name),
        why_refused=partial(certificates.why_not_in_quorum, listener.name),
    )
    certificates.attach(listener.name, transport.listener)
    return transport


def require_both_roles(settings: Settings) -> None:
    """Raises CannotStart. A node with one role would wait forever, because a broker cannot connect to a separate
    quorum."""
    if not (settings.is_broker and settings.is_controller):
        raise CannotStart(
            f"process.roles={settings.layers.value('process.roles')}: in this release every node is both, so set "
            "process.roles=broker,controller; and list the node in controller.quorum.voters, or leave that empty, set "
            "controller.quorum.bootstrap.servers and add the node with `chronik cluster add`"
        )


def store_config(settings: Settings, raft: RaftConfig | None = None) -> StoreConfig:
    voters = {voter.node_id: Address(voter.host, voter.port) for voter in settings.voters}
    bootstrap = settings.controller_quorum_bootstrap_servers
    # A file in which the quorum's bootstrap servers are only the node itself, as in Kafka's sample, founds a quorum.
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
        token_expiry_check_interval_ms=settings.delegation_token_expiry_check_interval_ms,
        batching=settings.metadata_batching_enable,
        forwarding=settings.metadata_forwarding_enable,
        leases=settings.metadata_leases_enable,
        answer_timeout_ms=settings.controller_quorum_request_timeout_ms,
        features=AT_FOUNDING,
    )
