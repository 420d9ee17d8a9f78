"""DescribeClientQuotas (key 48): the quotas of all entities that match a filter, in the order of their names.

An entity matches if it has each type that the filter names, with that name, with the default, or with any. `strict`
omits entities that have other types as well. A filter without components matches everything or, if it is strict,
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, DESCRIBE_CONFIGS
from chronik.metadata.commands.alter_client_quotas import CLIENT_ID, IP, USER
from chronik.metadata.image import QuotaEntity
from chronik.metadata.snapshot import in_order
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

EXACT, DEFAULT, ANY = range(3)  # of ComponentData.match_type


class _BadFilter(Exception):
    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


@api(DescribeClientQuotasRequest, DescribeClientQuotasResponse, needs=(DESCRIBE_CONFIGS.on(CLUSTER),))
def describe_client_quotas(request: DescribeClientQuotasRequest, context: Context) -> DescribeClientQuotasResponse:
    if not context.allows_on_cluster(DESCRIBE_CONFIGS):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return _refused(error, error.message)
    try:
        named, typed = _filter(request.components)
    except _BadFilter as fault:
        return _refused(fault.error, str(fault))
    quotas = context.services.store.image.quotas
    found = [entity for entity in quotas if _matches(dict(entity), named, typed, strict=request.strict)]
    return DescribeClientQuotasResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message="",  # as in Kafka
        entries=[_entry(entity, quotas[entity]) for entity in sorted(found, key=in_order)],
    )


def _filter(components: list[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    """The types that must have a certain name (None: the default), and the types that must be present."""
    named: dict[str, str | None] = {}
    typed: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _BadFilter(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
        if kind in named or kind in typed:
            raise _BadFilter(
                ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in (USER, CLIENT_ID, IP):
            raise _BadFilter(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if (component.match is None) is (component.match_type == EXACT):
            raise _BadFilter(
                ErrorCode.INVALID_REQUEST, f"match type {component.match_type} of {kind}: give a name for 0 alone"
            )
        if component.match_type not in (EXACT, DEFAULT, ANY):
            raise _BadFilter(ErrorCode.INVALID_REQUEST, f"Unknown match type {component.match_type}")
        if component.match_type == ANY:
            typed.add(kind)
        else:
            named[kind] = component.match
    kinds = named.keys() | typed
    if IP in kinds and len(kinds) > 1:
        raise _BadFilter(ErrorCode.INVALID_REQUEST, "an ip cannot be combined with a user or a client-id")
    return named, typed


def _matches(
    entity: Mapping[str, str | None], named: Mapping[str, str | None], typed: set[str], *, strict: bool
) -> bool:
    if strict and len(entity) != len(named) + len(typed):
        return False
    return typed <= entity.keys() and all(kind in entity and entity[kind] == name for kind, name in named.items())


def _entry(entity: QuotaEntity, limits: Mapping[str, float]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        values=[ValueData(key=key, value=limit) for key, limit in sorted(limits.items())],
    )


def _refused(error: ErrorCode, message: str) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=error, error_message=message, entries=None)
