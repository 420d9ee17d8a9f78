"""What `chronik group reset` would do: per partition, from which offset to which. It never commits anything.

A new offset is within the log: what lies before its start is moved there, what lies behind its end too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.naming import existing_topic
from chronik.client.admin import groups, offsets
from chronik.client.consumer import AtTime, Start
from chronik.client.errors import ClientError, Refused
from chronik.client.topology import TopicPartition
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


class Move(NamedTuple):
    at: TopicPartition
    old_offset: int | None  # None: the group has no offset here
    new_offset: int

    @property
    def moves(self) -> bool:
        return self.old_offset != self.new_offset

    def as_row(self, *, executed: bool) -> dict[str, Any]:
        return {
            "topic": self.at.topic,
            "partition": self.at.partition,
            "old_offset": self.old_offset,
            "new_offset": self.new_offset,
            "shift": None if self.old_offset is None else self.new_offset - self.old_offset,
            "committed": executed,
        }


async def make_plan(
    cluster: ClusterClient,
    group_id: str,
    *,
    to: Start | None,
    shift: int | None,
    topics: Sequence[str],
    only: Sequence[int],
) -> list[Move]:
    await _require_no_members(cluster, group_id)
    committed = {at: each.offset for at, each in (await offsets.committed(cluster, group_id)).items()}
    partitions = await _partitions(cluster, group_id, committed, topics, only)
    starts = await _offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await _offsets(cluster, dict.fromkeys(partitions, LATEST))
    if to is not None:
        wanted = await _places(cluster, partitions, to)
    else:
        missing = [at for at in partitions if at not in committed]
        if missing:
            raise CommandFailed(f"group {group_id!r} has no offset for {missing[0]} to shift from: use --to")
        wanted = {at: committed[at] + (shift or 0) for at in partitions}
    return [Move(at, committed.get(at), min(max(wanted.get(at, ends[at]), starts[at]), ends[at])) for at in partitions]


async def _require_no_members(cluster: ClusterClient, group_id: str) -> None:
    try:
        group = await groups.describe(cluster, group_id)
    except Refused as fault:
        if fault.kafka_error is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if group.members:
        who = ", ".join(sorted({member.client_id for member in group.members}))
        raise CommandFailed(
            f"group {group_id!r} has {counted(len(group.members), 'member')} ({who}): NON_EMPTY_GROUP; "
            "stop them first, or they would overwrite the new offsets"
        )


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


async def _places(
    cluster: ClusterClient, partitions: Sequence[TopicPartition], place: Start
) -> dict[TopicPartition, int]:
    """Where a place is in each partition; partitions whose records are all older than a time are left out."""
    if isinstance(place, int) and place >= 0:
        return dict.fromkeys(partitions, place)
    timestamp = place.timestamp_ms if isinstance(place, AtTime) else place
    found = await _offsets(cluster, dict.fromkeys(partitions, timestamp))
    return {at: offset for at, offset in found.items() if offset != offsets.NONE}


async def _offsets(cluster: ClusterClient, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for at, answer in (await offsets.look_up(cluster, wanted)).items():
        if isinstance(answer, ClientError):
            raise answer
        found[at] = answer.offset
    return found
