"""ListConfigResources (key 74): lists the resources that have a configuration.

Versions: v0 lists metric subscriptions only; v1 any types; none means all. Topics and brokers are always listed; groups
and subscriptions if they have configs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, DESCRIBE_CONFIGS
from chronik.metadata.image import Image, ResourceType
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

KINDS = frozenset(ResourceType)


@api(ListConfigResourcesRequest, ListConfigResourcesResponse, needs=(DESCRIBE_CONFIGS.on(CLUSTER),))
@reads_metadata
def list_config_resources(request: ListConfigResourcesRequest, context: Context) -> ListConfigResourcesResponse:
    if not context.allows_on_cluster(DESCRIBE_CONFIGS):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return ListConfigResourcesResponse(throttle_time_ms=0, error_code=error, config_resources=[])
    asked = [ResourceType.CLIENT_METRICS] if context.version == 0 else request.resource_types or sorted(KINDS)
    response = ListConfigResourcesResponse(throttle_time_ms=0, error_code=ErrorCode.NONE, config_resources=[])
    if not KINDS.issuperset(asked):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    response.config_resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in dict.fromkeys(asked)
        for name in _names(context.services.store.image, kind)
    ]
    return response


def _names(image: Image, kind: int) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return [topic.name for topic in image.all_topics()]
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker.broker_id) for broker in image.live_brokers]
        case _:
            return sorted(resource.name for resource in image.configs if resource.type == kind)
