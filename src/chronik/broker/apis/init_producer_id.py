"""InitProducerId (key 22): an id for an idempotent producer, from a block that the controller gave this node.

Versions: v3 a producer may ask to go on with its own id and epoch; without a transactional id a new one is as good.
Transactional ids need the transaction coordinator, which is not here yet: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which
every client takes for fatal (see find_coordinator).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, IDEMPOTENT_WRITE, TOPIC, TRANSACTIONAL_ID, WRITE
from chronik.broker.topics import refused_by
from chronik.metadata.errors import MetadataError, NotController
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(
    InitProducerIdRequest,
    InitProducerIdResponse,
    versions="0-5",
    needs=(IDEMPOTENT_WRITE.on(CLUSTER), WRITE.on(TOPIC, "any, instead"), WRITE.on(TRANSACTIONAL_ID, "with one")),
)
async def init_producer_id(request: InitProducerIdRequest, context: Context) -> InitProducerIdResponse:
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    try:
        producer_id = await context.services.producer_ids.next()
    except NotController:
        # Clients do not know the controller's errors here: this one makes them come again.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    except MetadataError as fault:
        return _refused(refused_by(fault)[0])
    return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=producer_id, producer_epoch=0)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(throttle_time_ms=0, error_code=error, producer_id=-1, producer_epoch=-1)
