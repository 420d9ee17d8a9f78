"""Copies topics of a running cluster into a directory, as consumers of committed records see them.

The guarantee: for each partition there is an offset E, chosen during the backup, such that the backup holds exactly
what a read_committed consumer reads below E. Batches are copied whole, as the broker sends them; control batches and
batches of aborted transactions are omitted. Committed offsets of groups are read before any E is chosen, so a group is
never past a record that the backup lacks. Each partition has its own E: a transaction over several partitions that
commits during the backup may be in one and not in another.

Order: groups, settings, ends, records, manifest. The backup is valid only once the manifest is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chronik.backup.errors import BackupError, DoesNotContinue
from chronik.backup.files import PartitionWriter, ensure_extends, opened_for_backup, write_manifest
from chronik.backup.manifest import GroupOffset, Manifest, PartitionBackup, RecordFile, TopicBackup
from chronik.client.admin import acls, configs, groups, offsets, quotas, users
from chronik.client.admin.configs import ConfigResource, ResourceKind
from chronik.client.errors import ClientError, OffsetOutOfRange, Refused
from chronik.client.fetch_answers import FetchOptions, Visibility, batches_of, damage_of, fetch_data
from chronik.client.topology import Topic, TopicPartition
from chronik.metadata.access import RuleFilter
from chronik.runtime.units import NS_PER_MS
from chronik.wire.batches import BatchView, crc_holds
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

AT_ONCE: Final = 4  # partitions copied concurrently
FETCH: Final = FetchOptions(
    max_wait_ms=500, max_bytes=8 << 20, partition_max_bytes=4 << 20, isolation_level=READ_COMMITTED
)
PATIENCE_MS: Final = 120_000  # while a leader moves
EMPTY_MAX: Final = 3  # consecutive conclusive responses without a batch: nothing is left before the end
PASSWORDS: Final = "passwords of SCRAM users: brokers never return them. Add the users again with `chronik user add`"
SETTINGS: Final = "configuration of brokers and groups, and where replicas are placed"


@dataclass(slots=True)
class Progress:
    """The progress of the copy, in offsets, and the bytes written."""

    offsets_total: int = 0
    offsets_done: int = 0
    bytes_done: int = 0


@dataclass(frozen=True, slots=True)
class _Range:
    at: TopicPartition
    before: PartitionBackup | None  # from the previous backup
    start_offset: int
    end_offset: int

    @property
    def next_offset(self) -> int:
        return self.start_offset if self.before is None else max(self.start_offset, self.before.end_offset)


async def take(
    cluster: ClusterClient,
    directory: Path,
    wants: Callable[[str], bool],
    taken_at: str,
    progress: Progress,
) -> tuple[Manifest, Manifest | None]:
    """Backs up the topics that `wants` accepts. Returns the new and the previous manifest. Raises BackupError."""
    with opened_for_backup(directory) as before:
        topology = await cluster.retrying(lambda: cluster.refresh(None))
        cluster_id = topology.cluster_id or ""
        if before is not None and before.cluster_id != cluster_id:
            raise DoesNotContinue(
                f"{directory} is a backup of cluster {before.cluster_id}, and this is cluster {cluster_id}: "
                "use a new directory"
            )
        chosen = [topic for name, topic in sorted(topology.topics.items()) if not topic.is_internal and wants(name)]
        group_offsets = await _group_offsets(cluster, {topic.name for topic in chosen})
        left_out = [SETTINGS]
        described = [await _described(cluster, topic, left_out) for topic in chosen]
        rules = await _access_rules(cluster, left_out)
        limits = await _quotas(cluster, left_out)
        await _say_users(cluster, left_out)
        ranges = await _ranges(cluster, chosen, before)
        progress.offsets_total = sum(each.end_offset - each.next_offset for each in ranges)
        copied = await _copy_all(cluster, directory, ranges, progress)
        manifest = Manifest(
            cluster_id,
            taken_at,
            tuple(
                replace(
                    topic,
                    partitions=tuple(
                        copied[TopicPartition(topic.name, index)] for index in range(len(topic.partitions))
                    ),
                )
                for topic in described
            ),
            group_offsets,
            rules,
            limits,
            tuple(left_out),
        )
        manifest = _with_other_topics(manifest, before)
        write_manifest(directory, manifest)
        return manifest, before


def _with_other_topics(manifest: Manifest, before: Manifest | None) -> Manifest:
    """A topic of the previous backup that is deleted, or not selected this time, stays in the backup, with its groups'
    committed offsets."""
    if before is None:
        return manifest
    kept = before.only([topic.name for topic in before.topics if manifest.topic(topic.name) is None])
    names = sorted(manifest.groups.keys() | kept.groups.keys())
    return replace(
        manifest,
        topics=tuple(sorted([*manifest.topics, *kept.topics], key=lambda topic: topic.name)),
        groups={name: (*manifest.groups.get(name, ()), *kept.groups.get(name, ())) for name in names},
    )


# --- settings


async def _group_offsets(cluster: ClusterClient, topics: set[str]) -> dict[str, tuple[GroupOffset, ...]]:
    found: dict[str, tuple[GroupOffset, ...]] = {}
    for group in await groups.list_all(cluster):
        committed = await offsets.committed(cluster, group.group_id, is_stable=True)
        kept = tuple(
            GroupOffset(at.topic, at.partition, each.offset, each.metadata)
            for at, each in committed.items()
            if at.topic in topics
        )
        if kept:
            found[group.group_id] = kept
    return found


async def _described(cluster: ClusterClient, topic: Topic, left_out: list[str]) -> TopicBackup:
    """The topic without offsets and files."""
    if sorted(topic.partitions) != list(range(len(topic.partitions))):
        raise BackupError(f"topic {topic.name!r}: the cluster does not tell all its partitions; try again")
    resource = ConfigResource(ResourceKind.TOPIC, topic.name)
    own = [each for each in await configs.describe(cluster, resource) if each.source is resource.own_source]
    left_out += [f"{each.name} of topic {topic.name}, which is secret" for each in own if each.value is None]
    return TopicBackup(
        topic.name,
        topic.topic_id.hex(),
        max(len(partition.replicas) for partition in topic.partitions.values()),
        {each.name: each.value for each in own if each.value is not None},
        tuple(PartitionBackup(index, 0, 0) for index in sorted(topic.partitions)),
    )


async def _access_rules(cluster: ClusterClient, left_out: list[str]) -> tuple[tuple[int | str, ...], ...]:
    try:
        return tuple(tuple(rule) for rule in await acls.describe(cluster, RuleFilter()))
    except Refused as fault:
        if not acls.is_without_authorizer(fault):
            left_out.append(f"ACLs: {fault}")
    except ClientError as fault:
        left_out.append(f"ACLs: {fault}")
    return ()


async def _quotas(cluster: ClusterClient, left_out: list[str]) -> tuple[dict[str, Any], ...]:
    try:
        found = await quotas.list_all(cluster)
    except ClientError as fault:
        left_out.append(f"quotas: {fault}")
        return ()
    return tuple({"entity": dict(each.entity.names), "limits": dict(each.limits)} for each in found)


async def _say_users(cluster: ClusterClient, left_out: list[str]) -> None:
    try:
        names = sorted(await users.describe(cluster))
    except ClientError:
        names = []  # brokers before KIP-554, or no permission: the general sentence is still true
    left_out.append(f"{PASSWORDS}{': ' if names else ''}{', '.join(names)}")


# --- records


async def _ranges(cluster: ClusterClient, topics: Sequence[Topic], before: Manifest | None) -> list[_Range]:
    places = [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]
    bounds = await offsets.bounds(cluster, places, isolation_level=READ_COMMITTED)
    ranges = []
    for topic in topics:
        known = before.topic(topic.name) if before is not None else None
        if known is not None and known.topic_id != topic.topic_id.hex():
            raise DoesNotContinue(
                f"topic {topic.name!r} was deleted and created again since the last backup: use a new directory"
            )
        for index in topic.partitions:
            at = TopicPartition(topic.name, index)
            start_offset, stable_offset = bounds[at]
            old = known.partitions[index] if known is not None and index < len(known.partitions) else None
            end_offset = max(start_offset, stable_offset)
            if old is not None:
                ensure_extends(old, start_offset, end_offset, str(at))
            ranges.append(_Range(at, old, start_offset, end_offset))
    return ranges


async def _copy_all(
    cluster: ClusterClient, directory: Path, ranges: Sequence[_Range], progress: Progress
) -> dict[TopicPartition, PartitionBackup]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(part: _Range) -> PartitionBackup:
        async with slots:
            return await _copy(cluster, directory, part, progress)

    async with asyncio.TaskGroup() as tasks:
        copies = {part.at: tasks.create_task(one(part)) for part in ranges}
    return {at: copy.result() for at, copy in copies.items()}


async def _copy(cluster: ClusterClient, directory: Path, part: _Range, progress: Progress) -> PartitionBackup:
    writer = PartitionWriter(directory, *part.at)
    try:
        start_offset, end_offset = await _copy_batches(cluster, part, writer, progress)
        files = writer.close()
    except BaseException:
        writer.abandon()
        raise
    before: tuple[RecordFile, ...] = () if part.before is None else part.before.files
    # Files entirely below the start of the log stay, although they are not needed: a backup never deletes files.
    return PartitionBackup(part.at.partition, start_offset, end_offset, (*before, *files))


async def _copy_batches(
    cluster: ClusterClient, part: _Range, writer: PartitionWriter, progress: Progress
) -> tuple[int, int]:
    """The start and end of the copy: both may have increased, by retention and to the end of a batch."""
    position, start_offset, end_offset = part.next_offset, part.start_offset, part.end_offset
    written_until = 0 if part.before is None else part.before.end_offset
    empty_count = 0
    moved_ns = cluster.clock.monotonic_ns()
    while position < end_offset:
        try:
            batches, may_be_empty = await _fetched(cluster, part.at, position, end_offset)
        except OffsetOutOfRange:
            start_offset = await _new_start(cluster, part.at, position)
            position = start_offset
            end_offset = max(end_offset, start_offset)
            continue
        if not batches:
            empty_count += may_be_empty
            if empty_count == EMPTY_MAX:
                break
            if cluster.clock.monotonic_ns() - moved_ns > PATIENCE_MS * NS_PER_MS:
                raise DoesNotContinue(
                    f"{part.at} shows nothing from offset {position} on, and ended at {end_offset} when the backup "
                    "began: the log went back, or a quota holds the backup up"
                )
            continue
        empty_count, moved_ns = 0, cluster.clock.monotonic_ns()
        reached = position
        for batch, is_visible in batches:
            if batch.base_offset >= end_offset:
                reached = end_offset
                break
            if is_visible:
                if batch.base_offset < written_until:
                    raise DoesNotContinue(
                        f"{part.at}: a batch begins at offset {batch.base_offset}, but offsets up to {written_until} "
                        "are in the backup: use a new directory"
                    )
                writer.append(batch)
                written_until = batch.next_offset
                progress.bytes_done += batch.size_bytes
            reached = max(reached, batch.next_offset)
        progress.offsets_done += min(reached, end_offset) - position
        position = reached
    return start_offset, max(end_offset, position)


async def _fetched(
    cluster: ClusterClient, at: TopicPartition, offset: int, end_offset: int
) -> tuple[list[tuple[BatchView, bool]], bool]:
    """The batches from `offset` on, each with whether readers of committed records see it. If there are none, whether
    that is conclusive: a quota may delay them, and a new leader may not know the commit position yet."""

    async def attempt() -> tuple[list[tuple[BatchView, bool]], bool]:
        try:
            await cluster.topic(at.topic)
            told = await fetch_data(
                cluster, cluster.topology.leader(at), {at: offset}, FETCH, purpose=f"backup {at.partition % AT_ONCE}"
            )
            data = told.partitions[at]
            batches = [batch for batch in batches_of(at, data, offset) if batch.next_offset > offset]
        except ClientError as fault:
            if fault.retriable:
                cluster.forget(at.topic)
            if isinstance(fault, Refused) and fault.kafka_error is ErrorCode.UNKNOWN_TOPIC_ID:
                raise DoesNotContinue(f"topic {at.topic!r} was deleted while it was backed up") from fault
            raise
        visibility = Visibility(data, READ_COMMITTED)
        for batch in batches:
            if not crc_holds(batch):
                raise damage_of(at, batch)
        is_conclusive = told.throttle_ms == 0 and data.last_stable_offset >= end_offset
        return [(batch, visibility.shows(batch)) for batch in batches], is_conclusive

    return await cluster.retrying(attempt, timeout_ms=PATIENCE_MS)


async def _new_start(cluster: ClusterClient, at: TopicPartition, position: int) -> int:
    """The start of the log, after retention removed the records to read next."""
    found = (await offsets.look_up(cluster, {at: EARLIEST}))[at]
    if isinstance(found, ClientError):
        raise found
    if found.offset <= position:
        raise DoesNotContinue(f"{at} lost the records from offset {position} on while it was backed up")
    return found.offset
