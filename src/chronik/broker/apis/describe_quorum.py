"""DescribeQuorum (key 55): voters and observers of the metadata quorum, and their progress.

Any node responds, after it has asked the leader. A member's offset is the index of the next entry that it lacks. Each
node is listed with its quorum listener and, unlike in Kafka, with its admin listener. Without a leader, NOT_CONTROLLER
is returned at once, with the voters and the client and admin listeners that this node knows, so that a tool can ask
every node.
Versions: v1 times of the last fetch and of the last moment without lag; v2 directory ids, nodes, error messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, DESCRIBE
from chronik.broker.settings.listeners import ADMIN_ENDPOINT
from chronik.broker.topics import refused_by
from chronik.metadata.commands.describe_quorum import DescribeQuorum, DescribeQuorumReply, QuorumMember
from chronik.metadata.errors import MetadataError, NotController
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import METADATA_TOPIC
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

METADATA_PARTITION = 0
QUORUM_LISTENER = "CONTROLLER"  # the default name of the quorum listener
UNKNOWN = -1


@api(DescribeQuorumRequest, DescribeQuorumResponse, needs=(DESCRIBE.on(CLUSTER),))
async def describe_quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    if not context.allows_on_cluster(DESCRIBE):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return DescribeQuorumResponse(error_code=error, error_message=error.message, topics=[], nodes=[])
    asked = [(topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [METADATA_PARTITION])]:
        return _unknown(request)
    store = context.services.store
    if store.leader_id is None and not store.is_controller:
        return _leaderless(NotController(None), context)
    try:
        quorum = await store.submit(DescribeQuorum())
    except MetadataError as fault:
        return _leaderless(fault, context)
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


def _leaderless(fault: MetadataError, context: Context) -> DescribeQuorumResponse:
    """The last known members, in addition to the error; their progress is unknown."""
    error, message = refused_by(fault)
    raft = context.services.store.raft
    voters, learners = (
        [
            ReplicaState(
                replica_id=node_id,
                replica_directory_id=ZERO_UUID,
                log_end_offset=UNKNOWN,
                last_fetch_timestamp=UNKNOWN,
                last_caught_up_timestamp=UNKNOWN,
            )
            for node_id in ids
        ]
        for ids in (raft.members.voters, raft.members.learners)
    )
    known = DescribeQuorumResponsePartition(
        partition_index=METADATA_PARTITION,
        error_code=error,
        error_message=message,
        leader_id=UNKNOWN,
        leader_epoch=raft.term,
        high_watermark=UNKNOWN,
        current_voters=voters,
        observers=learners,
    )
    brokers = context.services.store.image.brokers
    nodes = []
    for node_id in (*raft.members.voters, *raft.members.learners):
        endpoints = brokers[node_id].endpoints if node_id in brokers else ()
        listeners = [Listener(name=each.name, host=each.host, port=each.port) for each in endpoints]
        nodes.append(Node(node_id=node_id, listeners=listeners))
    return DescribeQuorumResponse(
        error_code=error,
        error_message=message,
        topics=[DescribeQuorumResponseTopic(topic_name=METADATA_TOPIC, partitions=[known])],
        nodes=nodes,
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
    now_ms = context.services.runtime.clock.wall_ms()
    broker = context.services.store.image.brokers.get(member.node_id)
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
    brokers, own = context.services.store.image.brokers, context.services.settings.controller_listeners
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
