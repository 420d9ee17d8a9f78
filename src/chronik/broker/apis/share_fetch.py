"""ShareFetch (key 78): a member of a share group acquires records, and says what became of earlier ones.

Epoch 0 opens the member's session on this node, -1 closes it and releases what the member still holds. A partition
whose state is still being loaded is not an error: the fetch waits. A fetch that renews locks fetches nothing. Responses
name the partitions that have news; an opening one names all that could have had records. Served once the cluster's
share.version is 1.
Versions: v0 was never stable; v1; v2 the acquire mode, and locks can be renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final

from chronik.broker import limits
from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ, TOPIC
from chronik.broker.share.acknowledging import Begun, Results, all_of, begin, results
from chronik.broker.share.fetching import Fetched, ShareFetching
from chronik.broker.share.leaders import Leaders, lock_ms, refused
from chronik.broker.share.sessions import EPOCH_FINAL, EPOCH_INITIAL, Place, ShareSession
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

MOVED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
Answer = ShareFetchResponse | Coroutine[Any, Any, ShareFetchResponse]


@api(ShareFetchRequest, ShareFetchResponse, "1-2", needs=(READ.on(GROUP), READ.on(TOPIC)))
def share_fetch(request: ShareFetchRequest, context: Context) -> ShareFetchResponse | Work[Answer]:
    error = refused(request.group_id, request.member_id, context)
    if error is not None:
        return _refused(error)
    if request.is_renew_ack and _is_also_fetching(request):
        return _refused(ErrorCode.INVALID_REQUEST)
    return _work(request, context)


def _is_also_fetching(request: ShareFetchRequest) -> bool:
    """Locks must not run out while records are waited for."""
    return bool(request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms)


def _work(request: ShareFetchRequest, context: Context) -> Work[Answer]:
    assert request.group_id is not None
    assert request.member_id is not None
    asked = [
        (Place(topic.topic_id, each.partition_index), each.acknowledgement_batches)
        for topic in request.topics
        for each in topic.partitions
    ]
    has_acknowledgements = any(batches for _, batches in asked)
    wanted = (place for place, _ in asked)
    session = yield from _session(request, context, wanted, has_acknowledgements=has_acknowledgements)
    if isinstance(session, ErrorCode):
        if session is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _refused_later(request, session)
        return _refused(session)
    begun: Begun = {}
    if has_acknowledgements:
        begun = yield from begin(asked, context, request.group_id, request.member_id, is_renewing=request.is_renew_ack)
    fetching = ShareFetching(request, context, session)
    if request.share_session_epoch != EPOCH_FINAL and not request.is_renew_ack:
        yield from fetching.open()
    return _answer(request, context, session, begun, fetching)


def _session(
    request: ShareFetchRequest, context: Context, wanted: Iterable[Place], *, has_acknowledgements: bool
) -> Work[ShareSession | ErrorCode]:
    sessions = context.services.share_partitions.sessions
    group_id, member_id, epoch = request.group_id, request.member_id, request.share_session_epoch
    assert group_id is not None
    assert member_id is not None
    if epoch == EPOCH_FINAL:
        return sessions.get(group_id, member_id) or ErrorCode.SHARE_SESSION_NOT_FOUND
    if epoch == EPOCH_INITIAL:
        if has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        return (yield from sessions.begin(group_id, member_id, context.connection, wanted))
    forgotten = [Place(topic.topic_id, index) for topic in request.forgotten_topics_data for index in topic.partitions]
    return (yield from sessions.go_on(group_id, member_id, epoch, wanted, forgotten))


async def _refused_later(request: ShareFetchRequest, error: ErrorCode) -> ShareFetchResponse:
    """The client would ask again at once."""
    await asyncio.sleep(min(max(request.max_wait_ms, 0), limits.FETCH_WAIT_MS_MAX) / 1000)
    return _refused(error)


async def _answer(
    request: ShareFetchRequest, context: Context, session: ShareSession, begun: Begun, fetching: ShareFetching
) -> ShareFetchResponse:
    await fetching.run()
    acknowledged = await results(begun)
    if request.share_session_epoch == EPOCH_FINAL and session.is_open:
        share_partitions = context.services.share_partitions
        share_partitions.sessions.close(session)
        await all_of(share_partitions.left(session))
    return await context.services.turns.run(_response(request, context, session, acknowledged, fetching.all))


def _response(
    request: ShareFetchRequest, context: Context, session: ShareSession, acknowledged: Results, all_: list[Fetched]
) -> Work[ShareFetchResponse]:
    leaders = Leaders(context)
    told: dict[Place, PartitionData] = {}
    for fetched in all_:
        has_records = bool(fetched.taken.acquired)
        must_tell = session.must_tell(fetched.place, is_error=bool(fetched.error), has_records=has_records)
        is_known = fetched.was_read or fetched.error
        if is_known and (must_tell or request.share_session_epoch == EPOCH_INITIAL):
            told[fetched.place] = _partition(fetched, leaders)
        yield 1
    for place, error in acknowledged.items():
        answer = told.get(place)
        if answer is None:
            answer = told[place] = _partition(Fetched(place), leaders)
        answer.acknowledge_error_code = error
        answer.acknowledge_error_message = error.message if error else None
        yield 1
    topics: dict[bytes, ShareFetchableTopicResponse] = {}
    for place, answer in told.items():
        topic = topics.setdefault(place.topic_id, ShareFetchableTopicResponse(topic_id=place.topic_id, partitions=[]))
        topic.partitions.append(answer)
    return ShareFetchResponse(
        throttle_time_ms=0,
        error_code=0,
        acquisition_lock_timeout_ms=lock_ms(session.group_id, context),
        responses=list(topics.values()),
        node_endpoints=leaders.endpoints(NodeEndpoint),
    )


def _partition(fetched: Fetched, leaders: Leaders) -> PartitionData:
    answer = PartitionData(
        partition_index=fetched.place.partition,
        error_code=fetched.error,
        acknowledge_error_code=0,
        current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
        records=fetched.taken.records or b"",
        acquired_records=[
            AcquiredRecords(
                first_offset=each.first_offset, last_offset=each.last_offset, delivery_count=each.delivery_count
            )
            for each in fetched.taken.acquired
        ],
    )
    if fetched.error in MOVED and (leader := leaders.of(fetched.place)) is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return answer


def _refused(error: ErrorCode) -> ShareFetchResponse:
    return ShareFetchResponse(throttle_time_ms=0, error_code=error, responses=[], node_endpoints=[])
