"""What `chronik group reset` would do: which partitions it concerns, and why it cannot. It never commits anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.naming import existing_topic
from chronik.client.admin import groups, offsets, share_groups
from chronik.client.admin.resetting import Move, plan
from chronik.client.consumer import Start
from chronik.client.errors import Refused
from chronik.client.topology import TopicPartition
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


async def make_plan(
    cluster: ClusterClient,
    group_id: str,
    *,
    to: Start | None,
    shift: int | None,
    topics: Sequence[str],
    only: Sequence[int],
) -> tuple[list[Move], bool]:
    """What would be moved, and whether the group is a share group."""
    is_share = await _require_no_members(cluster, group_id) == groups.SHARE
    if is_share:
        found = await share_groups.positions(cluster, group_id)
        committed = {at: each.start_offset for at, each in found.items() if each.start_offset is not None}
        topics = topics or sorted({at.topic for at in found})
    else:
        committed = {at: each.offset for at, each in (await offsets.committed(cluster, group_id)).items()}
    partitions = await _partitions(cluster, group_id, committed, topics, only)
    missing = [at for at in partitions if at not in committed] if to is None else []
    if missing:
        raise CommandFailed(f"group {group_id!r} has no offset for {missing[0]} to shift from: use --to")
    return await plan(cluster, committed, partitions, to=to, shift=shift or 0), is_share


async def _require_no_members(cluster: ClusterClient, group_id: str) -> str:
    """The type of the group; empty if there is none."""
    try:
        group = await groups.describe(cluster, group_id)
    except Refused as fault:
        if fault.kafka_error is ErrorCode.GROUP_ID_NOT_FOUND:
            return ""
        raise
    if group.members:
        who = ", ".join(sorted({member.client_id for member in group.members}))
        raise CommandFailed(
            f"group {group_id!r} has {counted(len(group.members), 'member')} ({who}): NON_EMPTY_GROUP; "
            "stop them first, or they would overwrite the new offsets"
        )
    return group.group_type


async def _partitions(
    cluster: ClusterClient,
    group_id: str,
    committed: dict[TopicPartition, int],
    topics: Sequence[str],
    only: Sequence[int],
) -> list[TopicPartition]:
    if topics:
        known = [
            TopicPartition(topic, index)
            for topic in topics
            for index in (await existing_topic(cluster, topic)).partitions
        ]
    else:
        known = sorted(committed)
        if not known:
            raise CommandFailed(f"group {group_id!r} has no offsets to move: name a topic with --topic to give it some")
    chosen = [at for at in known if not only or at.partition in only]
    if not chosen:
        raise Misused(f"--partition {', '.join(map(str, only))}: no topic has such a partition")
    return chosen
