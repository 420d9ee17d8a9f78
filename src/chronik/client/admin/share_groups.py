"""Share groups: where they begin to read, their lag, and changes of that while they have no members.

`groups` describes their members, as of every other kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from chronik.client.errors import Refused, refuse
from chronik.client.leaders import by_topic
from chronik.client.topology import TopicPartition
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from chronik.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


class Position(NamedTuple):
    start_offset: int | None  # the first record that the group is not done with; None: nobody has read yet
    lag: int | None  # records that it is not done with; None if nobody has counted them


async def positions(cluster: ClusterClient, group_id: str) -> dict[TopicPartition, Position]:
    """Of all partitions that the group has state for."""
    what = f"cannot read the offsets of group {group_id!r}"
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])

    async def attempt() -> dict[TopicPartition, Position]:
        response = await cluster.ask_coordinator(group_id, request, DescribeShareGroupOffsetsResponse)
        [told] = response.groups
        cluster.refuse_from_coordinator(group_id, told.error_code, what, told.error_message)
        found: dict[TopicPartition, Position] = {}
        for topic in told.topics:
            for each in topic.partitions:
                refuse(each.error_code, what, each.error_message)
                at = TopicPartition(topic.topic_name, each.partition_index)
                found[at] = Position(_known(each.start_offset), _known(each.lag))
        return dict(sorted(found.items()))

    return await cluster.retrying(attempt)


async def move(cluster: ClusterClient, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Makes a group without members begin at these offsets. A group that does not exist is made."""
    if not offsets:
        return
    what = f"cannot move group {group_id!r}"
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=at.partition, start_offset=offsets[at])
                for at in them
            ],
        )
        for topic, them in by_topic(list(offsets)).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)

    async def attempt() -> None:
        response = await cluster.ask_coordinator(group_id, request, AlterShareGroupOffsetsResponse)
        cluster.refuse_from_coordinator(group_id, response.error_code, what, response.error_message)
        for topic in response.responses:
            for each in topic.partitions:
                refuse(each.error_code, f"{what} in {topic.topic_name}-{each.partition_index}", each.error_message)

    await cluster.retrying(attempt)


async def forget(cluster: ClusterClient, group_id: str, topics: Sequence[str]) -> dict[str, Refused | None]:
    """Deletes what a group without members knows of these topics."""
    what = f"cannot delete offsets of group {group_id!r}"
    asked = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=asked)

    async def attempt() -> dict[str, Refused | None]:
        response = await cluster.ask_coordinator(group_id, request, DeleteShareGroupOffsetsResponse)
        cluster.refuse_from_coordinator(group_id, response.error_code, what, response.error_message)
        return {
            each.topic_name: Refused(ErrorCode.of(each.error_code), f"{what} in {each.topic_name}", each.error_message)
            if each.error_code
            else None
            for each in response.responses
        }

    return await cluster.retrying(attempt)


def _known(value: int) -> int | None:
    return value if value != -1 else None
