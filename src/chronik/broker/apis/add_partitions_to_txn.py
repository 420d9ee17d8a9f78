"""AddPartitionsToTxn (key 24): adds partitions to a transaction, or returns whether they are in it.

Up to v3, a producer sends it for one transaction, before it writes to a partition. From v4 on, partition leaders send
it for many transactions: to add partitions for producers that add them by writing (transaction.version 2), or to verify
that an older producer's batch belongs to a transaction (`verify_only`).

Order of checks, per transaction: permission, topics, partitions, then the coordinator's checks. If one partition fails,
the others get OPERATION_NOT_ATTEMPTED.
Versions: v2 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v4 many transactions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.one_at_a_time import one_at_a_time
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE
from chronik.broker.topics import INTERNAL_TOPICS
from chronik.coordinator.transactions.transaction import EPOCH_BUMP_SINCE, TopicPartition
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_FENCED, VERSION_BROKERS = 2, 4
TOGETHER_MAX = 1_000  # the number that a node puts into one request
PIECES_PER_TRANSACTION = 6  # a request from a node has many transactions


@api(
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    needs=(
        WRITE.on(TRANSACTIONAL_ID, "up to v3"),
        WRITE.on(TOPIC, "up to v3"),
        CLUSTER_ACTION.on(CLUSTER, "from v4"),
    ),
)
def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: Context
) -> Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    """A node's request names transactions of many clients, which do not wait for each other."""
    work = _add_all(request, context)
    return work if context.version >= VERSION_BROKERS else one_at_a_time(context, work)


async def _add_all(request: AddPartitionsToTxnRequest, context: Context) -> AddPartitionsToTxnResponse:
    if context.version >= VERSION_BROKERS:
        if not context.allows_on_cluster(CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(
                throttle_time_ms=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results_by_transaction=[]
            )
        results = await _add_each(request.transactions, context)
        return AddPartitionsToTxnResponse(throttle_time_ms=0, error_code=0, results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    result = await _add(transaction, context)
    return AddPartitionsToTxnResponse(throttle_time_ms=0, results_by_topic_v3_and_below=result.topic_results)


async def _add_each(
    transactions: list[AddPartitionsToTxnTransaction], context: Context
) -> list[AddPartitionsToTxnResult]:
    """The results of many transactions. All that wait for the log wait at the same time."""
    results: dict[int, AddPartitionsToTxnResult] = {}
    waiting = []
    for place, transaction in enumerate(transactions):
        if transaction.verify_only:
            results[place] = await _add(transaction, context)
        else:
            waiting.append(place)
    for start in range(0, len(waiting), TOGETHER_MAX):
        places = waiting[start : start + TOGETHER_MAX]
        made = await asyncio.gather(*[_add(transactions[place], context) for place in places])
        results.update(zip(places, made, strict=True))
    return [results[place] for place in range(len(transactions))]


async def _add(transaction: AddPartitionsToTxnTransaction, context: Context) -> AddPartitionsToTxnResult:
    run = context.services.turns.run
    await context.services.turns.piece(PIECES_PER_TRANSACTION)
    errors = await run(_unfit_partitions(transaction, context))
    if any(errors.values()):
        errors = {partition: error or ErrorCode.OPERATION_NOT_ATTEMPTED for partition, error in errors.items()}
        return await run(_result(transaction, errors))
    errors = await context.services.transactions.add_partitions(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        errors.keys(),
        verify_only=transaction.verify_only,
        transaction_version=EPOCH_BUMP_SINCE if context.version >= VERSION_BROKERS else 0,
        connection=context.session.number if context.version < VERSION_BROKERS else 0,
    )
    if context.version < VERSION_FENCED:
        errors = {partition: before_fencing(error) for partition, error in errors.items()}
    return await run(_result(transaction, errors))


def _unfit_partitions(
    transaction: AddPartitionsToTxnTransaction, context: Context
) -> Work[dict[TopicPartition, ErrorCode]]:
    image, is_client = context.services.store.image, context.version < VERSION_BROKERS
    errors: dict[TopicPartition, ErrorCode] = {}
    if is_client and not context.allows(WRITE, TRANSACTIONAL_ID, transaction.transactional_id):
        denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return {(topic.name, index): denied for topic in transaction.topics for index in topic.partitions}
    for topic in transaction.topics:
        known = image.topic_named(topic.name)
        is_protected = is_client and (topic.name in INTERNAL_TOPICS or not context.allows(WRITE, TOPIC, topic.name))
        for number, index in enumerate(topic.partitions):
            error = ErrorCode.NONE
            if is_protected:
                error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif known is None or known.partition(index) is None:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            errors[topic.name, index] = error
            if number % ITEMS_PER_PIECE == 0:
                yield 1
    return errors


def before_fencing(error: ErrorCode) -> ErrorCode:
    """The error code for clients that are older than PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if error is ErrorCode.PRODUCER_FENCED else error


def _result(
    transaction: AddPartitionsToTxnTransaction, errors: dict[TopicPartition, ErrorCode]
) -> Work[AddPartitionsToTxnResult]:
    # As in Kafka, a topic without partitions is in the response to an addition, but not in the response to a
    # verification.
    topics: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    if not transaction.verify_only:
        topics = {topic.name: [] for topic in transaction.topics}
    for number, ((topic, index), error) in enumerate(errors.items()):
        if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
            yield 2
        result = AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
        topics.setdefault(topic, []).append(result)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=name, results_by_partition=results) for name, results in topics.items()
        ],
    )
