"""The five requests about the state of share partitions: how each is asked here, sent to another node, and read.

Every one of them names a group, and topics with partitions; the answer has a result for each partition. Never waits.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from chronik.coordinator.share.coordinator import ShareCoordinator
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages import (
    delete_share_group_state as deleting,
)
from chronik.wire.messages import (
    initialize_share_group_state as initializing,
)
from chronik.wire.messages import (
    read_share_group_state as reading,
)
from chronik.wire.messages import (
    read_share_group_state_summary as summing,
)
from chronik.wire.messages import (
    write_share_group_state as writing,
)
from chronik.wire.notation import Request, Response

Told = ErrorCode | ShareState | ShareSummary


class Question(NamedTuple):
    kind: Kind
    key: SharePartitionKey
    values: tuple[Any, ...]  # besides the key, in the order of the coordinator's method


class Kind(NamedTuple):
    name: str
    ask_here: Callable[..., Coroutine[Any, Any, Any]]  # ShareCoordinator's method
    request: Callable[[str, list[tuple[bytes, list[Question]]]], Request]
    response: type[Response]
    read: Callable[[Any], Told]  # a partition's result without an error

    def told(self, result: Any) -> Told:
        return ErrorCode.of(result.error_code) if result.error_code else self.read(result)


def as_sent(kind: Kind, group_id: str, questions: Sequence[Question]) -> Request:
    topics: dict[bytes, list[Question]] = {}
    for question in questions:
        topics.setdefault(question.key.topic_id, []).append(question)
    return kind.request(group_id, list(topics.items()))


def answers_in(kind: Kind, response: Any) -> dict[tuple[bytes, int], Told]:
    return {
        (topic.topic_id, result.partition): kind.told(result)
        for topic in response.results
        for result in topic.partitions
    }


def _done(result: Any) -> ErrorCode:
    return ErrorCode.NONE


def batches_from(batches: Sequence[Any]) -> list[StateBatch]:
    return [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    ]


INITIALIZE: Final = Kind(
    "InitializeShareGroupState",
    ShareCoordinator.initialize,
    lambda group_id, topics: initializing.InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=[
            initializing.InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    initializing.PartitionData(
                        partition=each.key.partition, state_epoch=each.values[0], start_offset=each.values[1]
                    )
                    for each in asked
                ],
            )
            for topic_id, asked in topics
        ],
    ),
    initializing.InitializeShareGroupStateResponse,
    _done,
)
READ: Final = Kind(
    "ReadShareGroupState",
    ShareCoordinator.read,
    lambda group_id, topics: reading.ReadShareGroupStateRequest(
        group_id=group_id,
        topics=[
            reading.ReadStateData(
                topic_id=topic_id,
                partitions=[
                    reading.PartitionData(partition=each.key.partition, leader_epoch=each.values[0]) for each in asked
                ],
            )
            for topic_id, asked in topics
        ],
    ),
    reading.ReadShareGroupStateResponse,
    lambda result: ShareState(result.state_epoch, result.start_offset, batches_from(result.state_batches)),
)
WRITE: Final = Kind(
    "WriteShareGroupState",
    ShareCoordinator.write,
    lambda group_id, topics: writing.WriteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            writing.WriteStateData(topic_id=topic_id, partitions=[_written(each) for each in asked])
            for topic_id, asked in topics
        ],
    ),
    writing.WriteShareGroupStateResponse,
    _done,
)
SUMMARY: Final = Kind(
    "ReadShareGroupStateSummary",
    lambda coordinator, key, leader_epoch: coordinator.summary(key),
    lambda group_id, topics: summing.ReadShareGroupStateSummaryRequest(
        group_id=group_id,
        topics=[
            summing.ReadStateSummaryData(
                topic_id=topic_id,
                partitions=[
                    summing.PartitionData(partition=each.key.partition, leader_epoch=each.values[0]) for each in asked
                ],
            )
            for topic_id, asked in topics
        ],
    ),
    summing.ReadShareGroupStateSummaryResponse,
    lambda result: ShareSummary(
        result.state_epoch, result.leader_epoch, result.start_offset, result.delivery_complete_count
    ),
)
DELETE: Final = Kind(
    "DeleteShareGroupState",
    ShareCoordinator.delete,
    lambda group_id, topics: deleting.DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            deleting.DeleteStateData(
                topic_id=topic_id, partitions=[deleting.PartitionData(partition=each.key.partition) for each in asked]
            )
            for topic_id, asked in topics
        ],
    ),
    deleting.DeleteShareGroupStateResponse,
    _done,
)


def _written(question: Question) -> writing.PartitionData:
    leader_epoch, state_epoch, start_offset, complete_count, batches = question.values
    return writing.PartitionData(
        partition=question.key.partition,
        state_epoch=state_epoch,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=complete_count,
        state_batches=[
            writing.StateBatch(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_state=each.delivery_state,
                delivery_count=each.delivery_count,
            )
            for each in batches
        ],
    )
