"""Turns facts into findings: one function per check, in the order in which an operator should read them.

Pure: no I/O, no clock. A check without its facts finds nothing. A healthy cluster has no PROBLEM findings; that
includes a single node, where more than one replica is impossible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from chronik.client.admin.configs import Config
from chronik.client.doctor.facts import Facts, GroupFacts
from chronik.client.doctor.findings import Finding, Severity
from chronik.client.topology import NO_LEADER, Partition, TopicPartition
from chronik.runtime.wording import counted, human_bytes, human_count, human_duration, is_or_are

Check = Callable[[Facts], Iterator[Finding]]

VOTER_SILENT_MS: Final = 10_000  # several election timeouts
CLOCK_SKEW_MS: Final = 1_000
DISK_FREE_PERCENT_MIN: Final = 10
SYNC_P99_MS_MAX: Final = 100
MEMORY_SHARE_MAX: Final = 0.8  # of the machine's memory, for the budget alone
MEMORY_HELD_MAX: Final = 0.9  # of the budget
IMBALANCE_PERCENT_MAX: Final = 10  # like leader.imbalance.per.broker.percentage
IMBALANCE_PARTITIONS_MIN: Final = 10
RETENTION_LEFT_MIN: Final = 0.2  # of retention.ms, before the oldest unread record is deleted
NAMES_MAX: Final = 5
BROKERS_FOR_COPIES: Final = 3  # with fewer, one replica may be intended
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
TEMPORARY: Final = ("/tmp/", "/var/tmp/", "/dev/shm/", "/run/")  # noqa: S108 - compared with, not written to
IDLE_KEY: Final = "Without effect."  # start of a broker's documentation of an ignored key
INSECURE: Final = "chronik.insecure.listeners"


def findings_in(facts: Facts) -> list[Finding]:
    """Problems first; within a severity, in the order of CHECKS."""
    found = [finding for check in CHECKS for finding in check(facts)]
    return sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)


# --- reaching the cluster


def silent_bootstrap(facts: Facts) -> Iterator[Finding]:
    for address, why in facts.silent_bootstrap.items():
        yield Finding(
            "bootstrap-silent",
            f"the bootstrap address {address} does not answer: {why}",
            "Clients that have only this address cannot connect.",
            "Start the broker there, or remove the address from bootstrap.servers of your clients.",
        )


def unreachable_brokers(facts: Facts) -> Iterator[Finding]:
    for node_id, why in facts.unreachable.items():
        yield Finding(
            "advertised-address",
            f"node {node_id} is alive for the controller, but its advertised address does not answer from here: {why}",
            "Clients on this machine cannot read or write the partitions that it leads.",
            f"Set advertised.listeners of node {node_id} to an address that clients can reach, and restart it.",
        )


# --- the quorum


def no_controller(facts: Facts) -> Iterator[Finding]:
    if facts.survey is not None:
        yield Finding(
            "no-controller",
            str(facts.survey),
            "Topics, leaders, groups and access rules cannot change until a controller is elected.",
            "Start the nodes that do not answer. If their disks are lost, see the guide for a lost quorum.",
        )


def silent_voters(facts: Facts) -> Iterator[Finding]:
    if facts.quorum is None:
        return
    voters = [member for member in facts.quorum.members if member.is_voter]
    silent = [
        member
        for member in voters
        if member.node_id != facts.quorum.leader_id and facts.now_ms - member.heard_ms > VOTER_SILENT_MS
    ]
    spare = len(voters) - len(silent) - (len(voters) // 2 + 1)
    for member in silent:
        yield Finding(
            "voter-silent",
            f"voter {member.node_id} does not answer the quorum's leader",
            "One more failed voter stops all changes of metadata."
            if spare == 0
            else f"The quorum can lose {counted(spare, 'more voter')} before changes of metadata stop.",
            f"Start node {member.node_id}. If it is gone for good: `chronik cluster remove {member.node_id}`",
            since_ms=member.heard_ms if member.heard_ms >= 0 else None,
        )


def left_over_learners(facts: Facts) -> Iterator[Finding]:
    registered = {node.node_id for node in facts.nodes}
    for member in facts.quorum.members if facts.quorum else ():
        if not member.is_voter and member.node_id not in registered:
            yield Finding(
                "learner-left-over",
                f"node {member.node_id} receives the metadata log, but it is neither a voter nor a broker",
                "Adding this node was interrupted. The quorum's leader keeps trying to reach it.",
                f"Start the node and add it again, or run `chronik cluster remove {member.node_id}`",
            )


def even_voters(facts: Facts) -> Iterator[Finding]:
    voters = facts.quorum.voters if facts.quorum else ()
    if len(voters) % 2 == 0 and voters:
        yield Finding(
            "even-voters",
            f"the quorum has {len(voters)} voters",
            f"It survives the loss of {len(voters) // 2 - 1}, as a quorum of {len(voters) - 1} does.",
            "Add one voter with `chronik cluster add`, or remove one.",
            Severity.ADVICE,
        )


def diverged_state(facts: Facts) -> Iterator[Finding]:
    by_version: dict[int, dict[int, str]] = {}
    for node_id, status in facts.statuses.items():
        if "state_hash" in status.page:
            by_version.setdefault(status.page["version"], {})[node_id] = status.page["state_hash"]
    for version, hashes in by_version.items():
        if len(set(hashes.values())) > 1:
            told = ", ".join(f"node {node_id} {digest[:8]}" for node_id, digest in sorted(hashes.items()))
            yield Finding(
                "metadata-differs",
                f"nodes report different metadata at version {version}: {told}",
                "These nodes make different decisions from the same log. This must never happen.",
                "Stop the node that differs, keep its directory for a bug report, and start it with an empty one.",
            )


# --- nodes


def nodes_not_ready(facts: Facts) -> Iterator[Finding]:
    fenced = {node.node_id for node in facts.nodes if node.is_fenced}
    for node_id in sorted(fenced - facts.statuses.keys()):
        yield Finding(
            "broker-fenced",
            f"broker {node_id} is fenced: the controller does not hear it",
            "It leads no partition and is no in-sync replica.",
            f"Start node {node_id}. If it is gone for good: `chronik cluster decommission {node_id}`",
        )
    for node_id, status in sorted(facts.statuses.items()):
        if not status.page["ready"] and facts.survey is None:
            yield Finding(
                "node-not-ready",
                f"node {node_id} is not ready: {status.page['not_ready_because']}",
                "Clients are not sent there.",
                f"Wait until it has started. If that takes minutes, read the log of node {node_id}.",
            )


def alarms(facts: Facts) -> Iterator[Finding]:
    for node_id, status in sorted(facts.statuses.items()):
        for alarm in status.page.get("alarms", ()):
            yield Finding(
                f"alarm-{alarm['cause']}",
                f"node {node_id} reports: {alarm['text']}",
                f"The node has reported this {counted(alarm['count'], 'time')}.",
                "The report says what to do.",
                since_ms=alarm["since_ms"],
            )


def clocks(facts: Facts) -> Iterator[Finding]:
    for node_id, status in sorted(facts.statuses.items()):
        ahead_ms = status.clock_ahead_ms
        if abs(ahead_ms) > CLOCK_SKEW_MS:
            direction = "ahead of" if ahead_ms > 0 else "behind"
            yield Finding(
                "clock",
                f"the clock of node {node_id} is {human_duration(abs(ahead_ms))} {direction} the clock of this machine",
                "Timestamps of records and retention by time are off by as much.",
                "Synchronise both clocks, for example with chrony.",
            )


def versions(facts: Facts) -> Iterator[Finding]:
    running = {node_id: str(status.page["software"]) for node_id, status in sorted(facts.statuses.items())}
    if len(set(running.values())) > 1:
        told = ", ".join(f"node {node_id} {software}" for node_id, software in running.items())
        yield Finding(
            "versions",
            f"nodes run different versions: {told}",
            "This is normal during a rolling upgrade, and not tested as a permanent state.",
            "Finish the upgrade.",
            Severity.ADVICE,
        )


# --- machines


def disks(facts: Facts) -> Iterator[Finding]:
    for node_id, status in sorted(facts.statuses.items()):
        machine = status.page.get("machine")
        if machine is None:
            continue
        free, total = machine["disk_free_bytes"], machine["disk_total_bytes"]
        if total and 100 * free < DISK_FREE_PERCENT_MIN * total:
            yield Finding(
                "disk-nearly-full",
                f"node {node_id} has {human_bytes(free)} of {human_bytes(total)} left in {machine['log_dir']}",
                "When it is full, the node refuses records until retention frees space.",
                "Lower retention of large topics (`chronik topic list --sizes` shows them), or add disk space.",
            )
        p99 = machine["sync_p99_ms"]
        if p99 is not None and p99 > SYNC_P99_MS_MAX:
            yield Finding(
                "slow-disk",
                f"1 of 100 syncs on node {node_id} takes about {human_duration(round(p99))}"
                f" (half of them less than {machine['sync_p50_ms']:.1f} ms)",
                "Producers with acks=all wait for the slowest in-sync replica's sync.",
                f"Look for other programs that write to the disk of {machine['log_dir']}, or use a faster disk.",
            )


def temporary_directories(facts: Facts) -> Iterator[Finding]:
    found = {
        node_id: directory
        for node_id, status in sorted(facts.statuses.items())
        if (directory := status.page.get("machine", {}).get("log_dir", "")).startswith(TEMPORARY)
    }
    if found:
        yield Finding(
            "temporary-directory",
            f"data is kept in temporary directories: {_named(f'node {node} in {at}' for node, at in found.items())}",
            "The system may delete them at a restart.",
            "Set log.dirs, or start `chronik up` with --data.",
            Severity.ADVICE,
        )


def memory(facts: Facts) -> Iterator[Finding]:
    for node_id, status in sorted(facts.statuses.items()):
        machine = status.page.get("machine")
        if machine is None:
            continue
        budget, held, whole = machine["memory_budget_bytes"], machine["memory_held_bytes"], machine["memory_bytes"]
        if budget > MEMORY_SHARE_MAX * whole:
            yield Finding(
                "memory-budget",
                f"node {node_id} may use {human_bytes(budget)} for clients; its machine or container has "
                f"{human_bytes(whole)}",
                "The kernel may kill the node when clients are busy.",
                "Lower chronik.memory.budget.bytes, or give the container more memory.",
            )
        if held > MEMORY_HELD_MAX * budget:
            yield Finding(
                "memory-spent",
                f"clients hold {human_bytes(held)} of the {human_bytes(budget)} memory budget of node {node_id}",
                "Large requests wait, and fetches return less.",
                "Look for clients that do not read their responses, or raise chronik.memory.budget.bytes.",
            )


# --- partitions


def partitions(facts: Facts) -> Iterator[Finding]:
    every = list(_partitions(facts))
    offline = [at for at, each in every if each.leader_id == NO_LEADER]
    if offline:
        holders = sorted({node for at, each in every if each.leader_id == NO_LEADER for node in each.replicas})
        yield Finding(
            "offline-partitions",
            f"{counted(len(offline), 'partition')} without a leader: {_named(offline)}",
            "They can be neither read nor written.",
            f"Start the nodes that hold them: {', '.join(map(str, holders))}",
        )
    below = [
        at
        for at, each in every
        if each.leader_id != NO_LEADER and len(each.isr) < min(_min_isr(facts, at.topic), len(each.replicas))
    ]
    if below:
        yield Finding(
            "under-min-isr",
            f"{counted(len(below), 'partition')} with fewer in-sync replicas than min.insync.replicas: {_named(below)}",
            "Producers with acks=all are refused (NOT_ENOUGH_REPLICAS).",
            "Start the brokers that hold the missing replicas; `chronik topic describe TOPIC` names them.",
        )
    behind = [
        at
        for at, each in every
        if each.leader_id != NO_LEADER and len(each.isr) < len(each.replicas) and at not in facts.moves
    ]
    if behind:
        missing = Counter(
            node for at, each in every if at in set(behind) for node in each.replicas if node not in each.isr
        )
        told = ", ".join(f"node {node} lacks {count}" for node, count in missing.most_common(NAMES_MAX))
        yield Finding(
            "under-replicated",
            f"{counted(len(behind), 'partition')} with a replica that is not in sync: {_named(behind)} ({told})",
            "Fewer failures than configured can make them unavailable.",
            "Start the nodes named, or wait until they have caught up.",
        )


def imbalance(facts: Facts) -> Iterator[Finding]:
    """Checked only while every broker is available: leaders move back automatically after an outage."""
    if any(node.is_fenced for node in facts.nodes) or not facts.nodes:
        return
    every = [each for _, each in _partitions(facts) if each.replicas and each.leader_id != NO_LEADER]
    elsewhere = sum(each.leader_id != each.replicas[0] for each in every)
    if len(every) >= IMBALANCE_PARTITIONS_MIN and 100 * elsewhere > IMBALANCE_PERCENT_MAX * len(every):
        yield Finding(
            "leader-imbalance",
            f"{elsewhere} of {counted(len(every), 'partition')} {is_or_are(elsewhere)} led by another broker than the "
            "preferred one",
            "Some brokers do more work than others.",
            "Leaders move back within five minutes if auto.leader.rebalance.enable=true; `chronik cluster rebalance` "
            "does it now.",
            Severity.ADVICE,
        )


def stalled_moves(facts: Facts) -> Iterator[Finding]:
    fenced = {node.node_id for node in facts.nodes if node.is_fenced}
    for at, move in facts.moves.items():
        waiting = sorted(fenced & set(move.adding))
        if waiting:
            yield Finding(
                "move-stalled",
                f"the move of {at} to {list(move.adding)} waits for node {waiting[0]}, which is fenced",
                "The old replicas stay until the move ends.",
                f"Start node {waiting[0]}, or cancel with `chronik cluster rebalance --cancel`",
            )


def copies(facts: Facts) -> Iterator[Finding]:
    alive = [node for node in facts.nodes if not node.is_fenced]
    if len(alive) < BROKERS_FOR_COPIES:
        return
    users = [topic for topic in (facts.topics or {}).values() if not topic.is_internal]
    single, exact, alone, unclean = [], [], [], []
    for topic in users:
        least = min((len(each.replicas) for each in topic.partitions.values()), default=0)
        needed = _min_isr(facts, topic.name)
        if least == 1:
            single.append(topic.name)
        elif needed >= least > 1:
            exact.append(topic.name)
        elif least > 1 and needed == 1:
            alone.append(topic.name)
        if (facts.topic_configs.get(topic.name) or {}).get("unclean.leader.election.enable") == "true":
            unclean.append(topic.name)
    if single:
        yield Finding(
            "one-replica",
            f"{counted(len(single), 'topic')} with one replica: {_named(single)}",
            "The loss of one disk loses their records.",
            "Create topics with --replication-factor 3; default.replication.factor sets it for automatic creation.",
            Severity.ADVICE,
        )
    if exact:
        yield Finding(
            "min-isr-equals-replicas",
            f"{counted(len(exact), 'topic')} with min.insync.replicas equal to the number of replicas: {_named(exact)}",
            "Producers with acks=all are refused while any one of their brokers restarts.",
            f"Lower it: `chronik config set topic {exact[0]} min.insync.replicas=2`",
        )
    if alone:
        yield Finding(
            "min-isr-one",
            f"{counted(len(alone), 'topic')} with min.insync.replicas=1: {_named(alone)}",
            "While the other replicas are out of sync, acks=all means one copy.",
            f"Raise it: `chronik config set topic {alone[0]} min.insync.replicas=2`",
            Severity.ADVICE,
        )
    if unclean:
        yield Finding(
            "unclean-elections",
            f"{counted(len(unclean), 'topic')} with unclean.leader.election.enable=true: {_named(unclean)}",
            "A replica that lacks acknowledged records may become leader. Those records are lost then.",
            f"Turn it off: `chronik config set topic {unclean[0]} unclean.leader.election.enable=false`",
        )


# --- groups and dead letters


def groups(facts: Facts) -> Iterator[Finding]:
    for group in facts.groups:
        yield from _below_start(group)
        yield from _losing(facts, group)
        if group.state in REBALANCING and group.lag:
            yield Finding(
                "group-rebalancing",
                f"group {group.group_id} is rebalancing, {counted(group.lag, 'record')} behind",
                "Members of a classic group read nothing during a rebalance.",
                f"If this persists, a member does not rejoin in time: `chronik group describe {group.group_id}`",
                Severity.ADVICE,
            )
        elif not group.member_count and group.lag:
            yield Finding(
                "group-without-members",
                f"group {group.group_id} has no members and is {counted(group.lag, 'record')} behind",
                "Its records wait until a consumer joins, or until retention deletes them.",
                f"Start its consumers, or delete it with `chronik group delete {group.group_id}`",
                Severity.ADVICE,
            )
        elif group.later and group.lag_later > group.lag and not _commits(group):
            yield Finding(
                "group-lag-grows",
                f"group {group.group_id} is {human_count(group.lag_later)} records behind and commits nothing while "
                "records arrive",
                "Its lag grows until its members commit again.",
                f"Look at its consumers: `chronik group describe {group.group_id}`",
            )


def _commits(group: GroupFacts) -> bool:
    return any(
        group.partitions[at].committed != each.committed for at, each in group.later.items() if at in group.partitions
    )


def _below_start(group: GroupFacts) -> Iterator[Finding]:
    lost = {
        at: each.start_offset - each.committed
        for at, each in group.partitions.items()
        if each.committed is not None and each.start_offset is not None and each.committed < each.start_offset
    }
    if lost:
        yield Finding(
            "group-below-log-start",
            f"retention deleted {counted(sum(lost.values()), 'offset')} that group {group.group_id} had not read: "
            f"{_named(sorted(lost))}",
            "The group continues at the first record that is left, or where auto.offset.reset says.",
            "Raise retention.ms of the topic, or make the consumers faster.",
        )


def _losing(facts: Facts, group: GroupFacts) -> Iterator[Finding]:
    for at, each in group.partitions.items():
        config = facts.topic_configs.get(at.topic) or {}
        retention_ms = int(config.get("retention.ms") or -1)
        if (
            retention_ms <= 0
            or not each.lag
            or each.lag_ms is None
            or "delete" not in (config.get("cleanup.policy") or "")
        ):
            continue
        left_ms = retention_ms - each.lag_ms
        if left_ms < RETENTION_LEFT_MIN * retention_ms:
            yield Finding(
                "retention-overtakes-group",
                f"the oldest unread record of group {group.group_id} in {at} is {human_duration(each.lag_ms)} old; "
                f"retention.ms of {at.topic} is {human_duration(retention_ms)}",
                f"It can be deleted in {human_duration(left_ms)}." if left_ms > 0 else "It can be deleted at any time.",
                f"Raise it until the group has caught up: `chronik config set topic {at.topic} retention.ms=...`",
            )
            return


def dead_letters(facts: Facts) -> Iterator[Finding]:
    grown: Counter[str] = Counter()
    for at, (before, after) in facts.letters.items():
        grown[at.topic] += max(0, after - before)
    for topic, count in sorted(grown.items()):
        if count:
            yield Finding(
                "dead-letters",
                f"{counted(count, 'record')} arrived in {topic} while the doctor looked",
                "A pipeline rejects records.",
                f"See why: `chronik dlq show {topic}`",
            )


# --- settings


def idle_settings(facts: Facts) -> Iterator[Finding]:
    by_key: dict[str, list[int]] = {}
    for node_id, config in _broker_settings(facts):
        if (config.documentation or "").startswith(IDLE_KEY):
            by_key.setdefault(config.name, []).append(node_id)
    for key, node_ids in sorted(by_key.items()):
        yield Finding(
            "setting-without-effect",
            f"{key} is set on {'node' if len(node_ids) == 1 else 'nodes'} {', '.join(map(str, sorted(node_ids)))}",
            "Chronik accepts the key and does nothing with it.",
            "Remove it, or see docs/reference/configuration.md for what replaces it.",
            Severity.ADVICE,
        )


def open_listeners(facts: Facts) -> Iterator[Finding]:
    open_to_all = sorted(
        node_id for node_id, config in _broker_settings(facts) if config.name == INSECURE and config.value == "true"
    )
    if open_to_all:
        yield Finding(
            "open-listeners",
            f"{'node' if len(open_to_all) == 1 else 'nodes'} {', '.join(map(str, open_to_all))} may listen on the "
            f"network without authentication ({INSECURE}=true)",
            "Anyone who reaches the port can read, write and delete everything.",
            "Use SASL_SSL or SSL listeners; see docs/reference/security.md.",
            Severity.ADVICE,
        )


CHECKS: Final[Sequence[Check]] = (
    no_controller,
    silent_bootstrap,
    unreachable_brokers,
    silent_voters,
    diverged_state,
    nodes_not_ready,
    alarms,
    partitions,
    stalled_moves,
    disks,
    memory,
    clocks,
    copies,
    groups,
    dead_letters,
    left_over_learners,
    even_voters,
    imbalance,
    versions,
    temporary_directories,
    open_listeners,
    idle_settings,
)


def _partitions(facts: Facts) -> Iterator[tuple[TopicPartition, Partition]]:
    for topic in (facts.topics or {}).values():
        for each in topic.partitions.values():
            yield TopicPartition(topic.name, each.partition), each


def _min_isr(facts: Facts, topic: str) -> int:
    return int((facts.topic_configs.get(topic) or {}).get("min.insync.replicas") or 1)


def _broker_settings(facts: Facts) -> Iterator[tuple[int, Config]]:
    for node_id, configs in facts.broker_configs.items():
        for config in configs:
            yield node_id, config


def _named(names: Iterable[object]) -> str:
    """The first few names, and the number of the others."""
    every = [str(name) for name in names]
    more = len(every) - NAMES_MAX
    return ", ".join(every[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")
