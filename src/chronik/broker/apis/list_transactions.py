"""ListTransactions (key 66): the transactional ids that this node coordinates, filtered.

Unknown state names are returned to the caller. While a partition of the state topic is loading, the result is
COORDINATOR_LOAD_IN_PROGRESS, because a partial list would look complete.
Versions: v1 duration_filter; v2 transactional_id_pattern, which must match the whole id.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, TRANSACTIONAL_ID
from chronik.coordinator.transactions.transaction import OTHER_LABELS, State
from chronik.runtime.client_patterns import InvalidPattern, compile_pattern
from chronik.runtime.pieces import Work, each_light
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.coordinator.transactions.transaction import Transaction

LABELS = frozenset(state.label for state in State)


@api(ListTransactionsRequest, ListTransactionsResponse, needs=(DESCRIBE.on(TRANSACTIONAL_ID),))
def list_transactions(
    request: ListTransactionsRequest, context: Context
) -> ListTransactionsResponse | Work[ListTransactionsResponse]:
    transactions = context.services.transactions.transactions()
    if isinstance(transactions, ErrorCode):
        return _refused(transactions)
    try:
        pattern = compile_pattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except InvalidPattern:
        return _refused(ErrorCode.INVALID_REGULAR_EXPRESSION)
    now_ms = context.services.runtime.clock.wall_ms()
    labels, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)

    def listed(transaction: Transaction) -> TransactionState | None:
        if producer_ids and transaction.producer_id not in producer_ids:
            return None
        if labels and transaction.state.label not in labels:
            return None
        if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
            return None
        if pattern is not None and not pattern(transaction.transactional_id):
            return None
        if not context.allows(DESCRIBE, TRANSACTIONAL_ID, transaction.transactional_id, Notes.NONE):
            return None
        return TransactionState(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            transaction_state=transaction.state.label,
        )

    unknown = [label for label in dict.fromkeys(request.state_filters) if label not in LABELS.union(OTHER_LABELS)]
    return _listed(transactions, listed, unknown)


def _listed(
    transactions: list[Transaction], listed: Callable[[Transaction], TransactionState | None], unknown: list[str]
) -> Work[ListTransactionsResponse]:
    states = yield from each_light(listed, transactions)
    return ListTransactionsResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=[state for state in states if state is not None],
    )


def _refused(error: ErrorCode) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        throttle_time_ms=0, error_code=error, unknown_state_filters=[], transaction_states=[]
    )
