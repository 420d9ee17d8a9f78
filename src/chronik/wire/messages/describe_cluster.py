"""DescribeCluster (key 60): the brokers or controllers of the cluster.

v1 endpoint_type; v2 fenced brokers. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, string


class DescribeClusterRequest(Request, api_key=60, versions="0-2", flexible="0+"):
    include_cluster_authorized_operations: boolean
    endpoint_type: int8 = field("1+", default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: boolean = field("2+")


class DescribeClusterResponse(Response, api_key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int32 = -2147483648  # the default: not asked for


class DescribeClusterBroker(Struct):
    broker_id: int32
    host: string
    port: int32
    rack: string | None = None
    is_fenced: boolean = field("2+")
