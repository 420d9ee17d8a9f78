"""ListPartitionReassignments (key 46): lists reassignments in progress, for some topics or all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, DESCRIBE
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from chronik.broker.context import Context
    from chronik.metadata.image import Image, Topic


@api(ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, needs=(DESCRIBE.on(CLUSTER),))
@reads_metadata
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> Work[ListPartitionReassignmentsResponse]:
    if not context.allows_on_cluster(DESCRIBE):
        return _denied(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    moving = []
    for topic, wanted in _asked(request, context.services.store.image):
        yield 1 + len(topic.partitions) // (4 * ITEMS_PER_PIECE)
        partitions = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            for index, state in enumerate(topic.partitions)
            if state.is_reassigning and index in wanted
        ]
        if partitions:
            moving.append(OngoingTopicReassignment(name=topic.name, partitions=partitions))
    return ListPartitionReassignmentsResponse(throttle_time_ms=0, error_code=0, error_message=None, topics=moving)


def _denied(request: ListPartitionReassignmentsRequest, error: ErrorCode) -> ListPartitionReassignmentsResponse:
    topics = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[
                OngoingPartitionReassignment(
                    partition_index=index, replicas=[], adding_replicas=[], removing_replicas=[]
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    return ListPartitionReassignmentsResponse(
        throttle_time_ms=0, error_code=error, error_message=error.message, topics=topics
    )


def _asked(request: ListPartitionReassignmentsRequest, image: Image) -> Iterable[tuple[Topic, Container[int]]]:
    if request.topics is None:
        return ((topic, range(len(topic.partitions))) for topic in image.all_topics())
    found = ((image.topic_named(each.name), frozenset(each.partition_indexes)) for each in request.topics)
    return ((topic, indexes) for topic, indexes in found if topic is not None)
