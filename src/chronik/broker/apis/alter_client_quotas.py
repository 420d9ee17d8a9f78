"""AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses. Each entity succeeds or fails
alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER_CONFIGS, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.alter_client_quotas import AlterClientQuotas, EntityChange, EntityPart, QuotaChange
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(AlterClientQuotasRequest, AlterClientQuotasResponse, needs=(ALTER_CONFIGS.on(CLUSTER),))
async def alter_client_quotas(request: AlterClientQuotasRequest, context: Context) -> AlterClientQuotasResponse:
    if not context.allows_on_cluster(ALTER_CONFIGS):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _response([(each, error, error.message) for each in request.entries])
    command = AlterClientQuotas(
        entities=[_change(each) for each in request.entries], validate_only=request.validate_only
    )
    try:
        reply = await context.services.store.submit(command)
    except MetadataError as fault:
        return _response([(each, *refused_by(fault)) for each in request.entries])
    return _response(
        [
            (each, done.error_code, done.error_message)
            for each, done in zip(request.entries, reply.entities, strict=True)
        ]
    )


def _change(entry: AlterClientQuotasRequestEntry) -> EntityChange:
    return EntityChange(
        entity=[EntityPart(type=each.entity_type, name=each.entity_name) for each in entry.entity],
        ops=[QuotaChange(key=each.key, value=each.value, remove=each.remove) for each in entry.ops],
    )


def _response(results: list[tuple[AlterClientQuotasRequestEntry, int, str | None]]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        throttle_time_ms=0,
        entries=[
            AlterClientQuotasResponseEntry(error_code=code, error_message=message, entity=entry.entity)
            for entry, code, message in results
        ],
    )
