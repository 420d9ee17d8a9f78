"""IncrementalAlterConfigs (key 44): sets, deletes, appends to or subtracts from single configuration keys.

v1 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int8, int16, int32, string


class IncrementalAlterConfigsRequest(Request, api_key=44, versions="0-1", flexible="1+"):
    resources: list[AlterConfigsResource]
    validate_only: boolean


class AlterConfigsResource(Struct):
    resource_type: int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: string
    configs: list[AlterableConfig]


class AlterableConfig(Struct):
    name: string
    config_operation: int8  # 0 set, 1 delete, 2 append, 3 subtract
    value: string | None


class IncrementalAlterConfigsResponse(Response, api_key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class AlterConfigsResourceResponse(Struct):
    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
