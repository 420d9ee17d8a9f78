"""AddPartitionsToTxn (key 24): adds partitions to a transaction.

v1 the client waits out throttling; v2 PRODUCER_FENCED; v3 flexible; v4 many transactions, verify_only, error_code of
the whole; v5 TRANSACTION_ABORTABLE.

Up to v3 the producer sends it, from v4 on only brokers do: hence two sets of fields.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, int64, string


class AddPartitionsToTxnRequest(Request, api_key=24, versions="0-5", flexible="3+"):
    transactions: list[AddPartitionsToTxnTransaction] = field("4+")
    v3_and_below_transactional_id: string = field("0-3")
    v3_and_below_producer_id: int64 = field("0-3")
    v3_and_below_producer_epoch: int16 = field("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    verify_only: boolean = False
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnTopic(Struct):
    name: string
    partitions: list[int32]


class AddPartitionsToTxnResponse(Response, api_key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int32
    error_code: int16 = field("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3")


class AddPartitionsToTxnResult(Struct):
    transactional_id: string
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnTopicResult(Struct):
    name: string
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32
    partition_error_code: int16
