"""Commands on a cluster without a quorum: they say so, soon, and name no other cause. Nodes are real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.client.admin.survey import survey
from chronik.client.routing import ClusterClient
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.testing.local_cluster import node_directory
from chronik.testing.ports import free_ports
from chronik.testing.processes import NodeProcess
from tests.cli.conftest import Run
from tests.cli.every_command import (
    ANSWERED_BY_ANY_NODE,
    ASKING,
    NEEDING_A_BACKUP,
    NEEDING_SPARK,
    NOT_ASKING,
    REFUSED_WITHOUT_A_LOGIN,
    every_leaf,
    options_of,
)
from tests.cluster.load import eventually
from tests.house.repository import SOURCE

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("quorum-lost")]

WITH_ADMIN = {"chronik.admin.listener": "127.0.0.1:0"}
TRUTH = "no controller is elected: 1 of 3 voters answer, 2 are needed; no answer from nodes 2 and 3"
# Commands used to retry for half a minute. The bound is far from that and from the two seconds that they take, so that
# a busy machine does not decide.
SECONDS_MAX = 10


@pytest.fixture(scope="module")
def survivor() -> Iterator[Cluster]:
    """One node of three; the other two were killed."""
    with Cluster(nodes=3, settings=WITH_ADMIN, in_process=False) as cluster:
        cluster.kill(2)
        cluster.kill(3)
        asyncio.run(leaderless(cluster))
        yield cluster


async def leaderless(cluster: Cluster) -> None:
    """Until the survivor has noticed: its lease lets it answer reads a moment longer."""
    async with ClusterClient(real_runtime(), cluster.bootstrap) as client:
        while await survey(client) is None:
            await asyncio.sleep(0.1)


@pytest.fixture
def chronik(run_command: Run, survivor: Cluster, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CHRONIK_BOOTSTRAP", survivor.bootstrap)
    return run_command


def test_status_shows_who_answers_and_how_many_votes_are_needed(chronik: Run, survivor: Cluster) -> None:
    """This is when an operator runs it."""
    began_s = time.monotonic()
    done = chronik("cluster", "status")
    assert time.monotonic() - began_s < SECONDS_MAX
    assert done.exit_code == 1
    assert TRUTH in done.err
    assert "votes      1 of 3 voters answer, 2 are needed" in done.out
    assert [line.split()[:5] for line in done.lines[-3:]] == [
        ["1", "voter", "answers", survivor.address(1), done.lines[-3].split()[4]],
        ["2", "voter", "no", "answer", survivor.address(2)],
        ["3", "voter", "no", "answer", survivor.address(3)],
    ]


def test_status_as_json_has_the_same_keys_as_with_a_leader(chronik: Run) -> None:
    """A script that watches clusters must not break when one does."""
    page = chronik("cluster", "status", "--format", "json").json
    assert (page["leader"], page["voters"], page["voters_answering"], page["voters_needed"]) == (
        None,
        [1, 2, 3],
        [1],
        2,
    )
    assert [(row["node"], row["state"]) for row in page["nodes"]] == [
        (1, "answers"),
        (2, "no answer"),
        (3, "no answer"),
    ]
    with Cluster(settings=WITH_ADMIN) as well:
        healthy = chronik("cluster", "status", "--format", "json", "--bootstrap", well.bootstrap).json
    assert healthy.keys() <= page.keys()
    assert healthy["nodes"][0].keys() <= page["nodes"][0].keys()
    assert page["nodes"][0]["state_hash"]


@pytest.mark.parametrize(
    "words",
    [
        ["topic", "create", "x"],
        ["topic", "list"],
        ["topic", "describe", "x"],
        ["group", "list"],
        ["group", "describe", "x"],
        ["config", "get", "topic", "x"],
        ["cluster", "remove", "2"],
        ["produce", "x"],
        ["consume", "x"],
        ["consume", "x", "--group", "g", "--follow"],
    ],
    ids=" ".join,
)
def test_a_command_without_a_quorum_names_the_voters_that_are_missing(chronik: Run, words: list[str]) -> None:
    """Not "the controller has moved", nor "is a broker running there?": neither would be true."""
    began_s = time.monotonic()
    done = chronik(*words, stdin=b"record\n")
    assert time.monotonic() - began_s < SECONDS_MAX
    assert (done.exit_code, done.out) == (1, "")
    assert TRUTH in done.err
    assert len(done.err.splitlines()) == 1


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return_code = subprocess.run(
        [sys.executable, "-m", "chronik.cli", "pipeline", "init", str(folder := tmp_path_factory.mktemp("shop") / "p")],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=False,
    ).returncode
    assert return_code == 0
    return folder / "pipeline.py"


@pytest.mark.long
@pytest.mark.parametrize("leaf", sorted(ASKING.keys() - ANSWERED_BY_ANY_NODE - REFUSED_WITHOUT_A_LOGIN))
def test_no_command_waits_for_a_quorum_that_is_lost(chronik: Run, leaf: str, pipeline: Path, tmp_path: Path) -> None:
    """Every command that an operator tries then reports the cause, and soon."""
    plain = tmp_path / "plain"
    plain.write_text("word\n")
    schema = tmp_path / "schema.json"
    schema.write_text("{}")
    given = (
        ASKING[leaf].replace("FILE", str(pipeline)).replace("PLAIN", str(plain)).replace("SCHEMA", str(schema)).split()
    )
    if leaf in ("sql", "contract check"):
        pytest.importorskip("duckdb")
    if leaf.split()[0] in NEEDING_SPARK:
        pytest.importorskip("pyspark")
    began_s = time.monotonic()
    done = chronik(*leaf.split(), *given, stdin=b"record\n")
    assert time.monotonic() - began_s < SECONDS_MAX
    assert done.exit_code == 1
    assert TRUTH in done.err + done.out


@pytest.mark.long
@pytest.mark.parametrize("leaf", sorted(REFUSED_WITHOUT_A_LOGIN))
def test_a_command_that_needs_a_login_is_refused_at_once(chronik: Run, leaf: str) -> None:
    """The quorum is not the cause: with one, the answer would be the same."""
    began_s = time.monotonic()
    done = chronik(*leaf.split(), *ASKING[leaf].split())
    assert time.monotonic() - began_s < SECONDS_MAX
    assert done.exit_code == 1
    assert "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" in done.err


def test_backup_and_restore_without_a_quorum(chronik: Run, survivor: Cluster, tmp_path: Path) -> None:
    """Of a healthy cluster, a backup exists; neither command waits for the lost one."""
    with Cluster() as well:
        assert chronik("topic", "create", "kept", "--bootstrap", well.bootstrap).exit_code == 0
        assert chronik("produce", "kept", "--bootstrap", well.bootstrap, stdin=b"one\n").exit_code == 0
        assert chronik("backup", str(tmp_path / "well"), "--bootstrap", well.bootstrap).exit_code == 0
    for words in (["backup", str(tmp_path / "lost")], ["restore", str(tmp_path / "well")]):
        began_s = time.monotonic()
        done = chronik(*words)
        assert time.monotonic() - began_s < SECONDS_MAX
        assert done.exit_code == 1
        assert TRUTH in done.err + done.out


def test_every_command_that_asks_a_cluster_is_tried_without_a_quorum() -> None:
    """A command that is added later must not be forgotten."""
    asking = {" ".join(leaf) for leaf in every_leaf() if "--bootstrap" in options_of(leaf)}
    assert asking == ASKING.keys() | NOT_ASKING | NEEDING_A_BACKUP


def test_a_node_that_hangs_does_not_count_as_answering(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its machine still accepts connections. And without admin listeners the brokers' own are asked."""
    with Cluster(nodes=3, in_process=False, data=tmp_path) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        cluster.kill(2)
        cluster.pause(3)
        try:
            done = run_command("cluster", "status", "--bootstrap", cluster.address(1))
        finally:
            cluster.resume(3)
        assert (done.exit_code, TRUTH in done.err) == (1, True), done.err


def test_a_cluster_that_lost_one_node_of_three_goes_on(
    run_command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A leader is elected within seconds: that is no reason to give up."""
    with Cluster(nodes=3, settings=WITH_ADMIN, in_process=False, data=tmp_path) as cluster:
        monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.bootstrap)
        leader = run_command("cluster", "status", "--format", "json").json["leader"]
        cluster.kill(leader)
        made = run_command("topic", "create", "x", "-r", "2")
        assert made.exit_code == 0, made.err
        assert run_command("cluster", "status").exit_code == 0


def test_voters_that_have_lost_their_metadata_are_named(run_command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """All respond, and none can ever be elected. With "an election may be in progress" the operator would wait without
    success."""
    with Cluster(nodes=3, in_process=False) as cluster:
        ports = dict(enumerate(free_ports(3), 1))
        for node_id, port in ports.items():
            cluster.stop(node_id)
            cluster.settings[node_id - 1]["chronik.admin.listener"] = f"127.0.0.1:{port}"
            cluster.start_again(node_id)
        cluster.kill(1)
        cluster.kill(2)
        empty = []
        try:
            for node_id in (1, 2):
                shutil.rmtree(node_directory(cluster.data, node_id))
                empty.append(NodeProcess.start(cluster.settings[node_id - 1]))
                eventually(lambda port=ports[node_id]: cannot_vote(port), f"node {node_id} waits")
            monkeypatch.setenv("CHRONIK_BOOTSTRAP", cluster.address(3))
            done = run_command("cluster", "status")
            assert done.exit_code == 1
            assert "nodes 1 and 2 have lost their metadata and cannot vote: see docs/how-to/quorum-lost.md" in done.err
            assert "votes      3 of 3 voters answer, 2 cannot vote, 2 are needed" in done.out
            assert done.out.count("cannot vote ") == 2
        finally:
            for node in empty:
                node.kill()


def cannot_vote(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
            page = json.load(answer)
    except OSError:
        return False
    return "quorum" in page and page["quorum"]["abstains"] and "has lost its metadata" in page["not_ready_because"]
