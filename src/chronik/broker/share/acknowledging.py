"""Acknowledgements in a request, of ShareFetch or ShareAcknowledge: checked, begun, and answered when they are written.

Order of checks for each partition: the topic id, the batches themselves, permission, the partition, its leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from chronik.broker.permissions import READ, TOPIC
from chronik.broker.share.acquisition import RENEW, Acknowledgement
from chronik.broker.share.sessions import Place
from chronik.broker.topics import find_replica, find_topic
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.context import Context

RENEWS_SINCE: Final = 2  # the version of both APIs
TYPES_PER_PIECE: Final = 4096
REFUSED_BEFORE: Final = (  # it is looked at what is in flight
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


class Batch(Protocol):
    """Of either request."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


Results = dict[Place, ErrorCode]
Begun = dict[Place, ErrorCode | asyncio.Future[ErrorCode]]


def begin(
    asked: Iterable[tuple[Place, Sequence[Batch]]],
    context: Context,
    group_id: str,
    member_id: str,
    *,
    is_renewing: bool,
) -> Work[Begun]:
    """Where nothing could be begun, partitions without batches are left out of the answer, as Kafka does it."""
    begun: Begun = {}
    empty: list[Place] = []
    has_begun = False
    for place, batches in asked:
        refusal = yield from _refusal(place, batches, context, is_renewing=is_renewing)
        outcome = refusal or _begin_one(place, batches, context, group_id, member_id)
        begun[place] = outcome
        if not batches and outcome is ErrorCode.NONE:
            empty.append(place)
        else:
            has_begun |= outcome not in REFUSED_BEFORE
        yield 1
    if not has_begun:
        for place in empty:
            del begun[place]
    return begun


def _begin_one(
    place: Place, batches: Sequence[Batch], context: Context, group_id: str, member_id: str
) -> ErrorCode | asyncio.Future[ErrorCode]:
    services = context.services
    topic = find_topic(services, "", place.topic_id, by_id=True)
    if isinstance(topic, ErrorCode):
        return topic
    if not context.allows(READ, TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    replica = find_replica(services, topic, place.partition)
    if replica is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not batches:
        return replica if isinstance(replica, ErrorCode) and batches else ErrorCode.NONE
    if isinstance(replica, ErrorCode) or not replica.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition = services.share_partitions.get(group_id, place)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # nothing was acquired from this leader
    return partition.acknowledge(
        member_id, [Acknowledgement(each.first_offset, each.last_offset, each.acknowledge_types) for each in batches]
    )


def _refusal(place: Place, batches: Sequence[Batch], context: Context, *, is_renewing: bool) -> Work[ErrorCode | None]:
    if place.topic_id not in context.services.store.image.topics:
        return ErrorCode.UNKNOWN_TOPIC_ID
    type_max = RENEW if context.version >= RENEWS_SINCE else RENEW - 1
    previous_last = -1
    for batch in batches:
        types, count = batch.acknowledge_types, batch.last_offset - batch.first_offset + 1
        if count < 1 or batch.first_offset < previous_last or not types or len(types) not in (1, count):
            return ErrorCode.INVALID_REQUEST
        for at in range(0, len(types), TYPES_PER_PIECE):
            some = types[at : at + TYPES_PER_PIECE]
            if min(some) < 0 or max(some) > type_max or (RENEW in some and not is_renewing):
                return ErrorCode.INVALID_REQUEST
            yield 1
        previous_last = batch.last_offset
    return None


async def results(begun: Begun) -> Results:
    """Once all are written, or could not be."""
    waiting = [each for each in begun.values() if isinstance(each, asyncio.Future)]
    if waiting:
        await asyncio.wait(waiting)
    return {place: each.result() if isinstance(each, asyncio.Future) else each for place, each in begun.items()}


async def all_of(releases: Iterable[Awaitable[ErrorCode]]) -> None:
    """Waits until what a closed session held is written as released."""
    await asyncio.gather(*releases)
