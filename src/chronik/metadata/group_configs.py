"""Configs of groups and of client metrics subscriptions: Kafka 4.3's keys, with types, defaults and limits."""

from __future__ import annotations

import re

from chronik.metadata.config_definitions import ConfigType, Definition, at_least, one_of

BOOLEAN, STRING, INT, LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LIST

_DURATION = re.compile(r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?", re.IGNORECASE)


def _share_reset(value: str) -> str | None:
    if value in ("earliest", "latest") or _DURATION.fullmatch(value):
        return None
    return "it must be earliest, latest, or by_duration: with an ISO 8601 duration such as PT1H"


GROUP_CONFIGS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition(
            "consumer.assignment.interval.ms", INT, "1000", "Shortest time between two assignments.", at_least(0)
        ),
        Definition("consumer.heartbeat.interval.ms", INT, "5000", "How often members report.", at_least(1)),
        Definition("consumer.session.timeout.ms", INT, "45000", "Silence after which a member is out.", at_least(1)),
        Definition("share.assignment.interval.ms", INT, "1000", "Shortest time between two assignments.", at_least(0)),
        Definition(
            "share.auto.offset.reset", STRING, "latest", "Where a share group begins in a partition.", _share_reset
        ),
        Definition(
            "share.delivery.count.limit",
            INT,
            "5",
            "How often a record is handed out before it is given up.",
            at_least(2),
        ),
        Definition("share.heartbeat.interval.ms", INT, "5000", "How often members report.", at_least(1)),
        Definition(
            "share.isolation.level",
            STRING,
            "read_uncommitted",
            "Whether records of open and aborted transactions are handed out.",
            one_of("read_committed", "read_uncommitted"),
        ),
        Definition(
            "share.partition.max.record.locks", INT, "2000", "Records of a partition in hand at a time.", at_least(100)
        ),
        Definition(
            "share.record.lock.duration.ms", INT, "30000", "How long a record stays with a member.", at_least(1000)
        ),
        Definition(
            "share.renew.acknowledge.enable", BOOLEAN, "true", "Lets a member keep a record in hand for longer."
        ),
        Definition("share.session.timeout.ms", INT, "45000", "Silence after which a member is out.", at_least(1)),
        Definition(
            "streams.assignment.interval.ms", INT, "1000", "Shortest time between two assignments.", at_least(0)
        ),
        Definition("streams.heartbeat.interval.ms", INT, "5000", "How often members report.", at_least(1)),
        Definition(
            "streams.initial.rebalance.delay.ms", INT, "3000", "How long a new group waits for members.", at_least(0)
        ),
        Definition("streams.num.standby.replicas", INT, "0", "Copies of each task's state kept warm.", at_least(0)),
        Definition("streams.session.timeout.ms", INT, "45000", "Silence after which a member is out.", at_least(1)),
    )
}

# Its bounds stand apart: Kafka answers INVALID_REQUEST, and not INVALID_CONFIG, when they are left.
METRICS_INTERVAL_MS = range(100, 3_600_001)
CLIENT_METRICS_CONFIGS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        Definition("interval.ms", INT, "300000", "How often clients push."),
        Definition("match", LIST, "", "Which clients: selectors of the form client_id=expression."),
        Definition("metrics", LIST, "", "Which metrics: prefixes of their names, or * for all."),
    )
}
