"""EndTxn (key 26): commits or aborts a transaction.

v1 the client waits out throttling; v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE; v5 the epoch rises with
each transaction, and the answer carries it.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, boolean, field, int16, int32, int64, string


class EndTxnRequest(Request, api_key=26, versions="0-5", flexible="3+"):
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    committed: boolean


class EndTxnResponse(Response, api_key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = field("5+", default=-1)
    producer_epoch: int16 = field("5+", default=-1)
