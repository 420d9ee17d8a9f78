"""ListConfigResources (key 74): names of all configured resources.

v0 knows client metrics only; v1 resource types. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, string


class ListConfigResourcesRequest(Request, api_key=74, versions="0-1", flexible="0+"):
    resource_types: list[int8] = field("1+")


class ListConfigResourcesResponse(Response, api_key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    config_resources: list[ConfigResource]


class ConfigResource(Struct):
    resource_name: string
    resource_type: int8 = field("1+", default=16)  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
