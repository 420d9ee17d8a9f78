"""What commands show about share groups: their progress in each partition, its members, and why they are behind.

The first two functions ask the cluster; `share_causes` is pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from chronik.cli.output import Column, human_count
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.admin.groups import Group
    from chronik.client.admin.share_groups import Position
    from chronik.client.doctor.lag_causes import Cause
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition

SHARE = "share"
PARTITIONS_NAMED = 5
SHARE_COLUMNS = (
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION", is_number=True),
    Column("start_offset", "START", human_count, is_number=True, nothing="not read yet"),
    Column("lag", "LAG", human_count, is_number=True),
    Column("readers", "READERS", human_count, is_number=True),
    Column("clients", "CLIENTS", ", ".join),
)


class ShareLook(NamedTuple):
    """A share group at one moment."""

    group: Group
    positions: Mapping[TopicPartition, Position]

    @property
    def lag(self) -> int:
        return sum(each.lag or 0 for each in self.positions.values())


async def look_at(cluster: ClusterClient, group: Group) -> ShareLook:
    from chronik.client.admin import share_groups

    return ShareLook(group, await share_groups.positions(cluster, group.group_id))


async def described_share(cluster: ClusterClient, group: Group) -> dict[str, Any]:
    """The document of `chronik group describe`. Several members may read one partition."""
    look = await look_at(cluster, group)
    readers: dict[TopicPartition, list[str]] = {at: [] for at in look.positions}
    for member in group.members:
        for at in member.partitions:
            readers.setdefault(at, []).append(member.client_id or member.member_id)
    rows = []
    for at, clients in sorted(readers.items()):
        position = look.positions.get(at)
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "start_offset": None if position is None else position.start_offset,
                "lag": None if position is None else position.lag,
                "readers": len(clients),
                "clients": sorted(set(clients)),
            }
        )
    return {
        "group": group.group_id,
        "type": group.group_type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator_id,
        "lag": look.lag,
        "partitions_without_offset": sum(row["start_offset"] is None for row in rows),
        "lag_ms": None,
        "members": [
            {"member_id": each.member_id, "client_id": each.client_id, "host": each.host}
            | {"partitions": [{"topic": at.topic, "partition": at.partition} for at in each.partitions]}
            for each in group.members
        ],
        "partitions": rows,
    }


def share_causes(before: ShareLook, after: ShareLook) -> list[Cause]:
    """Why the group is behind, from two looks at it. The first cause hides the others where nobody reads at all."""
    from chronik.client.doctor.lag_causes import Cause

    group = after.group
    if not group.members:
        return [Cause("no-members", "Nobody is in the group.", "Start a share consumer with this group id.")]
    found = []
    idle = [each.client_id or each.member_id for each in group.members if not each.partitions]
    if idle:
        found.append(
            Cause(
                "members-without-partitions",
                f"{counted(len(idle), 'member')} of {len(group.members)} got no partitions yet: {', '.join(idle[:5])}.",
                "If this lasts for more than a few seconds, look at the log of the group's coordinator: the partitions "
                "may have no state yet.",
            )
        )
    read = {at for member in group.members for at in member.partitions}
    if unread := [at for at, each in after.positions.items() if each.lag and at not in read]:
        found.append(
            Cause(
                "partitions-without-members",
                f"No member reads {_named(unread)}.",
                "Members subscribe to other topics now. To forget the group's offsets of a topic: chronik group "
                "delete-offsets.",
            )
        )
    if unstarted := [at for at in read if at in after.positions and after.positions[at].start_offset is None]:
        found.append(
            Cause(
                "not-started",
                f"No record of {_named(sorted(unstarted))} was read yet.",
                "The group begins where share.auto.offset.reset says: at the end, unless it is set to earliest.",
            )
        )
    still = [
        at
        for at, each in after.positions.items()
        if each.lag
        and at in read
        and at in before.positions
        and before.positions[at].start_offset == each.start_offset
        and each.lag >= (before.positions[at].lag or 0)
    ]
    if still:
        found.append(
            Cause(
                "nothing-acknowledged",
                f"No record of {_named(still)} was acknowledged in between.",
                "Members take long with what they have, or do not acknowledge it. A record that is not acknowledged "
                "goes to another member after share.record.lock.duration.ms.",
            )
        )
    return found


def _named(partitions: list[TopicPartition]) -> str:
    more = len(partitions) - PARTITIONS_NAMED
    names = ", ".join(map(str, partitions[:PARTITIONS_NAMED]))
    return f"{names} and {more} more" if more > 0 else names
