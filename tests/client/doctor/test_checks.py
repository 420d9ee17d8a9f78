"""The doctor's findings for staged facts: each fault by its name, and none in a healthy cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.client.addresses import Address
from chronik.client.admin.configs import Config, Source
from chronik.client.admin.lag import PartitionLag
from chronik.client.admin.nodes import Node
from chronik.client.admin.quorum import Quorum, QuorumNode
from chronik.client.admin.reassignments import Move
from chronik.client.admin.survey import Survey, Surveyed
from chronik.client.doctor import Facts, Finding, Severity, findings_in
from chronik.client.doctor.checks import CHECKS
from chronik.client.doctor.facts import GroupFacts, StatusAt
from chronik.client.topology import NO_LEADER, Partition, Topic, TopicPartition
from chronik.runtime.units import DAY_MS, GIB, HOUR_MS
from chronik.wire.notation import ZERO_UUID

NOW_MS = 1_800_000_000_000
ORDERS = TopicPartition("orders", 0)


def status(node_id: int, **changes: Any) -> StatusAt:
    machine = {
        "log_dir": "/var/lib/chronik",
        "disk_free_bytes": 50 * GIB,
        "disk_total_bytes": 100 * GIB,
        "sync_p50_ms": 0.5,
        "sync_p99_ms": 2.0,
        "memory_bytes": 8 * GIB,
        "memory_budget_bytes": GIB,
        "memory_held_bytes": 0,
    }
    page: dict[str, Any] = {
        "node_id": node_id,
        "time_ms": NOW_MS,
        "software": "chronik 1",
        "ready": True,
        "not_ready_because": None,
        "alarms": [],
        "version": 7,
        "state_hash": "aa",
        "machine": machine | changes.pop("machine", {}),
    }
    return StatusAt(page | changes, NOW_MS, NOW_MS + 5)


def voter(node_id: int, *, heard_ms: int = NOW_MS, is_voter: bool = True) -> QuorumNode:
    return QuorumNode(node_id, is_voter, 100, heard_ms, heard_ms)


def topic(name: str = "orders", **changes: Any) -> Topic:
    partition = Partition(0, 1, 0, (1, 2, 3), (1, 2, 3), ())._replace(**changes)
    return Topic(name, ZERO_UUID, False, {0: partition})


def group(lag: PartitionLag, *, later: PartitionLag | None = None, members: int = 1, state: str = "Stable") -> Facts:
    made = GroupFacts("billing", state, members, {ORDERS: lag}, {} if later is None else {ORDERS: later})
    return replace(HEALTHY, groups=(made,))


HEALTHY = Facts(
    now_ms=NOW_MS,
    quorum=Quorum(1, 3, 100, (voter(1, heard_ms=-1), voter(2), voter(3)), {}),
    nodes=tuple(Node(node_id, "localhost", 9091 + node_id, None, False) for node_id in (1, 2, 3)),
    statuses={node_id: status(node_id) for node_id in (1, 2, 3)},
    topics={"orders": topic()},
    topic_configs={
        "orders": {
            "cleanup.policy": "delete",
            "min.insync.replicas": "2",
            "retention.ms": str(DAY_MS),
            "unclean.leader.election.enable": "false",
        }
    },
    groups=(GroupFacts("billing", "Stable", 1, {ORDERS: PartitionLag(5, 0, 9, 4, 1000)}),),
)


def configured(**changes: str) -> Facts:
    keys = {key.replace("_", "."): value for key, value in changes.items()}
    return replace(HEALTHY, topic_configs={"orders": dict(HEALTHY.topic_configs["orders"]) | keys})


def with_setting(name: str, value: str, documentation: str = "") -> Facts:
    config = Config(name, value, Source.FILE, True, False, documentation)
    return replace(HEALTHY, broker_configs={1: (config,), 2: (config,)})


def machine(**changes: Any) -> Facts:
    return replace(HEALTHY, statuses={1: status(1, machine=changes)})


def quorum(*members: QuorumNode) -> Facts:
    assert HEALTHY.quorum is not None
    return replace(HEALTHY, quorum=replace(HEALTHY.quorum, members=members))


LOST = Survey(3, tuple(Surveyed(n, True, Address("h", n), n == 1, None) for n in (1, 2, 3)))
FENCED = tuple(node if node.node_id != 3 else replace(node, is_fenced=True) for node in HEALTHY.nodes)
ALARM = {"cause": "disk-full", "subject": "/d", "text": "/d has no space left", "since_ms": 5, "count": 2}
PROBLEM, ADVICE = Severity.PROBLEM, Severity.ADVICE
LETTERS = TopicPartition("orders.dlq", 0)

# (name of the finding, severity, a part of its text, facts)
STAGED: list[tuple[str, Severity, str, Facts]] = [
    ("no-controller", PROBLEM, "1 of 3 voters answer, 2 are needed", replace(HEALTHY, quorum=None, survey=LOST)),
    ("bootstrap-silent", PROBLEM, "h:1 does not answer", replace(HEALTHY, silent_bootstrap={"h:1": "refused"})),
    ("advertised-address", PROBLEM, "node 2 is alive", replace(HEALTHY, unreachable={2: "internal:9092: timed out"})),
    ("voter-silent", PROBLEM, "voter 3", quorum(voter(1), voter(2), voter(3, heard_ms=NOW_MS - 60_000))),
    ("learner-left-over", PROBLEM, "node 9", quorum(voter(1), voter(2), voter(3), voter(9, is_voter=False))),
    ("even-voters", ADVICE, "2 voters", quorum(voter(1), voter(2))),
    (
        "metadata-differs",
        PROBLEM,
        "at version 7: node 1 aa, node 2 bb",
        replace(HEALTHY, statuses={1: status(1), 2: status(2, state_hash="bb")}),
    ),
    ("broker-fenced", PROBLEM, "broker 3", replace(HEALTHY, nodes=FENCED, statuses={1: status(1)})),
    (
        "node-not-ready",
        PROBLEM,
        "node 1 is not ready: it reads",
        replace(HEALTHY, statuses={1: status(1, ready=False, not_ready_because="it reads its logs")}),
    ),
    ("alarm-disk-full", PROBLEM, "/d has no space left", replace(HEALTHY, statuses={1: status(1, alarms=[ALARM])})),
    ("clock", PROBLEM, "1m ahead of", replace(HEALTHY, statuses={1: status(1, time_ms=NOW_MS + 60_005)})),
    ("clock", PROBLEM, "2h behind", replace(HEALTHY, statuses={1: status(1, time_ms=NOW_MS - 2 * HOUR_MS)})),
    (
        "versions",
        ADVICE,
        "node 2 chronik 2",
        replace(HEALTHY, statuses={1: status(1), 2: status(2, software="chronik 2")}),
    ),
    ("disk-nearly-full", PROBLEM, "9.0 GiB of 100 GiB", machine(disk_free_bytes=9 * GIB)),
    ("temporary-directory", ADVICE, "node 1 in /tmp/data", machine(log_dir="/tmp/data")),
    ("slow-disk", PROBLEM, "takes about 262ms", machine(sync_p99_ms=262.1)),
    ("memory-budget", PROBLEM, "7.0 GiB for clients", machine(memory_budget_bytes=7 * GIB)),
    ("memory-spent", PROBLEM, "node 1", machine(memory_held_bytes=GIB - 1)),
    (
        "offline-partitions",
        PROBLEM,
        "orders-0",
        replace(HEALTHY, topics={"orders": topic(leader_id=NO_LEADER, isr=())}),
    ),
    ("under-min-isr", PROBLEM, "orders-0", replace(HEALTHY, topics={"orders": topic(isr=(1,))})),
    ("under-replicated", PROBLEM, "node 3 lacks 1", replace(HEALTHY, topics={"orders": topic(isr=(1, 2))})),
    (
        "move-stalled",
        PROBLEM,
        "waits for node 3",
        replace(HEALTHY, nodes=FENCED, moves={ORDERS: Move((1, 2, 3), (3,), ())}),
    ),
    (
        "leader-imbalance",
        ADVICE,
        "20 of 20 partitions",
        replace(HEALTHY, topics={f"t{n}": topic(f"t{n}", leader_id=2) for n in range(20)}),
    ),
    ("one-replica", ADVICE, "orders", replace(HEALTHY, topics={"orders": topic(replicas=(1,), isr=(1,))})),
    ("min-isr-equals-replicas", PROBLEM, "orders", configured(min_insync_replicas="3")),
    ("min-isr-one", ADVICE, "orders", configured(min_insync_replicas="1")),
    ("unclean-elections", PROBLEM, "orders", configured(unclean_leader_election_enable="true")),
    ("group-below-log-start", PROBLEM, "deleted 3 offsets", group(PartitionLag(5, 8, 9, 1, 1000))),
    ("retention-overtakes-group", PROBLEM, "is 23h old", group(PartitionLag(5, 0, 9, 4, 23 * HOUR_MS))),
    (
        "group-without-members",
        ADVICE,
        "4 records behind",
        group(PartitionLag(5, 0, 9, 4, 1000), members=0, state="Empty"),
    ),
    ("group-rebalancing", ADVICE, "billing", group(PartitionLag(5, 0, 9, 4, 1000), state="PreparingRebalance")),
    (
        "group-lag-grows",
        PROBLEM,
        "14 records behind",
        group(PartitionLag(5, 0, 9, 4, 1000), later=PartitionLag(5, 0, 19, 14, None)),
    ),
    ("dead-letters", PROBLEM, "2 records arrived in orders.dlq", replace(HEALTHY, letters={LETTERS: (3, 5)})),
    (
        "setting-without-effect",
        ADVICE,
        "nodes 1, 2",
        with_setting("num.io.threads", "4", "Without effect. In Kafka: ..."),
    ),
    ("open-listeners", ADVICE, "nodes 1, 2", with_setting("chronik.insecure.listeners", "true")),
]


def named(facts: Facts, name: str) -> Finding:
    return next(finding for finding in findings_in(facts) if finding.check == name)


def test_a_healthy_cluster_has_no_findings() -> None:
    """A doctor that always finds something is not read."""
    assert findings_in(HEALTHY) == []


def test_nothing_is_found_where_nothing_is_known() -> None:
    """Without answers there is no evidence."""
    assert findings_in(Facts(NOW_MS)) == []


@pytest.mark.parametrize(("name", "severity", "part", "facts"), STAGED, ids=[f"{row[0]} {row[2]}" for row in STAGED])
def test_each_staged_fault_is_found(name: str, severity: Severity, part: str, facts: Facts) -> None:
    """The observation is in the first sentence; consequence and action are never empty."""
    finding = named(facts, name)
    assert finding.severity is severity
    assert part in finding.what
    assert finding.consequence.endswith((".", "`"))
    assert finding.action


def test_every_check_is_staged() -> None:
    """A check that no fault triggers here could be dead."""
    for check in CHECKS:
        assert any(list(check(facts)) for *_, facts in STAGED), check.__name__


def test_problems_come_before_advice() -> None:
    facts = replace(machine(log_dir="/tmp/data", disk_free_bytes=0), quorum=quorum(voter(1), voter(2)).quorum)
    severities = [finding.severity for finding in findings_in(facts)]
    assert severities == [PROBLEM, ADVICE, ADVICE]


@pytest.mark.parametrize(
    ("what", "facts"),
    [
        ("a single node has one replica, and that is all there can be", replace(
            HEALTHY,
            nodes=HEALTHY.nodes[:1],
            quorum=quorum(voter(1)).quorum,
            topics={"orders": topic(replicas=(1,), isr=(1,))},
        )),
        ("a partition that is being moved lacks replicas on purpose", replace(
            HEALTHY, topics={"orders": topic(isr=(1, 2))}, moves={ORDERS: Move((1, 2, 3), (3,), ())}
        )),
        ("a group that commits while its lag grows is slow, not stuck", group(
            PartitionLag(5, 0, 9, 4, 1000), later=PartitionLag(6, 0, 19, 13, None)
        )),
        ("a clock that differs by less than the answer took may be right", replace(
            HEALTHY, statuses={1: StatusAt(dict(status(1).page), NOW_MS - 5000, NOW_MS + 5000)}
        )),
        ("compacted topics delete nothing by age", replace(
            group(PartitionLag(5, 0, 9, 4, 23 * HOUR_MS)),
            topic_configs=configured(cleanup_policy="compact").topic_configs,
        )),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_looks_like_a_fault_and_is_none(what: str, facts: Facts) -> None:
    """False alarms teach people to ignore the doctor."""
    assert findings_in(facts) == [], what
