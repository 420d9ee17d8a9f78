"""AlterConfigs (key 33): replaces the whole configuration of resources; IncrementalAlterConfigs changes single keys.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int8, int16, int32, string


class AlterConfigsRequest(Request, api_key=33, versions="0-2", flexible="2+"):
    resources: list[AlterConfigsResource]
    validate_only: boolean


class AlterConfigsResource(Struct):
    resource_type: int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: string
    configs: list[AlterableConfig]


class AlterableConfig(Struct):
    name: string
    value: string | None


class AlterConfigsResponse(Response, api_key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    responses: list[AlterConfigsResourceResponse]


class AlterConfigsResourceResponse(Struct):
    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
