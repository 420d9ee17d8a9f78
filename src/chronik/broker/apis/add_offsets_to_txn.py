"""AddOffsetsToTxn (key 25): adds the partition that holds a group's offsets to a transaction.

Producers with transaction.version below 2 send it before TxnOffsetCommit. Newer producers do not use it.
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.apis.add_partitions_to_txn import VERSION_FENCED, before_fencing
from chronik.broker.one_at_a_time import one_at_a_time
from chronik.broker.permissions import GROUP, READ, TRANSACTIONAL_ID, WRITE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, needs=(WRITE.on(TRANSACTIONAL_ID), READ.on(GROUP)))
def add_offsets_to_txn(
    request: AddOffsetsToTxnRequest, context: Context
) -> Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    return one_at_a_time(context, _add(request, context))


async def _add(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    services = context.services
    if not context.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return _answer(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not context.allows(READ, GROUP, request.group_id):
        return _answer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partition = OFFSETS_TOPIC, services.groups.partition_for(request.group_id)
    errors = await services.transactions.add_partitions(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [partition],
        transaction_version=0,
        connection=context.session.number,
    )
    error = errors[partition]
    if context.version < VERSION_FENCED:
        error = before_fencing(error)
    return _answer(error)


def _answer(error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(throttle_time_ms=0, error_code=error)
