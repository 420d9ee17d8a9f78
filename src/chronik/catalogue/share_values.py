"""The broker keys about share groups and the coordinator of their state, as `broker_values` has the others."""

from __future__ import annotations

from chronik.catalogue.notation import Rows

_rows = Rows()
section, key = _rows.section, _rows.key


class ShareValues:
    """A part of `BrokerValues`."""

    section("Share groups")
    group_share_session_timeout_ms: int = key(
        "group.share.session.timeout.ms  int  45000  read-only  1..",
        "Silence after which a member of a share group is out.",
    )
    group_share_min_session_timeout_ms: int = key(
        "group.share.min.session.timeout.ms  int  45000  read-only  1..",
        "Lowest session timeout that a share group may set for itself.",
    )
    group_share_max_session_timeout_ms: int = key(
        "group.share.max.session.timeout.ms  int  60000  read-only  1..",
        "Highest session timeout that a share group may set for itself.",
    )
    group_share_heartbeat_interval_ms: int = key(
        "group.share.heartbeat.interval.ms  int  5000  read-only  1..",
        "How often members of share groups send heartbeats. Members that wait for partitions send them sooner.",
    )
    group_share_min_heartbeat_interval_ms: int = key(
        "group.share.min.heartbeat.interval.ms  int  5000  read-only  1..",
        "Shortest heartbeat interval that a share group may set for itself.",
    )
    group_share_max_heartbeat_interval_ms: int = key(
        "group.share.max.heartbeat.interval.ms  int  15000  read-only  1..",
        "Longest heartbeat interval that a share group may set for itself.",
    )
    group_share_assignment_interval_ms: int = key(
        "group.share.assignment.interval.ms  int  1000  cluster-wide  0..",
        "Shortest time between two assignments of a share group.",
    )
    group_share_min_assignment_interval_ms: int = key(
        "group.share.min.assignment.interval.ms  int  0  read-only  0..",
        "Shortest assignment interval that a share group may set for itself.",
    )
    group_share_max_assignment_interval_ms: int = key(
        "group.share.max.assignment.interval.ms  int  15000  read-only  0..",
        "Longest assignment interval that a share group may set for itself.",
    )
    group_share_max_size: int = key(
        "group.share.max.size  int  200  read-only  1..1000",
        "Maximum number of members of a share group.",
    )
    group_share_assignors: tuple[str, ...] = key(
        "group.share.assignors  list  simple  read-only  simple",
        "The assignor of share groups. There is one.",
    )
    group_share_delivery_count_limit: int = key(
        "group.share.delivery.count.limit  int  5  read-only  2..10",
        "How often a share group delivers a record before it gives the record up.",
    )
    group_share_min_delivery_count_limit: int = key(
        "group.share.min.delivery.count.limit  int  2  read-only  2..5",
        "Lowest delivery limit that a share group may set for itself.",
    )
    group_share_max_delivery_count_limit: int = key(
        "group.share.max.delivery.count.limit  int  10  read-only  5..25",
        "Highest delivery limit that a share group may set for itself.",
    )
    group_share_record_lock_duration_ms: int = key(
        "group.share.record.lock.duration.ms  int  30000  read-only  1000..3600000",
        "How long a record stays with the member of a share group that acquired it.",
    )
    group_share_min_record_lock_duration_ms: int = key(
        "group.share.min.record.lock.duration.ms  int  15000  read-only  1000..30000",
        "Shortest lock duration that a share group may set for itself.",
    )
    group_share_max_record_lock_duration_ms: int = key(
        "group.share.max.record.lock.duration.ms  int  60000  read-only  30000..3600000",
        "Longest lock duration that a share group may set for itself.",
    )
    group_share_partition_max_record_locks: int = key(
        "group.share.partition.max.record.locks  int  2000  read-only  100..10000",
        "Maximum number of records of a partition that a share group has in hand at a time.",
    )
    group_share_min_partition_max_record_locks: int = key(
        "group.share.min.partition.max.record.locks  int  100  read-only  100..2000",
        "Lowest value of share.partition.max.record.locks that a share group may set for itself.",
    )
    group_share_max_partition_max_record_locks: int = key(
        "group.share.max.partition.max.record.locks  int  4000  read-only  2000..10000",
        "Highest value of share.partition.max.record.locks that a share group may set for itself.",
    )
    group_share_max_share_sessions: int = key(
        "group.share.max.share.sessions  int  2000  read-only  1..",
        "Maximum number of share sessions of a node.",
    )

    section("State of share groups")
    share_coordinator_state_topic_num_partitions: int = key(
        "share.coordinator.state.topic.num.partitions  int  50  read-only  1..",
        "Partitions of __share_group_state. Do not change it after the topic exists.",
    )
    share_coordinator_state_topic_replication_factor: int = key(
        "share.coordinator.state.topic.replication.factor  short  3  read-only  1..",
        "Replicas of __share_group_state. The topic is not created while there are fewer brokers.",
    )
    share_coordinator_state_topic_min_isr: int = key(
        "share.coordinator.state.topic.min.isr  short  2  read-only  1..",
        "min.insync.replicas of __share_group_state.",
    )
    share_coordinator_state_topic_segment_bytes: int = key(
        "share.coordinator.state.topic.segment.bytes  int  104857600  read-only  1..",
        "Segment size of __share_group_state.",
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = key(
        "share.coordinator.snapshot.update.records.per.snapshot  int  500  read-only  0..500",
        "Updates of a share partition that are written before its whole state is written again.",
    )
    share_coordinator_write_timeout_ms: int = key(
        "share.coordinator.write.timeout.ms  int  5000  read-only  1..",
        "How long a change of a share group's state may wait to become durable.",
    )


SHARE = _rows.definitions
