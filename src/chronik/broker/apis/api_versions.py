"""ApiVersions (key 18): lists the APIs and versions that the handlers serve.

A request in an unknown version gets v0 with UNSUPPORTED_VERSION and the whole list (KIP-511).
Versions: v1 throttle_time_ms; v3 flexible, client software name and version, features; v4 features with a minimum of 0.
"""

from __future__ import annotations

import re

from chronik.broker.api import api, served_apis
from chronik.broker.context import Context
from chronik.broker.features import SUPPORTED
from chronik.broker.permissions import NOTHING
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

VERSION_FROM_0 = 4  # older clients reject a feature that begins with level 0
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@api(ApiVersionsRequest, ApiVersionsResponse, needs=NOTHING)
def api_versions(request: ApiVersionsRequest | None, context: Context) -> ApiVersionsResponse:
    """`request` is None if its version is unknown."""
    error = ErrorCode.NONE
    if request is None:
        error = ErrorCode.UNSUPPORTED_VERSION
    elif context.version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if _SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version):
            context.session.client_software = (name, version)
        else:
            error = ErrorCode.INVALID_REQUEST
            return ApiVersionsResponse(error_code=error, api_keys=[])
    apis = [
        ApiVersion(api_key=served.key, min_version=served.versions.first, max_version=served.versions.last)
        for served in served_apis().values()
    ]
    image = context.services.store.image
    return ApiVersionsResponse(
        error_code=error,
        api_keys=apis,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            if low > 0 or context.version >= VERSION_FROM_0
        ],
        finalized_features_epoch=image.version,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in image.features.items()
        ],
    )
