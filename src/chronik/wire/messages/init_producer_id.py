"""InitProducerId (key 22): assigns a producer its id and epoch; with a transactional id, fences the previous producer.

v1 the client waits out throttling; v2 flexible; v3 a producer may request to keep its id; v4 PRODUCER_FENCED;
v5 TRANSACTION_ABORTABLE; v6 two-phase commit, which Kafka calls unstable.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, boolean, field, int16, int32, int64, string


class InitProducerIdRequest(Request, api_key=22, versions="0-6", flexible="2+"):
    transactional_id: string | None
    transaction_timeout_ms: int32
    producer_id: int64 = field("3+", default=-1)
    producer_epoch: int16 = field("3+", default=-1)
    enable_2pc: boolean = field("6+")
    keep_prepared_txn: boolean = field("6+")


class InitProducerIdResponse(Response, api_key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int32
    error_code: int16
    producer_id: int64 = -1
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = field("6+", default=-1)
    ongoing_txn_producer_epoch: int16 = field("6+", default=-1)
