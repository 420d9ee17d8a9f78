"""Keys of groups and of client metrics subscriptions: Kafka 4.3's.

The broker key `group.NAME` gives the default of the group key NAME where there is one.
"""

from __future__ import annotations

import re

from chronik.catalogue.client_selectors import why_no_selectors
from chronik.catalogue.definitions import Definition
from chronik.catalogue.resource_keys import inherits, own

_duration = re.compile(r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?", re.IGNORECASE)


def _share_reset(value: str) -> str | None:
    if value in ("earliest", "latest") or _duration.fullmatch(value):
        return None
    return "it must be earliest, latest, or by_duration: with an ISO 8601 duration such as PT1H"


def _names(values: tuple[str, ...]) -> str | None:
    return None if all(values) else "an element is empty"


def _selectors(values: tuple[str, ...]) -> str | None:
    return _names(values) or why_no_selectors(values)


def _of_broker(name: str, words: str, *, allowed: str | None = None) -> Definition:
    return inherits(name, words, f"group.{name}", allowed=allowed)


GROUP_CONFIGS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        _of_broker("consumer.assignment.interval.ms", "Shortest time between two assignments."),
        _of_broker("consumer.heartbeat.interval.ms", "How often members report."),
        _of_broker("consumer.session.timeout.ms", "Silence after which a member is out."),
        _of_broker("share.assignment.interval.ms", "Shortest time between two assignments."),
        own("share.auto.offset.reset  string  latest", "Where a share group begins in a partition.", rule=_share_reset),
        _of_broker(
            "share.delivery.count.limit", "How often a record is handed out before it is given up.", allowed="2.."
        ),
        _of_broker("share.heartbeat.interval.ms", "How often members report."),
        own(
            "share.isolation.level  string  read_uncommitted  read_committed|read_uncommitted",
            "Whether records of open and aborted transactions are handed out.",
        ),
        _of_broker("share.partition.max.record.locks", "Records of a partition in hand at a time.", allowed="100.."),
        _of_broker("share.record.lock.duration.ms", "How long a record stays with a member.", allowed="1000.."),
        own("share.renew.acknowledge.enable  boolean  true", "Lets a member keep a record in hand for longer."),
        _of_broker("share.session.timeout.ms", "Silence after which a member is out."),
        _of_broker("streams.assignment.interval.ms", "Shortest time between two assignments."),
        _of_broker("streams.heartbeat.interval.ms", "How often members report."),
        _of_broker("streams.initial.rebalance.delay.ms", "How long a new group waits for members."),
        _of_broker("streams.num.standby.replicas", "Copies of each task's state kept warm."),
        _of_broker("streams.session.timeout.ms", "Silence after which a member is out."),
    )
}

# Its limits are separate: Kafka answers INVALID_REQUEST, not INVALID_CONFIG, for a value outside them.
METRICS_INTERVAL_MS = range(100, 3_600_001)
CLIENT_METRICS_CONFIGS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        own("interval.ms  int  300000", "How often clients push."),
        own(
            "match  list  ''",
            "Which clients: selectors of the form client_id=expression. A client must match all of them.",
            rule=_selectors,
        ),
        own("metrics  list  ''", "Which metrics: prefixes of their names, or * for all.", rule=_names),
    )
}
