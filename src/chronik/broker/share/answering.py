"""Answers requests of other nodes about the state of share partitions: each partition by itself, many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from chronik.broker.permissions import CLUSTER_ACTION
from chronik.coordinator.share.coordinator import ShareCoordinator
from chronik.coordinator.share.persister import SharePartitionKey
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context

A = TypeVar("A")
PARTITIONS_AT_ONCE: Final = 50  # a few milliseconds of the loop, and one commit for all of them


async def answers_to(
    request: Any,
    context: Context,
    ask: Callable[[ShareCoordinator, SharePartitionKey, Any], Coroutine[Any, Any, A | ErrorCode]],
) -> list[tuple[bytes, list[tuple[int, A | ErrorCode]]]]:
    """Topic ids, and for each partition what the coordinator says. A request without a group is about nothing."""
    if not request.group_id:
        return []
    topics = [topic for topic in request.topics if topic.partitions]
    if not context.allows_on_cluster(CLUSTER_ACTION):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return [(topic.topic_id, [(each.partition, denied) for each in topic.partitions]) for topic in topics]
    coordinator = context.services.coordinators.share
    places = [(topic.topic_id, each) for topic in topics for each in topic.partitions]
    answers: list[A | ErrorCode] = []
    for start in range(0, len(places), PARTITIONS_AT_ONCE):
        answers += await asyncio.gather(
            *(
                ask(coordinator, SharePartitionKey(request.group_id, topic_id, each.partition), each)
                for topic_id, each in places[start : start + PARTITIONS_AT_ONCE]
            )
        )
    told = iter(answers)
    return [(topic.topic_id, [(each.partition, next(told)) for each in topic.partitions]) for topic in topics]


def error_of(told: object) -> tuple[ErrorCode, str | None]:
    """The error of a result, and its message."""
    if isinstance(told, ErrorCode) and told is not ErrorCode.NONE:
        return told, told.message
    return ErrorCode.NONE, None
