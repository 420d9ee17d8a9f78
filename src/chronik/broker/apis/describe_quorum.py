"""DescribeQuorum (key 55): who votes and who listens in the metadata quorum, and how far each has come.

Any node answers; it asks the leader. A member's offset is the index of the next entry it lacks. Nodes are told with
the address by which the quorum reaches them and, beyond Kafka's answer, that of their admin listeners.
Versions: v1 times of the last word and of the last moment without lag; v2 directory ids, nodes, error messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.settings.listeners import ADMIN_ENDPOINT
from chronik.broker.topics import refused_by
from chronik.metadata.commands import DescribeQuorum, DescribeQuorumReply, QuorumMember
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    Listener,
    Node,
    ReplicaState,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context

METADATA_TOPIC, METADATA_PARTITION = "__cluster_metadata", 0
QUORUM_LISTENER = "CONTROLLER"  # what it is called where the configuration does not say
UNKNOWN = -1


@api(DescribeQuorumRequest, DescribeQuorumResponse)
async def describe_quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return _unknown(request)
    try:
        quorum = await context.node.store.submit(DescribeQuorum())
    except MetadataError as fault:
        error, message = refused_by(fault)
        return DescribeQuorumResponse(error_code=error, error_message=message, topics=[], nodes=[])
    members = [(member, _state(member, context)) for member in quorum.members]
    described = DescribeQuorumResponsePartition(
        partition_index=METADATA_PARTITION,
        error_code=0,
        error_message="",
        leader_id=quorum.leader_id,
        leader_epoch=quorum.term,
        high_watermark=quorum.commit_index + 1,
        current_voters=[state for member, state in members if member.is_voter],
        observers=[state for member, state in members if not member.is_voter],
    )
    return DescribeQuorumResponse(
        error_code=0,
        error_message="",
        topics=[DescribeQuorumResponseTopic(topic_name=METADATA_TOPIC, partitions=[described])],
        nodes=_nodes(quorum, context),
    )


def _unknown(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    topics = [
        DescribeQuorumResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribeQuorumResponsePartition(
                    partition_index=each.partition_index,
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    error_message=f"the quorum keeps {METADATA_TOPIC}-{METADATA_PARTITION} and nothing else",
                    leader_id=0,
                    leader_epoch=0,
                    high_watermark=0,
                    current_voters=[],
                    observers=[],
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DescribeQuorumResponse(error_code=0, error_message="", topics=topics, nodes=[])


def _state(member: QuorumMember, context: Context) -> ReplicaState:
    now_ms = context.node.runtime.clock.wall_ms()
    broker = context.node.store.image.brokers.get(member.node_id)
    directory_ids = broker.directory_ids if broker is not None else ()
    is_silent = member.silent_ms < 0
    return ReplicaState(
        replica_id=member.node_id,
        replica_directory_id=directory_ids[0] if directory_ids else ZERO_UUID,
        log_end_offset=member.match_index + 1,
        last_fetch_timestamp=UNKNOWN if is_silent else now_ms - member.silent_ms,
        last_caught_up_timestamp=UNKNOWN if is_silent else now_ms - member.lag_ms,
    )


def _nodes(quorum: DescribeQuorumReply, context: Context) -> list[Node]:
    brokers, own = context.node.store.image.brokers, context.node.settings.controller_listeners
    name = own[0].name if own else QUORUM_LISTENER
    nodes = []
    for member in quorum.members:
        listeners = [Listener(name=name, host=member.host, port=member.port)] if member.port else []
        broker = brokers.get(member.node_id)
        admin = broker.endpoint(ADMIN_ENDPOINT) if broker is not None else None
        if admin is not None:
            listeners.append(Listener(name=admin.name, host=admin.host, port=admin.port))
        nodes.append(Node(node_id=member.node_id, listeners=listeners))
    return nodes
