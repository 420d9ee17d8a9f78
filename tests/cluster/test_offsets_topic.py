"""KIP-115: the offsets topic has the replicas it was configured with, or does not exist."""

from __future__ import annotations

import pytest

from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.asking import Asked

OFFSETS_TOPIC = "__consumer_offsets"
FACTOR_3 = {"offsets.topic.replication.factor": "3"}


def coordinator_error(node: Asked) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["some-group"])
    return node.ask(request, FindCoordinatorResponse, 4).coordinators[0].error_code


def offsets_topic_error(node: Asked) -> int:
    return node.metadata(OFFSETS_TOPIC).topics[0].error_code


def test_one_node_does_not_make_it_with_fewer_replicas() -> None:
    """A topic of one replica would be lost with its node, long after anybody remembers how it was made."""
    with Cluster(settings=FACTOR_3 | {"auto.create.topics.enable": "false"}) as cluster:
        node = Asked(cluster, 1)
        assert coordinator_error(node) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert offsets_topic_error(node) == ErrorCode.INVALID_REPLICATION_FACTOR
        assert node.create("own", replicas=2)["own"] == ErrorCode.INVALID_REPLICATION_FACTOR
        assert node.create("own", replicas=1)["own"] == 0, "what a user asks for is measured by the cluster alone"
        node.close()


@pytest.mark.slow
def test_it_is_created_whole_when_the_third_node_comes() -> None:
    """Until then clients are told to come again."""
    with Cluster(nodes=3, settings=FACTOR_3, in_process=False, start=(1, 2)) as cluster:
        nodes = [Asked(cluster, 1), Asked(cluster, 2)]
        for node in nodes:
            assert coordinator_error(node) == ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert offsets_topic_error(node) == ErrorCode.INVALID_REPLICATION_FACTOR
        cluster.start_again(3)
        nodes.append(Asked(cluster, 3))
        assert [coordinator_error(node) for node in nodes] == [0, 0, 0]
        shown = [node.placed(OFFSETS_TOPIC) for node in nodes]
        assert shown[0] == shown[1] == shown[2]
        assert all(set(placed.replicas) == {1, 2, 3} for placed in shown[0])
        for node in nodes:
            node.close()
