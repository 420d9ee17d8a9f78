"""Creates, grows and deletes topics. Each function sends one request for many topics and returns a result for each.

A refused topic is in the result as its Refused; exceptions concern the call as a whole. Every call is retried while the
controller moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from chronik.client.errors import Refused, refuse
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from chronik.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

TIMEOUT_MS: Final = 30_000
DEFAULT: Final = -1  # the broker's num.partitions or default.replication.factor


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    partition_count: int = DEFAULT
    replication_factor: int = DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)  # partition -> nodes, instead of the counts


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    name: str
    topic_id: bytes
    partition_count: int
    replication_factor: int


async def create(
    cluster: ClusterClient, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | Refused]:
    request = CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics], timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )

    async def attempt() -> dict[str, CreatedTopic | Refused]:
        connection = await cluster.to_controller()
        response = await connection.ask(request, CreateTopicsResponse, version_min=5, timeout_ms=2 * TIMEOUT_MS)
        results: dict[str, CreatedTopic | Refused] = {}
        for told in response.topics:
            _retry_elsewhere(told.error_code)
            if told.error_code:
                what = f"cannot create topic {told.name!r}"
                results[told.name] = Refused(ErrorCode.of(told.error_code), what, told.error_message)
            else:
                results[told.name] = CreatedTopic(
                    told.name, told.topic_id, told.num_partitions, told.replication_factor
                )
            cluster.forget(told.name)
        return results

    return await cluster.retrying(attempt)


async def delete(cluster: ClusterClient, names: Sequence[str]) -> dict[str, Refused | None]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names],
        topic_names=list(names),
        timeout_ms=TIMEOUT_MS,
    )

    async def attempt() -> dict[str, Refused | None]:
        connection = await cluster.to_controller()
        response = await connection.ask(request, DeleteTopicsResponse, version_min=1, timeout_ms=2 * TIMEOUT_MS)
        results: dict[str, Refused | None] = {}
        for told in response.responses:
            _retry_elsewhere(told.error_code)
            name = told.name or ""
            what = f"cannot delete topic {name!r}"
            code = told.error_code
            results[name] = Refused(ErrorCode.of(code), what, told.error_message) if code else None
            cluster.forget(name)
        return results

    return await cluster.retrying(attempt)


async def grow(cluster: ClusterClient, name: str, partition_count: int, *, validate_only: bool = False) -> None:
    """Increases a topic to `partition_count` partitions in total. Keys then map to other partitions than before."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=partition_count, assignments=None)],
        timeout_ms=TIMEOUT_MS,
        validate_only=validate_only,
    )

    async def attempt() -> None:
        connection = await cluster.to_controller()
        response = await connection.ask(request, CreatePartitionsResponse, timeout_ms=2 * TIMEOUT_MS)
        [told] = response.results
        _retry_elsewhere(told.error_code)
        refuse(told.error_code, f"cannot give topic {name!r} {partition_count} partitions", told.error_message)
        cluster.forget(name)

    await cluster.retrying(attempt)


def _creatable(topic: NewTopic) -> CreatableTopic:
    is_assigned = bool(topic.assignment)
    return CreatableTopic(
        name=topic.name,
        num_partitions=DEFAULT if is_assigned else topic.partition_count,
        replication_factor=DEFAULT if is_assigned else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(nodes))
            for partition, nodes in topic.assignment.items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )


def _retry_elsewhere(code: int) -> None:
    """A broker that is not the controller refuses the whole call, whichever topic the error is attached to."""
    if code == ErrorCode.NOT_CONTROLLER:
        refuse(code, "the controller has moved")
