"""UpdateFeatures (key 57): raises or lowers the levels of cluster features.

v1 validate_only, upgrade_type instead of allow_downgrade; v2 no result per feature. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, string


class UpdateFeaturesRequest(Request, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: boolean = field("1+")


class FeatureUpdateKey(Struct):
    feature: string
    max_version_level: int16
    allow_downgrade: boolean = field("0")
    upgrade_type: int8 = field("1+", default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


class UpdateFeaturesResponse(Response, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    results: list[UpdatableFeatureResult] = field("0-1")


class UpdatableFeatureResult(Struct):
    feature: string
    error_code: int16
    error_message: string | None
