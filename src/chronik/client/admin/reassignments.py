"""Moves replicas to other brokers, shows the progress of moves and cancels them; elects leaders.

A move has started when `move` returns; it has ended when `under_way` no longer lists it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.client.errors import Refused, refuse
from chronik.client.topology import TopicPartition
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from chronik.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from chronik.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

PREFERRED: Final = 0  # election types of ElectLeaders
UNCLEAN: Final = 1


class Move(NamedTuple):
    replicas: tuple[int, ...]  # all of them; those being removed come last
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def move(
    cluster: ClusterClient, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Refused | None]:
    """Starts moves to these replicas, the preferred leader first; None cancels one. Each partition has its own
    result."""
    topics: dict[str, ReassignableTopic] = {}
    for at, replicas in targets.items():
        topic = topics.setdefault(at.topic, ReassignableTopic(name=at.topic, partitions=[]))
        chosen = None if replicas is None else list(replicas)
        topic.partitions.append(ReassignablePartition(partition_index=at.partition, replicas=chosen))
    request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))

    async def attempt() -> dict[TopicPartition, Refused | None]:
        connection = await cluster.to_controller()
        response = await connection.ask(request, AlterPartitionReassignmentsResponse)
        refuse(response.error_code, "cannot move replicas", response.error_message)
        return {
            TopicPartition(topic.name, told.partition_index): _refused(
                told.error_code, f"cannot move {topic.name}-{told.partition_index}", told.error_message
            )
            for topic in response.responses
            for told in topic.partitions
        }

    return await cluster.retrying(attempt)


async def under_way(cluster: ClusterClient) -> dict[TopicPartition, Move]:
    async def attempt() -> dict[TopicPartition, Move]:
        connection = await cluster.to_any()
        request = ListPartitionReassignmentsRequest(topics=None)
        response = await connection.ask(request, ListPartitionReassignmentsResponse)
        refuse(response.error_code, "cannot list the moves under way", response.error_message)
        return {
            TopicPartition(topic.name, told.partition_index): Move(
                tuple(told.replicas), tuple(told.adding_replicas), tuple(told.removing_replicas)
            )
            for topic in response.topics
            for told in topic.partitions
        }

    return await cluster.retrying(attempt)


async def elect(
    cluster: ClusterClient, partitions: Iterable[TopicPartition] | None, *, kind: int = PREFERRED
) -> dict[TopicPartition, Refused | None]:
    """Elects leaders of these partitions, or of all. A partition that needs no election is not an error."""
    topics: dict[str, TopicPartitions] = {}
    for at in partitions or ():
        topics.setdefault(at.topic, TopicPartitions(topic=at.topic, partitions=[])).partitions.append(at.partition)
    wanted = None if partitions is None else list(topics.values())
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wanted)

    async def attempt() -> dict[TopicPartition, Refused | None]:
        connection = await cluster.to_controller()
        response = await connection.ask(request, ElectLeadersResponse, version_min=1)
        refuse(response.error_code, "cannot elect leaders")
        return {
            TopicPartition(result.topic, told.partition_id): _refused(
                0 if told.error_code == ErrorCode.ELECTION_NOT_NEEDED else told.error_code,
                f"cannot elect the leader of {result.topic}-{told.partition_id}",
                told.error_message,
            )
            for result in response.replica_election_results
            for told in result.partition_result
        }

    return await cluster.retrying(attempt)


def _refused(code: int, what: str, message: str | None) -> Refused | None:
    return Refused(ErrorCode.of(code), what, message) if code else None
