"""The broker keys about groups and their offsets, as `broker_values` has the others."""

from __future__ import annotations

from chronik.catalogue.notation import Rows

_rows = Rows()
section, key = _rows.section, _rows.key


class GroupValues:
    """A part of `BrokerValues`."""

    section("Groups and offsets")
    group_initial_rebalance_delay_ms: int = key(
        "group.initial.rebalance.delay.ms  int  3000  read-only",
        "How long the first rebalance of an empty group waits for more members.",
    )
    group_min_session_timeout_ms: int = key(
        "group.min.session.timeout.ms  int  6000  read-only",
        "Minimum session timeout of a group member.",
    )
    group_max_session_timeout_ms: int = key(
        "group.max.session.timeout.ms  int  1800000  read-only",
        "Maximum session timeout of a group member.",
    )
    group_max_size: int = key(
        "group.max.size  int  2147483647  read-only  1..",
        "Maximum number of members of a group.",
    )
    group_consumer_session_timeout_ms: int = key(
        "group.consumer.session.timeout.ms  int  45000  read-only  1..",
        "Silence after which a member of a consumer group is out.",
    )
    group_consumer_min_session_timeout_ms: int = key(
        "group.consumer.min.session.timeout.ms  int  45000  read-only  1..",
        "Lowest session timeout that a consumer group may set for itself.",
    )
    group_consumer_max_session_timeout_ms: int = key(
        "group.consumer.max.session.timeout.ms  int  60000  read-only  1..",
        "Highest session timeout that a consumer group may set for itself.",
    )
    group_consumer_heartbeat_interval_ms: int = key(
        "group.consumer.heartbeat.interval.ms  int  5000  read-only  1..",
        "How often members of consumer groups send heartbeats. Members that wait for partitions send them sooner.",
    )
    group_consumer_min_heartbeat_interval_ms: int = key(
        "group.consumer.min.heartbeat.interval.ms  int  5000  read-only  1..",
        "Shortest heartbeat interval that a consumer group may set for itself.",
    )
    group_consumer_max_heartbeat_interval_ms: int = key(
        "group.consumer.max.heartbeat.interval.ms  int  15000  read-only  1..",
        "Longest heartbeat interval that a consumer group may set for itself.",
    )
    group_consumer_assignment_interval_ms: int = key(
        "group.consumer.assignment.interval.ms  int  1000  cluster-wide  0..",
        "Shortest time between two assignments of a consumer group.",
    )
    group_consumer_min_assignment_interval_ms: int = key(
        "group.consumer.min.assignment.interval.ms  int  0  read-only  0..",
        "Shortest assignment interval that a consumer group may set for itself.",
    )
    group_consumer_max_assignment_interval_ms: int = key(
        "group.consumer.max.assignment.interval.ms  int  15000  read-only  0..",
        "Longest assignment interval that a consumer group may set for itself.",
    )
    group_consumer_max_size: int = key(
        "group.consumer.max.size  int  2147483647  read-only  1..",
        "Maximum number of members of a consumer group.",
    )
    group_consumer_assignors: tuple[str, ...] = key(
        "group.consumer.assignors  list  uniform,range  read-only  uniform|range",
        "Assignors that members of consumer groups may choose. The first is the default.",
    )
    group_consumer_migration_policy: str = key(
        "group.consumer.migration.policy  string  bidirectional  read-only"
        "  bidirectional|disabled|downgrade|upgrade|BIDIRECTIONAL|DISABLED|DOWNGRADE|UPGRADE",
        "Whether groups with members may change between the classic and the consumer protocol, and in which direction.",
    )
    offsets_topic_replication_factor: int = key(
        "offsets.topic.replication.factor  short  3  read-only  1..",
        "Replicas of __consumer_offsets. The topic is not created while there are fewer brokers.",
    )
    offsets_topic_num_partitions: int = key(
        "offsets.topic.num.partitions  int  50  read-only  1..",
        "Partitions of __consumer_offsets. Do not change it after the topic exists.",
    )
    offsets_topic_segment_bytes: int = key(
        "offsets.topic.segment.bytes  int  104857600  read-only  1..",
        "Segment size of __consumer_offsets.",
    )
    offsets_retention_minutes: int = key(
        "offsets.retention.minutes  int  10080  read-only  1..",
        "How long to keep the offsets of an empty group.",
    )
    offsets_retention_check_interval_ms: int = key(
        "offsets.retention.check.interval.ms  long  600000  read-only  1..",
        "Interval between checks for expired offsets.",
    )
    offsets_commit_timeout_ms: int = key(
        "offsets.commit.timeout.ms  int  5000  read-only  1..",
        "How long an offset commit may wait to become durable.",
    )
    offset_metadata_max_bytes: int = key(
        "offset.metadata.max.bytes  int  4096  read-only",
        "Maximum size of the metadata that a client stores with an offset.",
    )


GROUPS = _rows.definitions
