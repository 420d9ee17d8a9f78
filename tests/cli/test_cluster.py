"""Operators' commands on clusters of real nodes: their output, and that moving and removing nodes loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chronik.cli.cluster_status import diverged
from chronik.cli.errors import CommandFailed
from chronik.cli.moving import Standing, carry_out
from chronik.cli.session import Options, run
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.metadata.commands.command import Command
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.testing import Cluster
from chronik.testing.cluster import _InThread
from chronik.testing.ports import free_ports
from tests.cli.conftest import Run

HOST = "127.0.0.1"
SETTINGS = {"chronik.admin.listener": f"{HOST}:0"}


class Joiner:
    """A node with its own directory that only knows the address of the cluster's quorum listener."""

    def __init__(self, node_id: int, directory: Path, bootstrap: list[str]) -> None:
        self.port, self.quorum_port = free_ports(2)
        client = f"PLAINTEXT://{HOST}:{self.port}"
        self.settings = {
            **SETTINGS,
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": f"{client},CONTROLLER://{HOST}:{self.quorum_port}",
            "advertised.listeners": client,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(bootstrap),
            "log.dirs": str(directory / f"node-{node_id}"),
            "offsets.topic.replication.factor": "1",
        }
        self._runner = _InThread()
        self._thread = threading.Thread(target=lambda: self._runner.start(self.settings), daemon=True)

    def start(self) -> None:
        """Does not wait: the node is ready when it has been added."""
        self._thread.start()

    def wait_ready(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def submit(self, command: Command) -> None:
        """By its own store, past everything that a client goes through."""
        loop, node = self._runner._loop, self._runner._node
        assert loop is not None
        assert node is not None
        asyncio.run_coroutine_threadsafe(node.store.submit(command), loop).result(30)

    def stop(self) -> None:
        self._thread.join(30)
        self._runner.stop()


@contextmanager
def joining(*nodes: Joiner) -> Iterator[None]:
    for node in nodes:
        node.start()
    try:
        yield
    finally:
        for node in nodes:
            node.stop()


def replicas(chronik: Run, topic: str) -> list[list[int]]:
    [described] = chronik("topic", "describe", topic, "--format", "json").json
    return [row["replicas"] for row in described["partitions"]]


def settled(chronik: Run) -> Any:
    """The cluster's status once every node has applied everything and holds its lease, which a busy machine delays."""
    while True:
        page = chronik("cluster", "status", "--format", "json").json
        if all(row["reads_by_lease"] and not row["lag_entries"] and not row["lag_ms"] for row in page["nodes"]):
            return page


def test_a_cluster_grows_is_rebalanced_and_loses_a_node_without_losing_a_record(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What every cluster lives through: one more machine, work spread over it, an old one emptied and taken away."""
    chronik = run_command
    with Cluster(nodes=3, settings=SETTINGS, data=tmp_path) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        assert chronik("topic", "create", "orders", "-p", "6").exit_code == 0
        lines = b"".join(b"order %d\n" % number for number in range(3_000))
        assert chronik("produce", "orders", stdin=lines).exit_code == 0

        page = settled(chronik)
        assert [(row["node"], row["state"]) for row in page["nodes"]] == [(1, "alive"), (2, "alive"), (3, "alive")]
        assert sorted(row["role"] for row in page["nodes"]) == ["leader", "voter", "voter"]
        assert len({(row["version"], row["state_hash"]) for row in page["nodes"]}) == 1
        table = chronik("cluster", "status").out
        assert "STATE HASH" in table
        assert "6, 0 under-replicated, 0 without a leader" in table

        assert "Nothing has to move" in chronik("cluster", "rebalance").err
        too_few = chronik("cluster", "decommission", "2")
        assert (too_few.exit_code, "only brokers [1, 3] are left" in too_few.err) == (1, True)

        voters = cluster.settings[0]["controller.quorum.voters"]
        fourth = Joiner(4, tmp_path, [voter.partition("@")[2] for voter in voters.split(",")])
        fourth.settings["chronik.quorum.secret.file"] = cluster.settings[0]["chronik.quorum.secret.file"]
        with joining(fourth):
            added = chronik("cluster", "add", f"4@{HOST}:{fourth.quorum_port}", "--format", "json")
            assert (added.exit_code, added.json) == (0, {"added": 4, "voters": [1, 2, 3, 4]}), added.err
            fourth.wait_ready()
            again = chronik("cluster", "add", f"4@{HOST}:{fourth.quorum_port}")
            assert (again.exit_code, "DUPLICATE_VOTER" in again.err) == (1, True)

            before = replicas(chronik, "orders")
            planned = chronik("cluster", "rebalance", "--dry-run", "--format", "json").json
            assert planned
            assert replicas(chronik, "orders") == before, "a dry run moves nothing"
            done = chronik("cluster", "rebalance")
            assert done.exit_code == 0, done.err
            held = [node for each in replicas(chronik, "orders") for node in each]
            assert {held.count(node) for node in (1, 2, 3, 4)} <= {4, 5}
            [described] = chronik("topic", "describe", "orders", "--format", "json").json
            assert all(row["leader"] == row["replicas"][0] for row in described["partitions"])

            refused = chronik("cluster", "remove", "2")
            assert (refused.exit_code, "still holds" in refused.err) == (1, True)
            emptied = chronik("cluster", "decommission", "2")
            assert emptied.exit_code == 0, emptied.err
            assert not any(2 in each for each in replicas(chronik, "orders"))
            cluster.stop(2)
            assert chronik("cluster", "remove", "2").out == "node 2 is no longer registered as a broker\n"
            page = chronik("cluster", "status", "--format", "json").json
            assert [row["node"] for row in page["nodes"]] == [1, 3, 4]
            assert not page["diverged"]

            consumed = chronik("consume", "orders", "--from", "earliest")
            assert sorted(consumed.lines) == sorted(lines.decode().splitlines())


def test_a_removal_that_broke_off_can_be_finished(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its broker was unregistered, and the node is still an observer of the quorum, which no other command ends."""
    chronik = run_command
    founder = Joiner(1, tmp_path, [])
    del founder.settings["controller.quorum.bootstrap.servers"]
    second = Joiner(2, tmp_path, [f"{HOST}:{founder.quorum_port}"])
    with joining(founder):
        founder.wait_ready()
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", f"{HOST}:{founder.port}")
        with joining(second):
            assert chronik("cluster", "add", f"2@{HOST}:{second.quorum_port}").exit_code == 0
            second.wait_ready()
            assert chronik("cluster", "remove", "2").out == "node 2 no longer votes\n"
        founder.submit(UnregisterBroker(broker_id=2))
        left = chronik("cluster", "remove", "2", "--format", "json").json
        assert left == {"node": 2, "voter_removed": False, "left_quorum": True, "broker_forgotten": False}
        done = chronik("cluster", "remove", "2")
        assert (done.exit_code, "node 2 does not exist; known nodes: 1" in done.err) == (1, True), done.err


def test_a_node_alone_becomes_a_cluster_that_survives_it(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same data, from one node to three. Then the first node can be removed, and its decisions remain."""
    chronik = run_command
    founder = Joiner(1, tmp_path, [])
    del founder.settings["controller.quorum.bootstrap.servers"]
    others = [Joiner(node_id, tmp_path, [f"{HOST}:{founder.quorum_port}"]) for node_id in (2, 3)]
    founder.start()
    founder.wait_ready()
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", f"{HOST}:{founder.port}")
    assert chronik("topic", "create", "kept", "-r", "1").exit_code == 0
    nobody = chronik("cluster", "add", f"9@{HOST}:1", "--timeout", "0")
    assert (nobody.exit_code, "REQUEST_TIMED_OUT" in nobody.err) == (1, True)
    last = chronik("cluster", "remove", "1", "--force")
    assert (last.exit_code, "the only voter" in last.err) == (1, True)
    assert chronik("topic", "create", "still-writable", "-r", "1").exit_code == 0
    with joining(*others):
        for node_id, node in enumerate(others, 2):
            added = chronik("cluster", "add", f"{node_id}@{HOST}:{node.quorum_port}")
            assert added.exit_code == 0, added.err
            node.wait_ready()
        founder.stop()
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", ",".join(f"{HOST}:{node.port}" for node in others))
        assert chronik("topic", "create", "after", "-r", "2").exit_code == 0
        assert [row["name"] for row in chronik("topic", "list", "--format", "json").json] == [
            "after",
            "kept",
            "still-writable",
        ]
        page = chronik("cluster", "status", "--format", "json").json
        states = {row["node"]: row["state"] for row in page["nodes"]}
        assert states == {1: "fenced", 2: "alive", 3: "alive"}
        assert page["leader"] in (2, 3)
        assert page["offline_partitions"] == 2, "of the topics that only node 1 holds"


def test_a_move_that_cannot_go_on_says_why_and_can_be_called_off(
    run_command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain that hangs without a word is what operators complain of most."""
    chronik = run_command
    with Cluster(nodes=3, settings=SETTINGS) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        assert chronik("topic", "create", "orders", "-r", "1").exit_code == 0
        ((holder,),) = replicas(chronik, "orders")
        gone = next(node for node in (1, 2, 3) if node != holder)
        cluster.stop(gone)
        said: list[Standing] = []

        async def work(client: ClusterClient) -> None:
            await client.refresh(None)
            with pytest.raises(CommandFailed, match=f"waiting for broker {gone}, the target of orders-0"):
                await carry_out(client, {TopicPartition("orders", 0): [gone]}, said.append, stalled_s=0.3)

        assert run(Options(cluster.bootstrap), work) == 0
        assert said[-1].blocker == f"broker {gone}, the target of orders-0: it is not alive"
        assert sorted(replicas(chronik, "orders")[0]) == sorted([holder, gone])
        assert chronik("cluster", "rebalance", "--cancel").out == "1 move cancelled\n"
        assert replicas(chronik, "orders") == [[holder]]
        assert chronik("cluster", "rebalance", "--cancel", "--format", "json").json == []
        page = chronik("cluster", "status", "--format", "json").json
        assert {row["node"]: row["state"] for row in page["nodes"]}[gone] == "fenced"


def test_nodes_that_differ_at_one_version_are_told_apart_from_nodes_that_are_behind() -> None:
    """Different metadata at one version is the worst that can happen; at two versions it is just a moment's lag."""

    def row(node: int, version: int | None, state_hash: str | None) -> dict[str, object]:
        return {"node": node, "version": version, "state_hash": state_hash}

    assert diverged([row(1, 7, "a"), row(2, 7, "a"), row(3, 6, "b"), row(4, None, None)]) == {}
    assert diverged([row(1, 7, "a"), row(2, 7, "b"), row(3, 6, "c")]) == {7: {1: "a", 2: "b"}}


def test_status_of_any_kafka(chronik: Run) -> None:
    """Also of Kafka, as far as it reports this: leader, voters, and lag."""
    page = chronik("cluster", "status", "--format", "json").json
    [node] = page["nodes"]
    assert (node["node"], node["role"], node["state"], page["leader"]) == (1, "leader", "alive", 1)
    assert "leader     node 1 in term" in chronik("cluster", "status").out


@pytest.mark.parametrize("words", [["add", "four"], ["add", "4@host:port"], ["add", "4@"], ["remove", "x"]])
def test_what_makes_no_sense_is_not_tried(run_command: Run, words: list[str]) -> None:
    assert run_command("cluster", *words, "--bootstrap", f"{HOST}:1").exit_code == 2
