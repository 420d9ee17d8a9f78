"""Records of __transaction_state: one per transactional id.

TransactionLogValue: v1 flexible, with the ids and epochs of the transactions before and after.
"""

from __future__ import annotations

from chronik.wire.notation import InternalRecord, Struct, field, int8, int16, int32, int64, string


class TransactionLogKey(InternalRecord, record_type=0, versions="0"):
    transactional_id: string


class TransactionLogValue(InternalRecord, record_type=0, versions="0-1", flexible="1+"):
    producer_id: int64
    previous_producer_id: int64 = field("1+", default=-1, tag=0)
    next_producer_id: int64 = field("1+", default=-1, tag=1)
    producer_epoch: int16
    next_producer_epoch: int16 = field("1+", default=-1, tag=3)
    transaction_timeout_ms: int32
    transaction_status: int8
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64
    transaction_start_timestamp_ms: int64
    client_transaction_version: int16 = field("1+", tag=2)


class PartitionsSchema(Struct):
    topic: string
    partition_ids: list[int32]
