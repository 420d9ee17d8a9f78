"""What happened, from two looks at a cluster, and the feed that keeps it. Pure.

An event says what changed between two snapshots, so what changed and changed back between them is not seen. Where a
look failed nothing is derived: silence is no change, except for nodes, whose silence is the event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from chronik.client.topology import NO_LEADER, Topology
from chronik.console.snapshot import Snapshot
from chronik.runtime.wording import counted

KEPT_MAX: Final = 2_000
EACH_MAX: Final = 20  # of one kind from one pair of looks; the rest is one event
LAG_BEGINS: Final = 1_000
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


@dataclass(frozen=True, slots=True)
class Event:
    time_ms: int
    kind: str
    text: str
    link: str = ""
    severity: str | None = None  # "problem" where something broke
    topic: str | None = None  # what it is about: users see only what their rules allow
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    id: int
    event: Event

    def document(self) -> dict[str, Any]:
        each = self.event
        return {
            "id": self.id,
            "time_ms": each.time_ms,
            "kind": each.kind,
            "severity": each.severity,
            "text": each.text,
            "link": each.link,
        }


class Feed:
    """The newest KEPT_MAX events, numbered from 1."""

    def __init__(self) -> None:
        self._events: deque[Recorded] = deque(maxlen=KEPT_MAX)
        self._next = 1

    @property
    def last_id(self) -> int:
        return self._next - 1

    def add(self, event: Event) -> None:
        self._events.append(Recorded(self._next, event))
        self._next += 1

    def newest(self, count: int, before: int | None = None) -> list[Recorded]:
        """Newest first."""
        found = [each for each in reversed(self._events) if before is None or each.id < before]
        return found[:count]

    def after(self, event_id: int) -> list[Recorded]:
        """Oldest first."""
        return [each for each in self._events if each.id > event_id]


def events_between(before: Snapshot, after: Snapshot) -> list[Event]:
    found: list[Event] = []
    for derive in (_quorum, _nodes, _alarms, _partitions, _groups):
        by_kind: dict[str, int] = {}
        for event in derive(before, after):
            by_kind[event.kind] = by_kind.get(event.kind, 0) + 1
            if by_kind[event.kind] <= EACH_MAX:
                found.append(event)
        for kind, count in by_kind.items():
            if count > EACH_MAX:
                found.append(Event(after.time_ms, kind, f"and {count - EACH_MAX:,} more events {kind}"))
    return found


def _quorum(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    now = after.time_ms
    if before.has_quorum and after.survey is not None:
        yield Event(now, "quorum-lost", str(after.survey), "/nodes", "problem")
    if before.survey is not None and after.quorum is not None and after.has_quorum:
        yield Event(now, "quorum-back", f"node {after.quorum.leader_id} is the controller again", "/nodes")
    elif before.quorum and after.quorum and after.has_quorum and before.quorum.leader_id != after.quorum.leader_id:
        text = f"the controller moved from node {before.quorum.leader_id} to node {after.quorum.leader_id}"
        yield Event(now, "controller-changed", f"{text}, term {after.quorum.term}", "/nodes")


def _nodes(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    now = after.time_ms
    for node_id in before.statuses.keys() - after.statuses.keys():
        yield Event(now, "node-silent", f"node {node_id} stopped answering", "/nodes", "problem")
    for node_id in after.statuses.keys() - before.statuses.keys():
        yield Event(now, "node-back", f"node {node_id} answers", "/nodes")
    if not (before.brokers and after.brokers):
        return
    fenced = {each.node_id: each.is_fenced for each in before.brokers}
    for broker in after.brokers:
        was = fenced.get(broker.node_id)
        if broker.is_fenced and was is False:
            yield Event(now, "node-fenced", f"node {broker.node_id} was fenced", "/nodes", "problem")
        elif not broker.is_fenced and was is not False:
            yield Event(now, "node-unfenced", f"node {broker.node_id} serves clients", "/nodes")


def _alarms(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    for node_id in before.statuses.keys() & after.statuses.keys():
        old, new = _alarms_of(before, node_id), _alarms_of(after, node_id)
        for key in sorted(new.keys() - old.keys()):
            yield Event(after.time_ms, "alarm", f"node {node_id}: {new[key]}", "/nodes", "problem")
        for cause, subject in sorted(old.keys() - new.keys()):
            about = f"{cause} ({subject})" if subject else cause
            yield Event(after.time_ms, "alarm-over", f"node {node_id}: {about} is over", "/nodes")


def _alarms_of(snapshot: Snapshot, node_id: int) -> dict[tuple[str, str], str]:
    """Texts by cause and subject."""
    return {
        (alarm["cause"], alarm.get("subject", "")): alarm.get("text", alarm["cause"])
        for alarm in snapshot.page(node_id).get("alarms", ())
    }


def _partitions(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    if before.topology is after.topology or before.topology_ms == 0:
        return
    old, new, now = before.topology, after.topology, after.time_ms
    for name in sorted(new.topics.keys() - old.topics.keys()):
        count = counted(len(new.topics[name].partitions), "partition")
        yield Event(now, "topic-created", f"topic {name} was created with {count}", _topic(name), topic=name)
    for name in sorted(old.topics.keys() - new.topics.keys()):
        yield Event(now, "topic-deleted", f"topic {name} was deleted", "/topics", topic=name)
    yield from _leaders(old, new, now)


def _leaders(old: Topology, new: Topology, now: int) -> Iterator[Event]:
    for name, topic in new.topics.items():
        was = old.topics.get(name)
        if was is None or was is topic or was.topic_id != topic.topic_id:
            continue
        for index, partition in topic.partitions.items():
            past = was.partitions.get(index)
            if past is None or past == partition:
                continue
            at, link = f"{name}-{index}", _topic(name)
            if partition.leader_id == NO_LEADER and past.leader_id != NO_LEADER:
                yield Event(now, "partition-offline", f"{at} has no leader", link, "problem", topic=name)
            elif past.leader_id == NO_LEADER and partition.leader_id != NO_LEADER:
                yield Event(
                    now, "partition-online", f"{at} is led by node {partition.leader_id} again", link, topic=name
                )
            elif past.leader_id != partition.leader_id:
                text = f"{at}: the leader moved from node {past.leader_id} to node {partition.leader_id}"
                yield Event(now, "leader-changed", text, link, topic=name)
            lost, back = set(past.isr) - set(partition.isr), set(partition.isr) - set(past.isr)
            if lost:
                text = f"{at}: {_named(lost)} left the ISR"
                yield Event(now, "isr-shrunk", text, link, "problem", topic=name)
            if back:
                yield Event(now, "isr-grown", f"{at}: {_named(back)} joined the ISR", link, topic=name)


def _groups(before: Snapshot, after: Snapshot) -> Iterator[Event]:
    now = after.time_ms
    if before.group_states and after.group_states:
        for group, state in sorted(after.group_states.items()):
            was = before.group_states.get(group)
            if was is not None and was != state and state not in REBALANCING:
                text = f"group {group} is {state} (it was {was})"
                yield Event(now, "group-state", text, group_link(group), group=group)
    for group, lag in sorted(after.lags.items()):
        past = before.lags.get(group)
        if past is None:
            continue
        if past.records < LAG_BEGINS <= lag.records:
            text = f"group {group} is {counted(lag.records, 'record')} behind"
            yield Event(now, "group-lagging", text, f"{group_link(group)}/why", "problem", group=group)
        elif past.records > 0 == lag.records and past.records >= LAG_BEGINS // 10:
            yield Event(now, "group-caught-up", f"group {group} has caught up", group_link(group), group=group)


def _named(node_ids: set[int]) -> str:
    return ", ".join(f"node {node_id}" for node_id in sorted(node_ids))


def _topic(name: str) -> str:
    return f"/topics/{quote(name, safe='')}"


def group_link(name: str) -> str:
    return f"/groups/{quote(name, safe='')}"
