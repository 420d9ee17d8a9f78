"""One look at a consumer group: its members, what it has committed and where its partitions begin and end.

`lag_causes` compares two looks some seconds apart. Nothing is changed and no record is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.client.admin import groups, offsets
from chronik.client.doctor.lag_causes import Look, PartitionLook
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


async def look(cluster: ClusterClient, name: str) -> Look:
    group = await groups.describe(cluster, name)
    committed = await offsets.committed(cluster, name)
    readers = {at: member.client_id or member.member_id for member in group.members for at in member.partitions}
    topics = sorted({at.topic for at in committed.keys() | readers.keys()})
    topology = await cluster.retrying(lambda: cluster.refresh(topics))
    leaders = {
        TopicPartition(topic, each.partition): each.leader_id
        for topic in topics
        if topic in topology.topics
        for each in topology.topics[topic].partitions.values()
    }
    # A partition without a leader cannot be queried, and a query would wait for one.
    led = [at for at, leader_id in leaders.items() if leader_id >= 0]
    starts = await offsets.look_up(cluster, dict.fromkeys(led, EARLIEST)) if led else {}
    ends = await offsets.look_up(cluster, dict.fromkeys(led, LATEST)) if led else {}
    now_ms = cluster.clock.wall_ms()
    partitions = {}
    for at, leader_id in leaders.items():
        offset = committed[at].offset if at in committed else None
        start, end = starts.get(at), ends.get(at)
        if start is None or end is None or isinstance(start, ClientError) or isinstance(end, ClientError):
            partitions[at] = PartitionLook(offset, offset or 0, offset or 0, leader_id)
        else:
            partitions[at] = PartitionLook(offset, start.offset, end.offset, leader_id)
    awaited = {each.partition: (each.holder, each.taker) for each in group.awaited}
    members = [each.member_id for each in group.members]
    return Look(now_ms, group.state, readers, members, partitions, awaited, group.missing_topics)
