"""Disks that are lost, exchanged or mixed up: a node comes back empty and is filled, or says why it does not start."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory
from chronik.testing.processes import NodeProcess
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from tests.cluster.asking import Asked
from tests.cluster.load import Load, check_survived, eventually, rounds, wait_for_full_isr

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "disks"
NODES = (1, 2, 3)
WITH_ADMIN = {"chronik.admin.listener": "127.0.0.1:0"}
QUORUM_VERSION = 2
EXIT_CANNOT_START = 2
# A node that joins empty is killed when it has come so far: counted, in the cluster, with data of the topic.
MOMENTS = ("incarnation", "meta.properties", f"{TOPIC}-*/*.log")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, settings=WITH_ADMIN, in_process=False) as cluster:
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        yield cluster


def wipe(cluster: Cluster, node_id: int) -> Path:
    folder = node_directory(cluster.data, node_id)
    shutil.rmtree(folder)
    return folder


def test_a_wiped_node_joins_empty_and_is_filled(cluster: Cluster, uncomplaining_nodes: None) -> None:
    """The two others hold everything; nothing that the node forgot may count as its word."""
    load = Load(cluster, TOPIC)
    for number in range(rounds(1)):
        load.wait_for_more()
        node_id = NODES[number % len(NODES)]
        cluster.stop(node_id)
        wipe(cluster, node_id)
        cluster.start_again(node_id)
        wait_for_full_isr(cluster, TOPIC)
    load.wait_for_more()
    load.stop()
    check_survived(cluster, load)
    check_same_metadata(cluster)


def test_a_node_killed_while_it_joins_empty_joins_in_the_end(cluster: Cluster, uncomplaining_nodes: None) -> None:
    """Half of a state is the dangerous one: it looks like a node that remembers."""
    load = Load(cluster, TOPIC)
    load.wait_for_more()
    for number in range(rounds(1)):
        node_id = NODES[number % len(NODES)]
        cluster.kill(node_id)
        folder = wipe(cluster, node_id)
        for moment in MOMENTS:
            joining = NodeProcess.start(cluster.settings[node_id - 1])
            wait_for_file(folder, moment)
            joining.kill()
        load.wait_for_more()
        cluster.start_again(node_id)
        wait_for_full_isr(cluster, TOPIC)
    load.stop()
    check_survived(cluster, load)
    check_same_metadata(cluster)


def wait_for_file(folder: Path, pattern: str) -> None:
    eventually(lambda: any(folder.glob(pattern)), f"{pattern} in {folder}")


def check_same_metadata(cluster: Cluster) -> None:
    """At the same version of the metadata all nodes have the same state, by its hash."""

    def look() -> bool:
        pages = [status(port) for port in admin_ports(cluster)]
        assert all(page["ready"] for page in pages)
        seen = {(page["version"], page["state_hash"]) for page in pages}
        assert len({version for version, _ in seen}) == len(seen), f"one version, several states: {seen}"
        return len(seen) == 1

    eventually(look, "all nodes at the same version of the metadata")


def admin_ports(cluster: Cluster) -> list[int]:
    whole = [DescribeQuorumRequestPartition(partition_index=0)]
    topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=whole)
    node = Asked(cluster, 1)
    answer = node.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, QUORUM_VERSION)
    node.close()
    ports = [at.port for member in answer.nodes for at in member.listeners if at.name == "CHRONIK-ADMIN"]
    assert len(ports) == len(NODES)
    return ports


def status(port: int) -> dict[str, object]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        page: dict[str, object] = json.load(answer)
        return page


def test_a_disk_of_another_node_or_cluster_is_refused(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    """Its records would be deleted as strays, or served as if they were this cluster's."""
    cluster.stop(3)
    cluster.stop(2)
    own, other_nodes = (node_directory(cluster.data, node_id) for node_id in (3, 2))
    said = refusal({**cluster.settings[2], "log.dirs": str(other_nodes)}, capfd)
    assert f"{other_nodes} belongs to node 2, this is node 3: correct node.id, or point log.dirs at" in said
    cluster.start_again(2)
    with Cluster(nodes=3, in_process=False) as other:
        node = Asked(other, 1)
        other_id = node.metadata().cluster_id
        node.close()
        for node_id in NODES:
            other.stop(node_id)
        said = refusal({**cluster.settings[2], "log.dirs": str(node_directory(other.data, 3))}, capfd)
    assert f"belongs to cluster '{other_id}', but node" in said
    assert own.exists()
    cluster.start_again(3)
    wait_for_full_isr(cluster, TOPIC)


def refusal(settings: dict[str, str], capfd: pytest.CaptureFixture[str]) -> str:
    """What a node says that does not start with these settings."""
    capfd.readouterr()
    refused = NodeProcess.start(settings)
    assert refused.wait_ready() is None
    refused.wait()
    assert refused.exit_code() == EXIT_CANNOT_START
    return capfd.readouterr().err


def test_a_directory_in_use_is_refused_also_without_its_lock_file(
    cluster: Cluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two processes would write into each other's files. Nothing on the disk tells them apart later."""
    for key in ("log.dirs", "metadata.log.dir"):
        folder = node_directory(cluster.data, 1)
        (folder / ".lock").unlink()
        said = refusal({**cluster.settings[0], "log.dirs": str(tmp_path), key: str(folder)}, capfd)
        assert f"{folder}/.lock is locked: another broker runs on this directory" in said
    node = Asked(cluster, 1)
    assert node.create("goes-on") == {"goes-on": 0}
    node.close()
