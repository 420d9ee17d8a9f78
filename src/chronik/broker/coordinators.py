"""The internal topics, and the coordinators whose state they hold: one row of a table for each.

Everything that differs between two coordinators, as the rest of the broker sees them, stands in its row: the key type
that clients ask for in FindCoordinator, the shape and configs of the topic, and how its coordinator is made. The other
modules go through the table: `image_listener` loads and unloads partitions, `find_coordinator` names their leaders,
`creation` and `node` make the topics, `topics` protects them from clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from chronik.broker import limits
from chronik.coordinator.groups.config import GroupsConfig, MigrationPolicy
from chronik.coordinator.groups.coordinator import GroupCoordinator
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.share.protocol import ShareParts
from chronik.coordinator.groups.share.settings import ShareGroupsConfig
from chronik.coordinator.groups.streams.settings import StreamsGroupsConfig
from chronik.coordinator.share.config import ShareCoordinatorConfig
from chronik.coordinator.share.coordinator import STATE_TOPIC as SHARE_STATE_TOPIC
from chronik.coordinator.share.coordinator import ShareCoordinator
from chronik.coordinator.transactions.config import TransactionsConfig
from chronik.coordinator.transactions.coordinator import STATE_TOPIC, TransactionCoordinator
from chronik.metadata.decisions.decision import TopicShape
from chronik.runtime.units import MINUTE_MS
from chronik.wire.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from chronik.broker.memory import MemoryBudget
    from chronik.broker.settings import Settings
    from chronik.coordinator.shard import StatePartition
    from chronik.coordinator.share.persister import Persister
    from chronik.coordinator.transactions.markers import MarkerWriter
    from chronik.metadata.delta import Changes
    from chronik.metadata.image import Image
    from chronik.runtime.interfaces import Runtime

GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = 0, 1, 2  # key types of FindCoordinator


class Parts(NamedTuple):
    """What coordinators are made of."""

    runtime: Runtime
    settings: Settings
    memory: MemoryBudget
    next_producer_id: Callable[[], Awaitable[int]]
    markers: MarkerWriter
    persister: Persister
    start: Callable[[str, Coroutine[Any, Any, None]], object]  # runs a coroutine as a task of the node


class Coordinator(Protocol):
    """What the broker needs of a coordinator, besides the methods that its own handlers call."""

    partition_count: int  # of its topic; the broker sets it when the topic exists

    def partition_for(self, key: str) -> int: ...

    async def load(self, partition: StatePartition) -> None:
        """This node leads the partition now. Returns when its state is served."""

    def unload(self, partition_index: int, leader_epoch: int | None = None) -> None: ...

    def image_changed(self, image: Image, changes: Changes) -> None:
        """The metadata changed. Must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTopic:
    topic: str
    key_type: int
    shape: Callable[[Settings], TopicShape]  # when the topic is created
    configs: Callable[[Settings], Mapping[str, str]]  # of the topic, beside the defaults
    make: Callable[[Parts], Coordinator]


def _make_groups(parts: Parts) -> GroupCoordinator:
    runtime, settings, memory = parts.runtime, parts.settings, parts.memory
    return GroupCoordinator(
        groups_config(settings),
        runtime.clock,
        runtime.randomness,
        settings.offsets_topic_num_partitions,
        MemberMemory(settings.memory_budget_bytes // limits.KEPT_SHARE, memory.keep),
        ShareParts(parts.persister, parts.start),
    )


def groups_config(settings: Settings) -> GroupsConfig:
    return GroupsConfig(
        session_timeout_ms_min=settings.group_min_session_timeout_ms,
        session_timeout_ms_max=settings.group_max_session_timeout_ms,
        size_max=settings.group_max_size,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_session_limits=(
            settings.group_consumer_min_session_timeout_ms,
            settings.group_consumer_max_session_timeout_ms,
        ),
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_heartbeat_limits=(
            settings.group_consumer_min_heartbeat_interval_ms,
            settings.group_consumer_max_heartbeat_interval_ms,
        ),
        consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        consumer_assignment_limits=(
            settings.group_consumer_min_assignment_interval_ms,
            settings.group_consumer_max_assignment_interval_ms,
        ),
        consumer_size_max=settings.group_consumer_max_size,
        consumer_assignors=settings.group_consumer_assignors,
        consumer_migration_policy=MigrationPolicy(settings.group_consumer_migration_policy.lower()),
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        share=share_groups_config(settings),
        streams=streams_groups_config(settings),
        offset_metadata_chars_max=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * MINUTE_MS,
        offset_commit_timeout_ms=settings.offsets_commit_timeout_ms,
    )


def share_groups_config(settings: Settings) -> ShareGroupsConfig:
    return ShareGroupsConfig(
        session_timeout_ms=settings.group_share_session_timeout_ms,
        session_timeout_limits=(
            settings.group_share_min_session_timeout_ms,
            settings.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=settings.group_share_heartbeat_interval_ms,
        heartbeat_interval_limits=(
            settings.group_share_min_heartbeat_interval_ms,
            settings.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=settings.group_share_assignment_interval_ms,
        assignment_interval_limits=(
            settings.group_share_min_assignment_interval_ms,
            settings.group_share_max_assignment_interval_ms,
        ),
        size_max=settings.group_share_max_size,
        delivery_count_limit=settings.group_share_delivery_count_limit,
        delivery_count_limits=(
            settings.group_share_min_delivery_count_limit,
            settings.group_share_max_delivery_count_limit,
        ),
        record_lock_duration_ms=settings.group_share_record_lock_duration_ms,
        record_lock_duration_limits=(
            settings.group_share_min_record_lock_duration_ms,
            settings.group_share_max_record_lock_duration_ms,
        ),
        record_locks_max=settings.group_share_partition_max_record_locks,
        record_locks_limits=(
            settings.group_share_min_partition_max_record_locks,
            settings.group_share_max_partition_max_record_locks,
        ),
        sessions_max=settings.group_share_max_share_sessions,
    )


def streams_groups_config(settings: Settings) -> StreamsGroupsConfig:
    return StreamsGroupsConfig(
        session_timeout_ms=settings.group_streams_session_timeout_ms,
        session_timeout_limits=(
            settings.group_streams_min_session_timeout_ms,
            settings.group_streams_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=settings.group_streams_heartbeat_interval_ms,
        heartbeat_interval_limits=(
            settings.group_streams_min_heartbeat_interval_ms,
            settings.group_streams_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=settings.group_streams_assignment_interval_ms,
        assignment_interval_limits=(
            settings.group_streams_min_assignment_interval_ms,
            settings.group_streams_max_assignment_interval_ms,
        ),
        initial_rebalance_delay_ms=settings.group_streams_initial_rebalance_delay_ms,
        standby_replicas=settings.group_streams_num_standby_replicas,
        standby_replicas_max=settings.group_streams_max_standby_replicas,
        size_max=settings.group_streams_max_size,
    )


def _make_transactions(parts: Parts) -> TransactionCoordinator:
    settings = parts.settings
    return TransactionCoordinator(
        TransactionsConfig(
            timeout_ms_max=settings.transaction_max_timeout_ms,
            id_expiration_ms=settings.transactional_id_expiration_ms,
            has_two_phase_commit=settings.transaction_two_phase_commit_enable,
        ),
        parts.runtime.clock,
        settings.transaction_state_log_num_partitions,
        next_producer_id=parts.next_producer_id,
        markers=parts.markers,
        start=parts.start,
    )


def _make_share(parts: Parts) -> ShareCoordinator:
    settings = parts.settings
    return ShareCoordinator(
        ShareCoordinatorConfig(
            updates_per_snapshot=settings.share_coordinator_snapshot_update_records_per_snapshot,
            write_timeout_ms=settings.share_coordinator_write_timeout_ms,
        ),
        parts.runtime.clock,
        settings.share_coordinator_state_topic_num_partitions,
    )


GROUPS: Final = CoordinatorTopic(
    topic=OFFSETS_TOPIC,
    key_type=GROUP_KEY,
    shape=lambda settings: TopicShape(settings.offsets_topic_num_partitions, settings.offsets_topic_replication_factor),
    configs=lambda settings: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    },
    make=_make_groups,
)

COORDINATOR_TOPICS: Final = (
    GROUPS,
    CoordinatorTopic(
        topic=STATE_TOPIC,
        key_type=TRANSACTION_KEY,
        shape=lambda settings: TopicShape(
            settings.transaction_state_log_num_partitions, settings.transaction_state_log_replication_factor
        ),
        configs=lambda settings: {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        },
        make=_make_transactions,
    ),
    CoordinatorTopic(
        topic=SHARE_STATE_TOPIC,
        key_type=SHARE_KEY,
        shape=lambda settings: TopicShape(
            settings.share_coordinator_state_topic_num_partitions,
            settings.share_coordinator_state_topic_replication_factor,
        ),
        configs=lambda settings: {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(settings.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
        },
        make=_make_share,
    ),
)

BY_KEY_TYPE: Final[Mapping[int, CoordinatorTopic]] = {row.key_type: row for row in COORDINATOR_TOPICS}
INTERNAL: Final[Mapping[str, CoordinatorTopic]] = {row.topic: row for row in COORDINATOR_TOPICS}


class Coordinators:
    """The coordinators of one node, by topic. Made once, before the node serves."""

    def __init__(self, parts: Parts) -> None:
        self.by_topic: dict[str, Coordinator] = {row.topic: row.make(parts) for row in COORDINATOR_TOPICS}
        self.groups = cast(GroupCoordinator, self.by_topic[OFFSETS_TOPIC])
        self.transactions = cast(TransactionCoordinator, self.by_topic[STATE_TOPIC])
        self.share = cast(ShareCoordinator, self.by_topic[SHARE_STATE_TOPIC])
