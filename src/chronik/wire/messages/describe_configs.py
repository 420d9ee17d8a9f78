"""DescribeConfigs (key 32): configuration of topics, brokers and groups.

v1 synonyms, config_source instead of is_default; v2 the client waits out throttling; v3 config_type and documentation;
v4 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, string


class DescribeConfigsRequest(Request, api_key=32, versions="0-4", flexible="4+"):
    resources: list[DescribeConfigsResource]
    include_synonyms: boolean = field("1+")
    include_documentation: boolean = field("3+")


class DescribeConfigsResource(Struct):
    resource_type: int8  # 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group
    resource_name: string
    configuration_keys: list[string] | None


class DescribeConfigsResponse(Response, api_key=32, versions="0-4", flexible="4+"):
    throttle_time_ms: int32
    results: list[DescribeConfigsResult]


class DescribeConfigsResult(Struct):
    error_code: int16
    error_message: string | None
    resource_type: int8
    resource_name: string
    configs: list[DescribeConfigsResourceResult]


class DescribeConfigsResourceResult(Struct):
    name: string
    value: string | None
    read_only: boolean
    is_default: boolean = field("0")
    config_source: int8 = field("1+", default=-1)
    is_sensitive: boolean
    synonyms: list[DescribeConfigsSynonym] = field("1+")
    config_type: int8 = field("3+")
    documentation: string | None = field("3+")


class DescribeConfigsSynonym(Struct):
    name: string
    value: string | None
    source: int8
