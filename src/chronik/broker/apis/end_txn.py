"""EndTxn (key 26): commits or aborts a transaction. The response is sent when the decision is committed; markers
follow.

Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v5 transaction.version 2: each transaction has a new
epoch, and the response contains the id and epoch of the next one.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.apis.add_partitions_to_txn import VERSION_FENCED, before_fencing
from chronik.broker.one_at_a_time import one_at_a_time
from chronik.broker.permissions import TRANSACTIONAL_ID, WRITE
from chronik.coordinator.transactions.transaction import EPOCH_BUMP_SINCE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_EPOCH_BUMP = 5


@api(EndTxnRequest, EndTxnResponse, needs=(WRITE.on(TRANSACTIONAL_ID),))
def end_txn(request: EndTxnRequest, context: Context) -> Coroutine[Any, Any, EndTxnResponse]:
    return one_at_a_time(context, _end(request, context))


async def _end(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    if not context.allows(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(throttle_time_ms=0, error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    ended = await context.services.transactions.end(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commits=request.committed,
        transaction_version=EPOCH_BUMP_SINCE if context.version >= VERSION_EPOCH_BUMP else 0,
        connection=context.session.number,
    )
    error = before_fencing(ended.error) if context.version < VERSION_FENCED else ended.error
    return EndTxnResponse(
        throttle_time_ms=0, error_code=error, producer_id=ended.producer_id, producer_epoch=ended.producer_epoch
    )
