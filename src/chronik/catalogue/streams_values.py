"""The broker keys about streams groups, as `broker_values` has the others."""

from __future__ import annotations

from chronik.catalogue.notation import Rows

_rows = Rows()
section, key = _rows.section, _rows.key


class StreamsValues:
    """A part of `BrokerValues`."""

    section("Streams groups")
    group_streams_session_timeout_ms: int = key(
        "group.streams.session.timeout.ms  int  45000  read-only  1..",
        "Silence after which a member of a streams group is out.",
    )
    group_streams_min_session_timeout_ms: int = key(
        "group.streams.min.session.timeout.ms  int  45000  read-only  1..",
        "Lowest session timeout that a streams group may set for itself.",
    )
    group_streams_max_session_timeout_ms: int = key(
        "group.streams.max.session.timeout.ms  int  60000  read-only  1..",
        "Highest session timeout that a streams group may set for itself.",
    )
    group_streams_heartbeat_interval_ms: int = key(
        "group.streams.heartbeat.interval.ms  int  5000  read-only  1..",
        "How often members of streams groups send heartbeats. Members that wait for tasks send them sooner.",
    )
    group_streams_min_heartbeat_interval_ms: int = key(
        "group.streams.min.heartbeat.interval.ms  int  5000  read-only  1..",
        "Shortest heartbeat interval that a streams group may set for itself.",
    )
    group_streams_max_heartbeat_interval_ms: int = key(
        "group.streams.max.heartbeat.interval.ms  int  15000  read-only  1..",
        "Longest heartbeat interval that a streams group may set for itself.",
    )
    group_streams_assignment_interval_ms: int = key(
        "group.streams.assignment.interval.ms  int  1000  cluster-wide  0..",
        "Shortest time between two assignments of a streams group.",
    )
    group_streams_min_assignment_interval_ms: int = key(
        "group.streams.min.assignment.interval.ms  int  0  read-only  0..",
        "Shortest assignment interval that a streams group may set for itself.",
    )
    group_streams_max_assignment_interval_ms: int = key(
        "group.streams.max.assignment.interval.ms  int  15000  read-only  0..",
        "Longest assignment interval that a streams group may set for itself.",
    )
    group_streams_initial_rebalance_delay_ms: int = key(
        "group.streams.initial.rebalance.delay.ms  int  3000  read-only  0..",
        "How long the first assignment of a new streams group waits for more members.",
    )
    group_streams_num_standby_replicas: int = key(
        "group.streams.num.standby.replicas  int  0  read-only  0..",
        "How many processes besides the active one keep the state of a task warm.",
    )
    group_streams_max_standby_replicas: int = key(
        "group.streams.max.standby.replicas  int  2  read-only  0..",
        "Highest number of standby replicas that a streams group may set for itself.",
    )
    group_streams_max_size: int = key(
        "group.streams.max.size  int  2147483647  read-only  1..",
        "Maximum number of members of a streams group.",
    )


STREAMS = _rows.definitions
