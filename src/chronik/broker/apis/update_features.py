"""UpdateFeatures (key 57): raises or lowers the levels of the cluster's features; all of them or none.

Versions: v0 allow_downgrade; v1 upgrade_type and validate_only; v2 no result for each feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.update_features import SAFE_DOWNGRADE, UPGRADE, FeatureUpdate, UpdateFeatures
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_UPGRADE_TYPE = 1


@api(UpdateFeaturesRequest, UpdateFeaturesResponse, needs=(ALTER.on(CLUSTER),))
async def update_features(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    if not context.allows_on_cluster(ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(throttle_time_ms=0, error_code=error, error_message=error.message, results=[])
    updates = [_update(each, context.version) for each in request.feature_updates]
    try:
        await context.services.store.submit(UpdateFeatures(updates=updates, validate_only=request.validate_only))
    except MetadataError as fault:
        error, message = refused_by(fault)
        return UpdateFeaturesResponse(throttle_time_ms=0, error_code=error, error_message=message, results=[])
    results = [UpdatableFeatureResult(feature=each.name, error_code=0, error_message=None) for each in updates]
    return UpdateFeaturesResponse(throttle_time_ms=0, error_code=0, error_message=None, results=results)


def _update(asked: FeatureUpdateKey, version: int) -> FeatureUpdate:
    kind = asked.upgrade_type
    if version < VERSION_UPGRADE_TYPE:
        kind = SAFE_DOWNGRADE if asked.allow_downgrade else UPGRADE
    return FeatureUpdate(name=asked.feature, level=asked.max_version_level, upgrade_type=kind)
