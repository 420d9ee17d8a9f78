"""Two changes that CONTRIBUTING describes, done in a copy of the sources: each touches one file, and its test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.repository import ROOT
from tests.house.scratch_copy import ScratchCopy

HANDLER = "src/chronik/broker/apis/describe_cluster.py"
PERMISSION_TEST = """
from chronik.broker.api import served_apis
from chronik.broker.permissions import CLUSTER, CLUSTER_NAME, DESCRIBE, table
from chronik.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.broker.test_denied import Scripted, only, story

REQUEST = DescribeClusterRequest(include_cluster_authorized_operations=False)


@story
async def test_the_cluster_is_described_to_those_who_may_see_it(guarded):
    assert dict(table(served_apis().values()))["DescribeCluster"] == "DESCRIBE CLUSTER"
    denied = await guarded.send(Scripted(), REQUEST, DescribeClusterResponse, 1)
    assert (denied.error_code, denied.brokers) == (31, [])
    told = await guarded.send(only((DESCRIBE, CLUSTER, CLUSTER_NAME)), REQUEST, DescribeClusterResponse, 1)
    assert (told.error_code, len(told.brokers)) == (0, 1)
"""

ASKER = "src/chronik/broker/topics.py"
ASKING = '''

async def end_offset(services: Services, topic: str, partition: int) -> int:
    """The end of a partition, as its leader says it, wherever that is."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
    response = await services.peers.ask_leader(topic, partition, request, ListOffsetsResponse, timeout_ms=5_000)
    return response.topics[0].partitions[0].offset
'''
ASKING_IMPORTS = """from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.notation import ZERO_UUID
"""
ASKING_TEST = """
from chronik.broker.topics import end_offset
from tests.broker.test_peers import play, run


def test_every_node_can_tell_the_end_of_a_partition():
    async def work(node):
        return await end_offset(node.dispatcher._services, "orders", 0)

    play(lambda cluster: check([run(cluster, machine, work) for machine in cluster.machines.values()]))


def check(ends):
    assert ends == [0, 0, 0]
"""


@pytest.mark.slow
def test_asking_for_a_permission_takes_one_file(tmp_path: Path) -> None:
    """The decorator declares it and the handler checks it. The test of all APIs fails if one of the two is missing."""
    copy = ScratchCopy(tmp_path)
    copy.replace(HANDLER, "needs=NOTHING)", "needs=(DESCRIBE.on(CLUSTER),))")
    copy.replace(HANDLER, "CLUSTER_OPERATIONS, DESCRIBE, NOTHING", "CLUSTER_OPERATIONS, DESCRIBE")
    copy.replace(
        HANDLER,
        "    services = context.services\n",
        "    services = context.services\n"
        "    if not context.allows_on_cluster(DESCRIBE):\n"
        "        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED\n"
        '        return DescribeClusterResponse(throttle_time_ms=0, error_code=error, error_message="", cluster_id="",'
        " brokers=[])\n",
    )
    assert copy.changed() == {HANDLER}
    copy.write("test_permission.py", PERMISSION_TEST)
    asks = f"{ROOT / 'tests/broker/test_denied.py'}::test_each_api_asks_for_every_permission_that_it_declares"
    copy.run("test_permission.py", asks)


@pytest.mark.slow
def test_sending_a_request_to_another_node_takes_one_file(tmp_path: Path) -> None:
    """The one that asks. Addresses, versions, connections and the login belong to `services.peers`."""
    copy = ScratchCopy(tmp_path)
    copy.replace(ASKER, "from chronik.wire.notation import ZERO_UUID\n", ASKING_IMPORTS)
    copy.write(ASKER, (tmp_path / ASKER).read_text("utf-8") + ASKING)
    assert copy.changed() == {ASKER}
    copy.write("test_asking.py", ASKING_TEST)
    copy.run("test_asking.py")
