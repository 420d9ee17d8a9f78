"""Kafka's tools for operators against three nodes of ours: the quorum, elections, moves of replicas, brokers gone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.drivers.kafka_tools import KafkaTools

pytestmark = pytest.mark.java


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    tools = KafkaTools("4.3.1")
    yield tools
    tools.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3) as cluster:
        yield cluster


def test_the_quorum_is_shown(tools: KafkaTools, cluster: Cluster) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    status = tools.run("MetadataQuorumCommand", *where, "describe", "--status")
    assert re.search(r"LeaderId: +[123]\n", status)
    assert re.search(r"MaxFollowerLag: +\d\n", status)
    voters = next(line for line in status.splitlines() if line.startswith("CurrentVoters:"))
    assert re.findall(r'"id": ([123])', voters) == ["1", "2", "3"]
    replication = tools.run("MetadataQuorumCommand", *where, "describe", "--replication")
    roles = sorted(line.split()[-1] for line in replication.splitlines() if re.match(r"[123]\s", line))
    assert roles == ["Follower", "Follower", "Leader"]


def test_replicas_are_moved_and_leaders_elected(tools: KafkaTools, cluster: Cluster, tmp_path: Path) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    name = "moved"
    tools.run("TopicCommand", *where, "--create", "--topic", name, "--replica-assignment", "1:2")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": name, "partition": 0, "replicas": [3, 1]}]}))
    moving = (*where, "--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment" in tools.run("ReassignPartitionsCommand", *moving, "--execute")
    while "still in progress" in (said := tools.run("ReassignPartitionsCommand", *moving, "--verify")):
        pass
    assert f"Reassignment of partition {name}-0 is completed." in said
    assert "No partition reassignments found." in tools.run("ReassignPartitionsCommand", *where, "--list")
    elected = tools.run(
        "LeaderElectionCommand", *where, "--election-type", "preferred", "--topic", name, "--partition", "0"
    )
    assert f"{name}-0" in elected
    described = tools.run("TopicCommand", *where, "--describe", "--topic", name)
    assert re.search(r"Leader: 3\s+Replicas: 3,1\s+Isr: [13],[13]", described)


def test_a_broker_that_is_not_there_cannot_be_unregistered(tools: KafkaTools, cluster: Cluster) -> None:
    refused = tools.refused("ClusterTool", "unregister", "--bootstrap-server", cluster.bootstrap, "--id", "9")
    assert "BrokerIdNotRegisteredException: broker 9 is not registered" in refused
