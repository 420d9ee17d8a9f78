"""DescribeClientQuotas (key 48): quotas of users, client ids and addresses that match a filter.

v1 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, float64, int8, int16, int32, string


class DescribeClientQuotasRequest(Request, api_key=48, versions="0-1", flexible="1+"):
    components: list[ComponentData]
    strict: boolean


class ComponentData(Struct):
    entity_type: string
    match_type: int8  # 0 this name, 1 the default, 2 any
    match: string | None


class DescribeClientQuotasResponse(Response, api_key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    entries: list[EntryData] | None


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


class EntityData(Struct):
    entity_type: string
    entity_name: string | None  # null: the default


class ValueData(Struct):
    key: string
    value: float64
