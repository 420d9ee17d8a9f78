"""What an operator should look at now, with its cause and where to go. Pure: rules over one snapshot.

One function per rule, in the order in which they should be read. `Standing` remembers since when each item has been
there. The doctor asks more and takes seconds; this list must be ready every two seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chronik.console.commands import Name, command, option
from chronik.console.events import group_link
from chronik.console.snapshot import Health, Snapshot
from chronik.runtime.wording import counted, human_bytes, human_count, human_duration, is_or_are

ITEMS_MAX: Final = 100
NAMED_MAX: Final = 3
LAG_MIN: Final = 1_000
LAG_SECONDS_MIN: Final = 60.0
DISK_FREE_MIN: Final = 0.1
VOTER_SILENT_MS: Final = 10_000
LETTERS_SUFFIX: Final = ".dlq"
PROBLEM, ADVICE = "problem", "advice"


@dataclass(frozen=True, slots=True)
class Item:
    id: str  # the same as long as it is about the same
    severity: str
    what: str
    cause: str
    link: str
    command: str = ""
    topic: str | None = None
    group: str | None = None

    def document(self, since_ms: int) -> dict[str, Any]:
        return {
            "id": self.id,
            "severity": self.severity,
            "what": self.what,
            "cause": self.cause,
            "since_ms": since_ms,
            "link": self.link,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class Seen:
    snapshot: Snapshot
    health: Health
    lag_per_s: Mapping[str, float | None]  # by group, over the last minute


Rule = Callable[[Seen], Iterator[Item]]


def attention(seen: Seen) -> list[Item]:
    """Problems first."""
    found = [item for rule in RULES for item in rule(seen)]
    return sorted(found, key=lambda item: item.severity != PROBLEM)[:ITEMS_MAX]


def _unreachable(seen: Seen) -> Iterator[Item]:
    if not seen.snapshot.is_reached:
        yield Item("unreachable", PROBLEM, "no broker answers", "the bootstrap addresses are silent", "/nodes")


def _quorum(seen: Seen) -> Iterator[Item]:
    survey = seen.snapshot.survey
    if survey is not None:
        cause = "topics, leaders and groups cannot change until a controller is elected"
        yield Item("no-controller", PROBLEM, str(survey), cause, "/nodes", "chronik cluster status")


def _voters(seen: Seen) -> Iterator[Item]:
    quorum = seen.snapshot.quorum
    for member in quorum.members if quorum else ():
        silent_ms = seen.snapshot.time_ms - member.heard_ms
        if member.is_voter and quorum and member.node_id != quorum.leader_id and silent_ms > VOTER_SILENT_MS:
            ago = f"for {human_duration(silent_ms)}" if member.heard_ms > 0 else "since the leader was elected"
            yield Item(
                f"voter-silent:{member.node_id}",
                PROBLEM,
                f"node {member.node_id} does not answer",
                f"the controller has not heard it {ago}",
                "/nodes",
                "chronik cluster status",
            )


def _fenced(seen: Seen) -> Iterator[Item]:
    for broker in seen.snapshot.brokers:
        if broker.is_fenced:
            yield Item(
                f"node-fenced:{broker.node_id}",
                PROBLEM,
                f"node {broker.node_id} is fenced",
                "the controller heard nothing of it in time, so it leads no partitions",
                "/nodes",
                "chronik doctor",
            )


def _states(seen: Seen) -> Iterator[Item]:
    if states_agree(seen.snapshot) is False:
        yield Item(
            "states-differ",
            PROBLEM,
            "nodes have different metadata at the same version",
            "their state hashes differ; this must never happen",
            "/nodes",
            "chronik doctor",
        )


def states_agree(snapshot: Snapshot) -> bool | None:
    """None if no two nodes are at the same version."""
    by_version: dict[int, list[str]] = {}
    for at in snapshot.statuses.values():
        if "state_hash" in at.page:
            by_version.setdefault(at.page["version"], []).append(at.page["state_hash"])
    compared = [hashes for hashes in by_version.values() if len(hashes) > 1]
    return all(len(set(hashes)) == 1 for hashes in compared) if compared else None


def _offline(seen: Seen) -> Iterator[Item]:
    count = seen.health.offline_count
    if count:
        yield Item(
            "offline-partitions",
            PROBLEM,
            f"{counted(count, 'partition')} {is_or_are(count)} without a leader",
            f"{_some(seen.health.offline, count)}: no replica in sync is alive",
            "/nodes/isr?problems=1",
            "chronik doctor",
        )


def _min_isr(seen: Seen) -> Iterator[Item]:
    count = int(seen.snapshot.values.get("under_min_isr", 0))
    if count:
        yield Item(
            "under-min-isr",
            PROBLEM,
            f"{counted(count, 'partition')} {'refuses' if count == 1 else 'refuse'} writes with acks=all",
            "fewer replicas are in sync than min.insync.replicas asks for",
            "/nodes/isr?problems=1",
            "chronik doctor",
        )


def _under_replicated(seen: Seen) -> Iterator[Item]:
    count = seen.health.under_replicated_count
    if count:
        yield Item(
            "under-replicated",
            PROBLEM,
            f"{counted(count, 'partition')} {'lacks' if count == 1 else 'lack'} a replica in sync",
            _some(seen.health.under_replicated, count),
            "/nodes/isr?problems=1",
            "chronik topic list",
        )


def _alarms(seen: Seen) -> Iterator[Item]:
    for node_id, at in sorted(seen.snapshot.statuses.items()):
        for alarm in at.page.get("alarms", ()):
            yield Item(
                f"alarm:{node_id}:{alarm['cause']}:{alarm.get('subject', '')}",
                PROBLEM,
                f"node {node_id} raises the alarm {alarm['cause']}",
                alarm.get("text", ""),
                "/nodes",
            )


def _disks(seen: Seen) -> Iterator[Item]:
    for node_id, at in sorted(seen.snapshot.statuses.items()):
        machine = at.page.get("machine") or {}
        free, total = machine.get("disk_free_bytes"), machine.get("disk_total_bytes")
        if free is not None and total and free / total < DISK_FREE_MIN:
            yield Item(
                f"disk:{node_id}",
                PROBLEM,
                f"the disk of node {node_id} is {1 - free / total:.0%} full",
                f"{human_bytes(free)} of {human_bytes(total)} are free",
                "/nodes",
                "chronik topic list",
            )


def _groups(seen: Seen) -> Iterator[Item]:
    states = seen.snapshot.group_states
    found = []
    for group, lag in seen.snapshot.lags.items():
        seconds = lag.seconds or 0.0
        if lag.records < LAG_MIN and seconds < LAG_SECONDS_MIN:
            continue
        if not lag.records:
            continue
        rate = seen.lag_per_s.get(group)
        if states.get(group) == "Empty":
            cause = "it has no members, so nothing reads for it"
        elif rate is None:
            cause = "it reads more slowly than producers write, or has stopped"
        elif rate > 0:
            cause = f"its lag grows by {human_count(max(1, round(rate)))} records per second"
        elif rate < 0:
            cause = f"it catches up, in about {human_duration(round(1_000 * lag.records / -rate))}"
        else:
            cause = "its lag does not change"
        behind = f", {human_duration(round(1_000 * seconds))}" if seconds else ""
        is_falling = rate is not None and rate < 0
        item = Item(
            f"group-lag:{group}",
            ADVICE if is_falling or states.get(group) == "Empty" else PROBLEM,
            f"group {group} is {counted(lag.records, 'record')} behind{behind}",
            cause,
            f"{group_link(group)}/why",
            command("group", "explain", Name(group)),
            group=group,
        )
        found.append((lag.records, item))
    yield from (item for _, item in sorted(found, key=lambda each: -each[0]))


def _letters(seen: Seen) -> Iterator[Item]:
    for (series, topic), rate in sorted(seen.snapshot.topic_rates.items()):
        if series == "messages_in_per_s" and topic.endswith(LETTERS_SUFFIX) and rate > 0:
            yield Item(
                f"letters:{topic}",
                PROBLEM,
                f"dead letters arrive in {topic}",
                f"a flow refuses {rate:,.1f} records per second",
                f"/letters/{topic}",
                command("dlq", "list", *option("--topic", [topic])),
                topic=topic,
            )


RULES: Final[tuple[Rule, ...]] = (
    _unreachable,
    _quorum,
    _offline,
    _min_isr,
    _states,
    _voters,
    _fenced,
    _under_replicated,
    _alarms,
    _disks,
    _groups,
    _letters,
)


class Standing:
    """Since when each item has been there, by its id."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def note(self, items: Iterable[Item], now_ms: int) -> Mapping[str, int]:
        self._since = {item.id: self._since.get(item.id, now_ms) for item in items}
        return self._since


def _some(partitions: Iterable[object], count: int) -> str:
    shown = [str(each) for _, each in zip(range(NAMED_MAX), partitions, strict=False)]
    return f"{', '.join(shown)} and {count - NAMED_MAX} more" if count > NAMED_MAX else ", ".join(shown)
