"""DescribeCluster (key 60): the cluster's id, its controller and its brokers.

Versions: v1 endpoint_type (2, the controllers, is refused on a broker listener); v2 fenced brokers on request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS, DESCRIBE, NOTHING
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

ENDPOINT_BROKERS, ENDPOINT_CONTROLLERS = 1, 2


@api(DescribeClusterRequest, DescribeClusterResponse, needs=NOTHING)
@reads_metadata
def describe_cluster(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    services = context.services
    if request.endpoint_type != ENDPOINT_BROKERS:
        known = request.endpoint_type == ENDPOINT_CONTROLLERS
        return DescribeClusterResponse(
            throttle_time_ms=0,
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this listener describes brokers: ask with endpoint type 1",
            cluster_id="",
            brokers=[],
        )
    brokers = []
    for broker in services.store.image.brokers.values():
        endpoint = broker.endpoint(context.session.listener)
        if endpoint is None or (broker.fenced and not request.include_fenced_brokers):
            continue
        brokers.append(
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
        )
    response = DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        endpoint_type=request.endpoint_type,
        cluster_id=services.cluster_id,
        controller_id=services.controller_id,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        is_seen = context.allows_on_cluster(DESCRIBE, Notes.NONE)
        permitted = context.permitted(CLUSTER_OPERATIONS, CLUSTER, CLUSTER_NAME)
        response.cluster_authorized_operations = permitted if is_seen else 0
    return response
