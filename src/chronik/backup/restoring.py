"""Writes a backup into a cluster that has none of its topics.

The guarantee: every consumer of the restored cluster reads what a read_committed consumer of the original cluster read:
the same records at the same offsets, from the same first offset to the same end. Groups continue at their offsets.

The whole backup is read and verified before anything is created. While a topic is being restored it has unlimited
retention and accepts every timestamp; its own configuration is set last, which distinguishes a restored topic from an
unfinished one. If anything fails, unfinished topics are deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chronik.backup.cutting import JOINED_BYTES_MAX, SkippedOffsets, steps
from chronik.backup.errors import NotRestorable, RestoreFailed
from chronik.backup.files import PIECE_BYTES, batches_of
from chronik.backup.manifest import Manifest, PartitionBackup, TopicBackup
from chronik.backup.writing import PartitionRestore, Uncertain, new_producer
from chronik.client.admin import acls, configs, offsets, quotas, topics
from chronik.client.admin.configs import ConfigResource, ResourceKind
from chronik.client.errors import ClientError, Refused
from chronik.client.topology import TopicPartition
from chronik.metadata.access import AccessRule
from chronik.wire.error_codes import ErrorCode
from chronik.wire.offset_specs import LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

AT_ONCE: Final = 8  # partitions restored concurrently
ATTEMPTS: Final = 5  # for a topic whose leader failed while markers were written
RECREATE_PATIENCE_MS: Final = 60_000  # until a deleted topic's name is available
SKIPPED_OFFSETS_MAX: Final = 10_000_000
# Marks a topic whose restore is unfinished. The value, the maximum minus 1, is unlikely to be set by users.
UNFINISHED_KEY: Final = "message.timestamp.after.max.ms"
UNFINISHED: Final = str(2**63 - 2)
WHILE_RESTORED: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    UNFINISHED_KEY: UNFINISHED,
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
MAX_MESSAGE_BYTES: Final = "max.message.bytes"
MAX_MESSAGE_BYTES_DEFAULT: Final = 1_048_588
SEGMENT_BYTES: Final = "segment.bytes"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    topic: TopicBackup
    skipped_offsets: int
    exists: bool = False  # already restored

    @property
    def offsets(self) -> int:
        return sum(partition.end_offset for partition in self.topic.partitions)


@dataclass(frozen=True, slots=True)
class Restored:
    topics: tuple[TopicPlan, ...]
    groups: int
    moved_groups: tuple[str, ...]  # groups whose offsets were beyond the end of the backup
    acls: int
    quotas: int
    refused: tuple[str, ...]  # descriptions of what the cluster refused


@dataclass(slots=True)
class Progress:
    bytes_total: int = 0  # bytes to verify
    bytes_done: int = 0
    offsets_total: int = 0
    offsets_done: int = 0


# --- the plan


async def checked(directory: Path, manifest: Manifest, progress: Progress) -> list[TopicPlan]:
    """Reads every record of the backup. Raises Damaged."""
    progress.bytes_total = manifest.size_bytes
    return [await _checked_topic(directory, topic, progress) for topic in manifest.topics]


async def _checked_topic(directory: Path, topic: TopicBackup, progress: Progress) -> TopicPlan:
    skipped_offsets = 0
    for partition in topic.partitions:
        skipped = SkippedOffsets(partition.start_offset)
        for batch in batches_of(directory, partition):
            skipped.add(batch)
            if (progress.bytes_done + batch.size_bytes) // PIECE_BYTES > progress.bytes_done // PIECE_BYTES:
                await asyncio.sleep(0)  # lets Ctrl-C and the progress bar run
            progress.bytes_done += batch.size_bytes
        skipped_offsets += skipped.until(partition.end_offset)
    return TopicPlan(topic, skipped_offsets)


async def planned(
    cluster: ClusterClient,
    plans: Sequence[TopicPlan],
    *,
    replication_factor: int | None,
    resume: bool,
    skipped_max: int = SKIPPED_OFFSETS_MAX,
) -> list[TopicPlan]:
    """The work to do in this cluster. Raises NotRestorable; changes nothing."""
    topology = await cluster.retrying(lambda: cluster.refresh(None))
    result = []
    for plan in plans:
        name = plan.topic.name
        if plan.skipped_offsets > skipped_max:
            raise NotRestorable(
                f"topic {name!r} has {plan.skipped_offsets:,} offsets without a record, and each needs a marker of "
                f"about 80 bytes. Allow it with --gaps-max {plan.skipped_offsets}, or leave the topic out with --topics"
            )
        exists = name in topology.topics
        if exists and not await _is_unfinished(cluster, name):
            if not resume:
                raise NotRestorable(
                    f"topic {name!r} exists. Restore into a cluster without it, leave it out with --topics, or go on "
                    "with a restore that was interrupted: --resume"
                )
            await _require_equal(cluster, plan.topic)
            result.append(replace(plan, exists=True))
            continue
        if exists and not resume:
            raise NotRestorable(f"topic {name!r} is left from a restore that was interrupted: use --resume")
        result.append(plan)
    copies = max((_replicas(plan.topic, replication_factor) for plan in result), default=0)
    if copies > len(topology.brokers):
        raise NotRestorable(
            f"the cluster has {len(topology.brokers)} brokers, and a topic needs {copies} replicas: "
            f"use --replication-factor {len(topology.brokers)}"
        )
    absent = [plan.topic for plan in result if plan.topic.name not in topology.topics]
    told = await topics.create(cluster, [_new_topic(each, replication_factor) for each in absent], validate_only=True)
    for fault in told.values():
        if isinstance(fault, Refused):
            raise NotRestorable(str(fault))
    return result


def _replicas(topic: TopicBackup, replication_factor: int | None) -> int:
    return topic.replication_factor if replication_factor is None else replication_factor


async def _is_unfinished(cluster: ClusterClient, name: str) -> bool:
    told = await configs.describe_topics(cluster, [name], [UNFINISHED_KEY])
    return told.get(name, {}).get(UNFINISHED_KEY) == UNFINISHED


async def _require_equal(cluster: ClusterClient, topic: TopicBackup) -> None:
    """Raises NotRestorable unless the topic has the partitions and at least the offsets of the backup."""
    known = await cluster.topic(topic.name)
    places = [TopicPartition(topic.name, index) for index in known.partitions]
    ends = await offsets.look_up(cluster, dict.fromkeys(places, LATEST))
    for partition in topic.partitions:
        end = ends.get(TopicPartition(topic.name, partition.partition))
        if end is None or isinstance(end, ClientError) or end.offset < partition.end_offset:
            raise NotRestorable(
                f"topic {topic.name!r} exists, and does not hold what the backup holds: delete it first"
            )


def _configs_while_restored(topic: TopicBackup) -> dict[str, str]:
    largest = max((file.batch_bytes_max for each in topic.partitions for file in each.files), default=0)
    allowed = int(topic.configs.get(MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES_DEFAULT))
    changed = {**WHILE_RESTORED, MAX_MESSAGE_BYTES: str(max(largest, 2 * JOINED_BYTES_MAX, allowed))}
    kept = {key: value for key, value in topic.configs.items() if key != SEGMENT_BYTES}
    return {**kept, **changed}


def _new_topic(topic: TopicBackup, replication_factor: int | None) -> topics.NewTopic:
    return topics.NewTopic(
        topic.name,
        len(topic.partitions),
        _replicas(topic, replication_factor),
        _configs_while_restored(topic),
    )


# --- the work


async def restore(
    cluster: ClusterClient,
    directory: Path,
    manifest: Manifest,
    plans: Sequence[TopicPlan],
    progress: Progress,
    *,
    replication_factor: int | None = None,
) -> Restored:
    """Executes the result of `planned`. Raises RestoreFailed, or ClientError."""
    missing = [plan for plan in plans if not plan.exists]
    progress.offsets_total = sum(plan.offsets for plan in missing)
    slots = asyncio.Semaphore(AT_ONCE)
    for plan in missing:
        try:
            await _restore_topic(cluster, directory, plan.topic, replication_factor, slots, progress)
        except BaseException as fault:
            with suppress(ClientError):
                await topics.delete(cluster, [plan.topic.name])
            if isinstance(fault, Uncertain):
                raise RestoreFailed(
                    f"{fault}. Topic {plan.topic.name!r} was deleted; run the command again with --resume"
                ) from fault
            raise
    ends = {
        TopicPartition(plan.topic.name, each.partition): each.end_offset
        for plan in plans
        for each in plan.topic.partitions
    }
    refused: list[str] = []
    moved, group_count = await _restore_groups(cluster, manifest, ends, refused)
    return Restored(
        tuple(plans),
        group_count,
        moved,
        await _restore_acls(cluster, manifest, refused),
        await _restore_quotas(cluster, manifest, refused),
        tuple(refused),
    )


async def _restore_topic(
    cluster: ClusterClient,
    directory: Path,
    topic: TopicBackup,
    replication_factor: int | None,
    slots: asyncio.Semaphore,
    progress: Progress,
) -> None:
    done_before = progress.offsets_done
    for attempt in range(ATTEMPTS):
        progress.offsets_done = done_before
        await _create_anew(cluster, _new_topic(topic, replication_factor))
        try:
            await _write_topic(cluster, directory, topic, slots, progress)
        except Uncertain:
            if attempt + 1 == ATTEMPTS:
                raise
        else:
            break
    await _set_own_configs(cluster, topic)


async def _create_anew(cluster: ClusterClient, new: topics.NewTopic) -> None:
    """Deletes the remains of an earlier attempt first. A deleted topic's name may stay unavailable for a while."""
    cluster.forget(new.name)
    with suppress(Refused):
        await cluster.topic(new.name)
        await topics.delete(cluster, [new.name])

    async def attempt() -> None:
        result = (await topics.create(cluster, [new]))[new.name]
        if not isinstance(result, Refused):
            return
        if result.kafka_error is ErrorCode.TOPIC_ALREADY_EXISTS:
            raise Refused(ErrorCode.NOT_CONTROLLER, f"topic {new.name!r} is still being deleted")  # retriable
        raise result

    await cluster.retrying(attempt, timeout_ms=RECREATE_PATIENCE_MS)


async def _write_topic(
    cluster: ClusterClient, directory: Path, topic: TopicBackup, slots: asyncio.Semaphore, progress: Progress
) -> None:
    producer = await new_producer(cluster)

    def note(count: int) -> None:
        progress.offsets_done += count

    async def one(partition: PartitionBackup) -> None:
        async with slots:
            at = TopicPartition(topic.name, partition.partition)
            todo = steps(batches_of(directory, partition), partition.start_offset, partition.end_offset)
            await PartitionRestore(cluster, at, producer, note).write(todo)

    places = {TopicPartition(topic.name, each.partition): each for each in topic.partitions}
    await offsets.look_up(cluster, dict.fromkeys(places, LATEST))  # waits until every partition has a leader
    try:
        async with asyncio.TaskGroup() as tasks:
            for partition in topic.partitions:
                tasks.create_task(one(partition))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group
    begins = {at: each.start_offset for at, each in places.items() if each.start_offset > 0}
    for fault in (await offsets.delete_records(cluster, begins)).values() if begins else ():
        if isinstance(fault, ClientError):
            raise fault
    await _require_bounds(cluster, places)


async def _require_bounds(cluster: ClusterClient, places: Mapping[TopicPartition, PartitionBackup]) -> None:
    """Raises Uncertain unless every partition has the expected start and end."""
    for at, (start_offset, end_offset) in (await offsets.bounds(cluster, places)).items():
        backup = places[at]
        if (start_offset, end_offset) != (backup.start_offset, backup.end_offset):
            raise Uncertain(
                f"{at} has offsets {start_offset} to {end_offset}, and the backup {backup.start_offset} to "
                f"{backup.end_offset}"
            )


async def _set_own_configs(cluster: ClusterClient, topic: TopicBackup) -> None:
    own = dict(topic.configs)
    changed = _configs_while_restored(topic)
    unset = [key for key in changed if key not in own]
    await configs.alter(cluster, ConfigResource(ResourceKind.TOPIC, topic.name), set_to=own, unset=unset)


async def _restore_groups(
    cluster: ClusterClient, manifest: Manifest, ends: Mapping[TopicPartition, int], refused: list[str]
) -> tuple[tuple[str, ...], int]:
    moved = []
    count = 0
    for group, committed in manifest.groups.items():
        wanted: dict[TopicPartition, offsets.Committed] = {}
        for each in committed:
            at = TopicPartition(each.topic, each.partition)
            if at not in ends:
                continue
            if each.offset > ends[at]:
                moved.append(f"{group}: {at} from {each.offset} to {ends[at]}")
            # The leader epoch belongs to the original cluster, and has no meaning here.
            wanted[at] = offsets.Committed(min(each.offset, ends[at]), -1, each.metadata)
        try:
            if wanted:
                await offsets.commit(cluster, group, wanted)
                count += 1
        except Refused as fault:
            refused.append(f"offsets of group {group!r}: {fault}")
    return tuple(moved), count


async def _restore_acls(cluster: ClusterClient, manifest: Manifest, refused: list[str]) -> int:
    rules = [_rule(fields) for fields in manifest.acls]
    try:
        if rules:
            await acls.create(cluster, rules)
    except ClientError as fault:
        refused.append(f"ACLs: {fault}")
        return 0
    return len(rules)


def _rule(fields: tuple[Any, ...]) -> AccessRule:
    return AccessRule(*fields)


async def _restore_quotas(cluster: ClusterClient, manifest: Manifest, refused: list[str]) -> int:
    count = 0
    for each in manifest.quotas:
        entity = quotas.Entity(each["entity"])
        try:
            await quotas.alter(cluster, entity, each["limits"])
            count += 1
        except ClientError as fault:
            refused.append(f"quotas of {entity}: {fault}")
    return count
