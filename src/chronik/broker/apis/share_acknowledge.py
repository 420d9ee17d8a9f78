"""ShareAcknowledge (key 79): a member of a share group says what became of the records that it holds.

Answered when the share coordinator has the outcome. Epoch -1 closes the member's session and releases what it still
holds; no request of this API opens one. Served once the cluster's share.version is 1.
Versions: v0 was never stable; v1; v2 locks can be renewed, and the response says how long they last.
"""

from __future__ import annotations

from collections.abc import Coroutine
from itertools import groupby
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ, TOPIC
from chronik.broker.share.acknowledging import Begun, all_of, begin, results
from chronik.broker.share.leaders import Leaders, lock_ms, refused
from chronik.broker.share.sessions import EPOCH_FINAL, EPOCH_INITIAL, Place, ShareSession
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

Answer = ShareAcknowledgeResponse | Coroutine[Any, Any, ShareAcknowledgeResponse]


@api(ShareAcknowledgeRequest, ShareAcknowledgeResponse, "1-2", needs=(READ.on(GROUP), READ.on(TOPIC)))
def share_acknowledge(request: ShareAcknowledgeRequest, context: Context) -> ShareAcknowledgeResponse | Work[Answer]:
    error = refused(request.group_id, request.member_id, context)
    return _work(request, context) if error is None else _refused(error)


def _work(request: ShareAcknowledgeRequest, context: Context) -> Work[Answer]:
    assert request.group_id is not None
    assert request.member_id is not None
    session = yield from _session(request, context)
    if isinstance(session, ErrorCode):
        return _refused(session)
    asked = [
        (Place(topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in request.topics
        for each in topic.partitions
    ]
    begun = yield from begin(asked, context, request.group_id, request.member_id, is_renewing=request.is_renew_ack)
    return _answer(request, context, session, begun)


def _session(request: ShareAcknowledgeRequest, context: Context) -> Work[ShareSession | ErrorCode]:
    sessions = context.services.share_partitions.sessions
    assert request.group_id is not None
    assert request.member_id is not None
    if request.share_session_epoch == EPOCH_INITIAL:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH
    if request.share_session_epoch == EPOCH_FINAL:
        return sessions.get(request.group_id, request.member_id) or ErrorCode.SHARE_SESSION_NOT_FOUND
    return (yield from sessions.go_on(request.group_id, request.member_id, request.share_session_epoch))


async def _answer(
    request: ShareAcknowledgeRequest, context: Context, session: ShareSession, begun: Begun
) -> ShareAcknowledgeResponse:
    told = await results(begun)
    if request.share_session_epoch == EPOCH_FINAL and session.is_open:
        share_partitions = context.services.share_partitions
        share_partitions.sessions.close(session)
        await all_of(share_partitions.left(session))
    leaders = Leaders(context)
    topics = []
    for topic_id, places in groupby(told, lambda place: place.topic_id):
        partitions = [_partition(place, told[place], leaders) for place in places]
        topics.append(ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions))
    return ShareAcknowledgeResponse(
        throttle_time_ms=0,
        error_code=0,
        acquisition_lock_timeout_ms=lock_ms(session.group_id, context),
        responses=topics,
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def _partition(place: Place, error: ErrorCode, leaders: Leaders) -> PartitionData:
    answer = PartitionData(
        partition_index=place.partition,
        error_code=error,
        error_message=error.message if error else None,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
    )
    if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and (leader := leaders.of(place)) is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return answer


def _refused(error: ErrorCode) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(throttle_time_ms=0, error_code=error, responses=[], node_endpoints=[])
