"""ElectLeaders (key 43): elects now: the first replica where another leads, or any live one where nobody does.

Null topics mean all, and then only partitions in which something was to be done are answered.
Versions: v0 preferred only; v1 election_type, error of the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.topics import refused_by
from chronik.metadata.commands import PREFERRED, ElectionTopic, ElectLeaders
from chronik.metadata.errors import MetadataError
from chronik.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(ElectLeadersRequest, ElectLeadersResponse)
async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    asked = request.topic_partitions
    topics = None if asked is None else [ElectionTopic(name=t.topic, partitions=t.partitions) for t in asked]
    kind = request.election_type if context.version >= 1 else PREFERRED
    try:
        reply = await context.node.store.submit(ElectLeaders(election_type=kind, topics=topics))
    except MetadataError as fault:
        error, message = refused_by(fault)
        refused = [
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error, error_message=message)
                    for index in topic.partitions
                ],
            )
            for topic in asked or []
        ]
        return ElectLeadersResponse(throttle_time_ms=0, error_code=error, replica_election_results=refused)
    results = [
        ReplicaElectionResult(
            topic=topic.name,
            partition_result=[
                PartitionResult(partition_id=each.index, error_code=each.error_code, error_message=each.error_message)
                for each in topic.partitions
            ],
        )
        for topic in reply.topics
    ]
    return ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=results)
