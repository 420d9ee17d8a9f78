"""ApiVersions (key 18): the keys and versions that the broker serves, and the cluster's features.

v1 throttle_time_ms; v2 the client waits out throttling; v3 flexible, client software, features; v4 a feature's
min_version may be 0.

The response header is v0 in every version, because the client cannot know yet what the broker supports. A request with
an unsupported version is answered in v0 with UNSUPPORTED_VERSION and the supported range of this key.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, int64, string


class ApiVersionsRequest(Request, api_key=18, versions="0-4", flexible="3+"):
    client_software_name: string = field("3+")
    client_software_version: string = field("3+")


class ApiVersionsResponse(Response, api_key=18, versions="0-4", flexible="3+"):
    error_code: int16
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field("1+")
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0)
    finalized_features_epoch: int64 = field("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2)
    zk_migration_ready: boolean = field("3+", tag=3)


class ApiVersion(Struct):
    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeatureKey(Struct):
    name: string
    min_version: int16
    max_version: int16


class FinalizedFeatureKey(Struct):
    name: string
    max_version_level: int16
    min_version_level: int16
