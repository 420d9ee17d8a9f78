"""InitProducerId (key 22): the id and epoch of an idempotent or transactional producer.

Without a transactional id, this returns a new id from a block that the controller has allocated to this node. With one,
the transaction coordinator fences the previous producer: the new epoch is higher, and an open transaction is aborted.
Meanwhile the client gets CONCURRENT_TRANSACTIONS and retries. While the cluster has a node of a release without
transactions, the result is UNSUPPORTED_VERSION (`metadata/formats.py`).
Versions: v3 a producer may continue with its id and epoch; v4 PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH; v6
two-phase commit (transaction.two.phase.commit.enable).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.apis.add_partitions_to_txn import before_fencing
from chronik.broker.authorizer import Notes
from chronik.broker.one_at_a_time import one_at_a_time
from chronik.broker.permissions import CLUSTER, IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, TWO_PHASE_COMMIT, WRITE
from chronik.coordinator.transactions.coordinator import Initialized, NoProducerId
from chronik.coordinator.transactions.transitions import Producer
from chronik.metadata.commands.update_features import FeatureUpdate, UpdateFeatures
from chronik.metadata.errors import MetadataError, MetadataRefused
from chronik.metadata.formats import FORMAT_FEATURE, SECURITY_AND_TRANSACTIONS, level_of
from chronik.wire.batches import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_FENCED = 4


@api(
    InitProducerIdRequest,
    InitProducerIdResponse,
    needs=(
        IDEMPOTENT_WRITE.on(CLUSTER),
        WRITE.on(TOPIC, "any, instead"),
        WRITE.on(TRANSACTIONAL_ID, "with one"),
        TWO_PHASE_COMMIT.on(TRANSACTIONAL_ID, "with enable_2pc"),
    ),
)
def init_producer_id(request: InitProducerIdRequest, context: Context) -> Coroutine[Any, Any, InitProducerIdResponse]:
    work = _answer(request, context)
    return work if request.transactional_id is None else one_at_a_time(context, work)


async def _answer(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    made = await _initialize(request, context)
    error = before_fencing(made.error) if context.version < VERSION_FENCED else made.error
    return InitProducerIdResponse(
        throttle_time_ms=0, error_code=error, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )


async def _initialize(request: InitProducerIdRequest, context: Context) -> Initialized:
    if (denial := await _denial(request, context)) is not None:
        return Initialized(denial)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_PRODUCER_EPOCH
    if has_id != has_epoch:
        return Initialized(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        try:
            return Initialized(ErrorCode.NONE, await context.services.producer_ids.next(), 0)
        except NoProducerId as fault:
            return Initialized(fault.kafka_error)
    if level_of(context.services.store.image) < SECURITY_AND_TRANSACTIONS and (error := await _raise_format(context)):
        return Initialized(error)
    return await context.services.transactions.init_producer_id(
        request.transactional_id,
        request.transaction_timeout_ms,
        Producer(request.producer_id, request.producer_epoch) if has_id else None,
        has_two_phase_commit=request.enable_2pc,
        keeps_prepared=request.keep_prepared_txn,
    )


async def _raise_format(context: Context) -> ErrorCode:
    """Raises the format level of an upgraded cluster when its first transactional producer starts."""
    update = FeatureUpdate(name=FORMAT_FEATURE, level=SECURITY_AND_TRANSACTIONS)
    try:
        await context.services.store.submit(UpdateFeatures(updates=[update]))
    except MetadataRefused:
        return ErrorCode.UNSUPPORTED_VERSION
    except MetadataError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


async def _denial(request: InitProducerIdRequest, context: Context) -> ErrorCode | None:
    name = request.transactional_id
    if name is not None:
        is_allowed = context.allows(WRITE, TRANSACTIONAL_ID, name)
        if request.enable_2pc:
            is_allowed = is_allowed and context.allows(TWO_PHASE_COMMIT, TRANSACTIONAL_ID, name)
        return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    is_allowed = context.allows_on_cluster(IDEMPOTENT_WRITE, Notes.ALLOWED) or await context.allows_any(WRITE, TOPIC)
    return None if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
