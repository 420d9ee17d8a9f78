"""The cluster as a whole: its brokers, its controller, and the contents of their disks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chronik.client.errors import refuse
from chronik.client.topology import TopicPartition
from chronik.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from chronik.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class LogDirectory:
    node_id: int
    path: str
    total_bytes: int  # -1 if the broker is too old to report it; so is the next field
    usable_bytes: int
    sizes_bytes: dict[TopicPartition, int]


async def describe(cluster: ClusterClient) -> ClusterDescription:
    async def attempt() -> ClusterDescription:
        connection = await cluster.to_any()
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
        response = await connection.ask(request, DescribeClusterResponse)
        refuse(response.error_code, "cannot describe the cluster", response.error_message)
        nodes = tuple(
            Node(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in sorted(response.brokers, key=lambda each: each.broker_id)
        )
        return ClusterDescription(response.cluster_id, response.controller_id, nodes)

    return await cluster.retrying(attempt)


async def log_directories(cluster: ClusterClient) -> list[LogDirectory]:
    """The directories of every broker that the cluster lists as alive."""

    async def of(node_id: int) -> list[LogDirectory]:
        connection = await cluster.to_node(node_id)
        response = await connection.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version_min=1)
        refuse(response.error_code, f"cannot look into the log directories of broker {node_id}")
        found = []
        for each in response.results:
            refuse(each.error_code, f"cannot look into {each.log_dir} of broker {node_id}")
            sizes = {
                TopicPartition(topic.name, told.partition_index): told.partition_size
                for topic in each.topics
                for told in topic.partitions
                if not told.is_future_key
            }
            found.append(LogDirectory(node_id, each.log_dir, each.total_bytes, each.usable_bytes, sizes))
        return found

    async def attempt() -> list[LogDirectory]:
        await cluster.refresh([])
        lists = await asyncio.gather(*(of(node_id) for node_id in cluster.topology.brokers))
        return [directory for directories in lists for directory in directories]

    return await cluster.retrying(attempt)
