"""The parts of the node that handlers use. Created once, when the node is about to serve; nothing in it is replaced
later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.broker.authorizer import Authorizer
    from chronik.broker.certificates import Certificates
    from chronik.broker.coordinators import Coordinators
    from chronik.broker.delegation_tokens import DelegationTokens
    from chronik.broker.described_topics import DescribedTopics
    from chronik.broker.fetch_sessions import FetchSessions
    from chronik.broker.index_mending import IndexMending
    from chronik.broker.live_settings import LiveSettings
    from chronik.broker.marker_connections import MarkerConnections
    from chronik.broker.memory import MemoryBudget
    from chronik.broker.metrics import Metrics
    from chronik.broker.producer_connections import ProducerConnections
    from chronik.broker.producer_ids import ProducerIds
    from chronik.broker.quotas.client_quotas import ClientQuotas
    from chronik.broker.settings import Settings
    from chronik.broker.share.share_partitions import SharePartitions
    from chronik.broker.telemetry.receiver import Receiver
    from chronik.broker.transaction_partitions import TransactionPartitions
    from chronik.broker.turns import Turns
    from chronik.coordinator.groups.coordinator import GroupCoordinator
    from chronik.coordinator.share.persister import Persister
    from chronik.coordinator.transactions.coordinator import TransactionCoordinator
    from chronik.metadata.store import MetadataStore
    from chronik.peer.peers import Peers
    from chronik.replication.assignment import Replicas
    from chronik.runtime.interfaces import Lane, Runtime
    from chronik.storage.logs import Logs


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    node_id: int
    runtime: Runtime
    live_settings: LiveSettings
    authorizer: Authorizer
    quotas: ClientQuotas
    tokens: DelegationTokens
    certificates: Certificates
    store: MetadataStore
    logs: Logs
    replicas: Replicas
    coordinators: Coordinators
    producer_ids: ProducerIds
    fetch_sessions: FetchSessions
    described_topics: DescribedTopics
    telemetry: Receiver
    metrics: Metrics
    memory: MemoryBudget
    turns: Turns
    peers: Peers  # requests to other nodes
    transaction_partitions: TransactionPartitions  # questions to the coordinators of transactions
    persister: Persister  # of what share groups have done with their records
    share_partitions: SharePartitions  # of share groups, as leader of their partitions
    index_mending: IndexMending
    producer_connections: ProducerConnections  # of producers that commit offsets in transactions
    marker_connections: MarkerConnections  # of nodes that send transaction markers
    record_lane: Lane  # for decoding batches that would block the loop

    @property
    def settings(self) -> Settings:
        """The current settings: an operator may change them at any time."""
        return self.live_settings.now

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions

    @property
    def cluster_id(self) -> str:
        return self.store.image.cluster_id

    @property
    def controller_id(self) -> int:
        leader_id = self.store.leader_id
        return -1 if leader_id is None else leader_id
