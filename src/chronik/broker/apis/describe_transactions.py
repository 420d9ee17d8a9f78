"""DescribeTransactions (key 65): the state of transactional ids that this node coordinates, with their partitions.

For a decided transaction, the partitions are those that still wait for their marker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, TOPIC, TRANSACTIONAL_ID
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.coordinator.transactions.shard import Entry


@api(
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    needs=(DESCRIBE.on(TRANSACTIONAL_ID), DESCRIBE.on(TOPIC, "to see its partitions")),
)
def describe_transactions(request: DescribeTransactionsRequest, context: Context) -> Work[DescribeTransactionsResponse]:
    states = []
    for transactional_id in request.transactional_ids:
        states.append(_describe(transactional_id, context))
        yield 1 + len(states[-1].topics) // ITEMS_PER_PIECE
    return DescribeTransactionsResponse(throttle_time_ms=0, transaction_states=states)


def _describe(transactional_id: str, context: Context) -> TransactionState:
    entry: Entry | ErrorCode = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if context.allows(DESCRIBE, TRANSACTIONAL_ID, transactional_id):
        entry = context.services.transactions.describe(transactional_id)
    if isinstance(entry, ErrorCode) or entry.current is None:
        error = entry if isinstance(entry, ErrorCode) else ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return TransactionState(
            error_code=error,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    current = entry.current
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(entry.awaited if current.state.is_prepared else current.partitions):
        topics.setdefault(topic, []).append(index)
    hidden = context.denied(DESCRIBE, TOPIC, topics, Notes.NONE)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=current.state.label,
        transaction_timeout_ms=current.timeout_ms,
        transaction_start_time_ms=current.start_ms,
        producer_id=current.producer_id,
        producer_epoch=current.producer_epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in topics.items() if name not in hidden],
    )
