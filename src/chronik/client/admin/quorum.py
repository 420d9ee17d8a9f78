"""The metadata quorum: describes its leader, voters and their progress; adds and removes voters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.addresses import Address
from chronik.client.errors import refuse
from chronik.wire.internal_topics import METADATA_TOPIC
from chronik.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from chronik.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from chronik.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

QUORUM_LISTENER: Final = "CONTROLLER"
ADMIN_LISTENER: Final = "CHRONIK-ADMIN"  # only Chronik nodes have it
ANSWER_MS_MORE: Final = 10_000  # added to the time allowed for the change
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class QuorumNode:
    node_id: int
    is_voter: bool
    end_offset: int  # of its metadata log, as known to the leader
    heard_ms: int  # wall time of its last message; UNKNOWN if none
    caught_up_ms: int  # wall time of the last moment without lag; UNKNOWN if none


@dataclass(frozen=True, slots=True)
class Quorum:
    leader_id: int
    term: int
    high_watermark: int
    members: tuple[QuorumNode, ...]  # ascending
    admin: Mapping[int, Address]  # admin listeners, which serve node status

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(member.node_id for member in self.members if member.is_voter)


async def describe(cluster: ClusterClient) -> Quorum:
    wanted = DescribeQuorumRequestTopic(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequestPartition(partition_index=0)]
    )

    async def attempt() -> Quorum:
        connection = await cluster.to_any()
        response = await connection.ask(DescribeQuorumRequest(topics=[wanted]), DescribeQuorumResponse)
        refuse(response.error_code, "cannot describe the quorum", response.error_message)
        [told] = response.topics[0].partitions
        refuse(told.error_code, "cannot describe the quorum", told.error_message)
        members = [
            QuorumNode(
                each.replica_id, is_voter, each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp
            )
            for is_voter, states in ((True, told.current_voters), (False, told.observers))
            for each in states
        ]
        admin = {
            node.node_id: Address(each.host, each.port)
            for node in response.nodes
            for each in node.listeners
            if each.name == ADMIN_LISTENER
        }
        by_id = tuple(sorted(members, key=lambda member: member.node_id))
        return Quorum(told.leader_id, told.leader_epoch, told.high_watermark, by_id, admin)

    return await cluster.retrying(attempt)


async def add(cluster: ClusterClient, node_id: int, address: Address, *, timeout_ms: int) -> None:
    """Returns when the node votes. It must be running, with its quorum listener at this address."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=ZERO_UUID,
        listeners=[Listener(name=QUORUM_LISTENER, host=address.host, port=address.port)],
    )
    connection = await cluster.to_any()
    response = await connection.ask(request, AddRaftVoterResponse, timeout_ms=timeout_ms + ANSWER_MS_MORE)
    refuse(response.error_code, f"cannot add node {node_id}", response.error_message)


async def remove(cluster: ClusterClient, node_id: int) -> None:
    """Returns when the node no longer votes."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=ZERO_UUID)
    connection = await cluster.to_any()
    response = await connection.ask(request, RemoveRaftVoterResponse)
    refuse(response.error_code, f"cannot remove node {node_id} from the quorum", response.error_message)


async def unregister(cluster: ClusterClient, broker_id: int) -> None:
    """Unregisters a broker that will not come back."""
    connection = await cluster.to_any()
    response = await connection.ask(UnregisterBrokerRequest(broker_id=broker_id), UnregisterBrokerResponse)
    refuse(response.error_code, f"cannot unregister broker {broker_id}", response.error_message)
