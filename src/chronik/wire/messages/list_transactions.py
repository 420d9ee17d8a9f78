"""ListTransactions (key 66): the transactions this broker coordinates.

v1 duration_filter; v2 transactional_id_pattern. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string


class ListTransactionsRequest(Request, api_key=66, versions="0-2", flexible="0+"):
    state_filters: list[string]
    producer_id_filters: list[int64]
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: string | None = field("2+", default=None)


class ListTransactionsResponse(Response, api_key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]


class TransactionState(Struct):
    transactional_id: string
    producer_id: int64
    transaction_state: string
