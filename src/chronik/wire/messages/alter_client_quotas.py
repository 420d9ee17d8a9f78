"""AlterClientQuotas (key 49): sets and removes quotas of users, client ids and addresses.

v1 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, float64, int16, int32, string


class AlterClientQuotasRequest(Request, api_key=49, versions="0-1", flexible="1+"):
    entries: list[AlterClientQuotasRequestEntry]
    validate_only: boolean


class AlterClientQuotasRequestEntry(Struct):
    entity: list[EntityData]
    ops: list[OpData]


class EntityData(Struct):
    entity_type: string
    entity_name: string | None  # null: the default


class OpData(Struct):
    key: string
    value: float64
    remove: boolean


class AlterClientQuotasResponse(Response, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int32
    entries: list[AlterClientQuotasResponseEntry]


class AlterClientQuotasResponseEntry(Struct):
    error_code: int16
    error_message: string | None
    entity: list[EntityData]
