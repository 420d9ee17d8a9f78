"""ElectLeaders (key 43): elects the preferred replica, or any live replica if there is no leader.

Null topics mean all; then the response only lists partitions that needed an election.
Versions: v0 preferred only; v1 election_type, top-level error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.made_later import MadeLater
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.elect_leaders import PREFERRED, ElectionTopic, ElectLeaders
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
    TopicPartitions,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


PARTITIONS_PER_COMMAND = 2_000


@api(ElectLeadersRequest, ElectLeadersResponse, needs=(ALTER.on(CLUSTER),))
async def elect_leaders(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    kind = request.election_type if context.version >= 1 else PREFERRED
    response = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=[])
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        asked = [ElectionTopic(name=each.topic, partitions=each.partitions) for each in request.topic_partitions or []]
        response.error_code = error
        response.replica_election_results = [_refused(topic, error, error.message) for topic in asked]
        return response
    for topics in _some_at_a_time(request.topic_partitions):
        try:
            reply = await context.services.store.submit(ElectLeaders(election_type=kind, topics=topics))
        except MetadataError as fault:
            error, message = refused_by(fault)
            response.error_code = error
            response.replica_election_results += [_refused(topic, error, message) for topic in topics or []]
            continue
        for topic in reply.topics:
            rows = [(each.index, int(each.error_code), each.error_message) for each in topic.partitions]
            results = ReplicaElectionResult(topic=topic.name, partition_result=MadeLater(_result, rows).as_list)
            response.replica_election_results.append(results)
        await context.services.turns.piece(sum(len(topic.partitions) for topic in topics or []))
    return response


def _some_at_a_time(asked: list[TopicPartitions] | None) -> list[list[ElectionTopic] | None]:
    """The commands for the controller: one, unless deciding it would take long."""
    if asked is None:
        return [None]
    if sum(len(topic.partitions) for topic in asked) <= PARTITIONS_PER_COMMAND:
        return [[ElectionTopic(name=topic.topic, partitions=topic.partitions) for topic in asked]]
    return [
        [ElectionTopic(name=topic.topic, partitions=topic.partitions[start : start + PARTITIONS_PER_COMMAND])]
        for topic in asked
        for start in range(0, len(topic.partitions), PARTITIONS_PER_COMMAND)
    ]


def _refused(topic: ElectionTopic, error: ErrorCode, message: str) -> ReplicaElectionResult:
    rows = [(index, int(error), message) for index in topic.partitions]
    return ReplicaElectionResult(topic=topic.name, partition_result=MadeLater(_result, rows).as_list)


def _result(index: int, error_code: int, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=error_code, error_message=message)
