"""TxnOffsetCommit (key 28): commits offsets of a group as part of a transaction; they take effect when it commits.

Order of checks: existence of each topic and partition; group id; leader of the group's partition; producer epoch; the
transaction's coordinator; whether the request is late (producer_connections.py); then the group coordinator's checks.
The transaction's coordinator is asked before the first commit of a transaction, because it must know the partition of
__consumer_offsets to end the transaction there.
Versions: v2 COORDINATOR_LOAD_IN_PROGRESS; v3 members and generations; v4 TRANSACTION_ABORTABLE; v5 adds the partition
of the group to the transaction; older clients send AddOffsetsToTxn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from chronik.broker.api import api
from chronik.broker.apis.offset_commit import Refused, in_order, known_part
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import GROUP, READ, TOPIC, TRANSACTIONAL_ID, WRITE
from chronik.broker.topics import find_replica, find_topic
from chronik.broker.transaction_errors import OFFSETS_ADDS_SINCE, told_to_offset_committer
from chronik.coordinator.errors import told_to_clients
from chronik.coordinator.groups.offsets import commit_refused
from chronik.coordinator.open_transactions import Producer, Transaction
from chronik.runtime.pieces import Work, each_light
from chronik.wire.batches import NO_SEQUENCE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context

LOADING_SINCE: Final = 2


@api(
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    needs=(WRITE.on(TRANSACTIONAL_ID), READ.on(GROUP), READ.on(TOPIC)),
)
def txn_offset_commit(
    request: TxnOffsetCommitRequest, context: Context
) -> Coroutine[Any, Any, TxnOffsetCommitResponse]:
    """Later requests of this connection wait until the commit is in the log, because the later of two commits must
    win."""
    context.connection.hold_back()  # now, not when the coroutine starts
    return _commit(request, context)


async def _commit(request: TxnOffsetCommitRequest, context: Context) -> TxnOffsetCommitResponse:
    run = context.services.turns.run
    refused: Refused = {}
    try:
        asked, commit = await run(_as_commit(request, context, refused))
        if denial := _denial(request, context):
            refused.clear()
            commit.topics = asked
            answer: OffsetCommitResponse | asyncio.Future[OffsetCommitResponse] = commit_refused(commit, denial)
        else:
            answer = await _write(request, commit, context) if commit.topics else OffsetCommitResponse(topics=[])
    finally:
        context.connection.go_on()
    if isinstance(answer, asyncio.Future):
        answer = await answer
    return await run(_in_old_shape(asked, refused, answer, context.version))


def _denial(request: TxnOffsetCommitRequest, context: Context) -> ErrorCode:
    if not context.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.NONE if context.allows(READ, GROUP, request.group_id) else ErrorCode.GROUP_AUTHORIZATION_FAILED


async def _write(
    request: TxnOffsetCommitRequest, commit: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse | asyncio.Future[OffsetCommitResponse]:
    if not commit.group_id:
        return commit_refused(commit, ErrorCode.INVALID_GROUP_ID)
    transaction = await _admitted(request, context)
    if isinstance(transaction, ErrorCode):
        return commit_refused(commit, transaction)
    return await context.services.turns.run(context.services.groups.committing_offsets(commit, context, transaction))


async def _admitted(request: TxnOffsetCommitRequest, context: Context) -> Transaction | ErrorCode:
    """The transaction, if it includes the group's partition; otherwise the error for the client."""
    services, adds = context.services, context.version >= OFFSETS_ADDS_SINCE
    index = services.groups.partition_for(request.group_id)
    topic = find_topic(services, OFFSETS_TOPIC, ZERO_UUID)
    replica = topic if isinstance(topic, ErrorCode) else find_replica(services, topic, index)
    if isinstance(replica, ErrorCode):
        return told_to_clients(replica)
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        replica.require_leader()
        guard = replica.log.producers.guard_for(*producer, NO_SEQUENCE, is_tv2=adds)
    except REFUSALS as fault:
        return told_to_clients(fault.kafka_error)
    if guard is not None and (adds or services.settings.transaction_partition_verification_enable):
        place = (OFFSETS_TOPIC, index)
        answers = await services.transaction_partitions.ask(
            request.transactional_id, *producer, [place], verify_only=not adds
        )
        if error := answers[place]:
            return told_to_clients(told_to_offset_committer(error, context.version))
    if not adds and not services.producer_connections.admits(producer, context.session.number):
        return ErrorCode.INVALID_TXN_STATE
    return Transaction(producer, guard)


def _as_commit(
    request: TxnOffsetCommitRequest, context: Context, refused: Refused
) -> Work[tuple[list[OffsetCommitRequestTopic], OffsetCommitRequest]]:
    """The request in the form of OffsetCommit: all of its topics, and a commit of the existing ones.

    As in Kafka, topic ids are not stored: the offset applies to the topic that has this name when it is read.
    """
    asked, known = [], []
    for topic in request.topics:
        partitions = yield from each_light(_as_partition, topic.partitions)
        asked.append(OffsetCommitRequestTopic(name=topic.name, partitions=partitions))
        found = yield from known_part(asked[-1], context, refused, by_id=False)
        if found.partitions:
            known.append(found)
    commit = OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=known,
    )
    return asked, commit


def _as_partition(partition: TxnOffsetCommitRequestPartition) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        committed_metadata=partition.committed_metadata,
    )


def _in_old_shape(
    asked: list[OffsetCommitRequestTopic], refused: Refused, answer: OffsetCommitResponse, version: int
) -> Work[TxnOffsetCommitResponse]:
    def partition(result: OffsetCommitResponsePartition) -> TxnOffsetCommitResponsePartition:
        error = result.error_code
        if error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_SINCE:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients of these versions do not expect the other error
        return TxnOffsetCommitResponsePartition(partition_index=result.partition_index, error_code=error)

    topics = []
    for topic in (yield from in_order(asked, refused, answer)).topics:
        partitions = yield from each_light(partition, topic.partitions)
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics)
