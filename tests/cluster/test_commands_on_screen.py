"""Commands on a terminal of 80 columns, and requests that tools send to any node, against nodes that are processes."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pytest

from chronik.client.routing import ClusterClient
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("commands-on-screen")]

ROWS, COLUMNS = 24, 80
COMMAND = [sys.executable, "-m", "chronik.cli"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False, settings={"chronik.admin.listener": "127.0.0.1:0"}) as cluster:
        created = run("topic", "create", "orders", "--partitions", "1", cluster=cluster)
        assert created.returncode == 0, created.stderr
        made = run("produce", "orders", "--key", "7", cluster=cluster, stdin='{"a": 1}\n')
        assert made.returncode == 0, made.stderr
        yield cluster


def run(*words: str, cluster: Cluster, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CHRONIK_BOOTSTRAP": cluster.bootstrap}
    return subprocess.run([*COMMAND, *words], env=environment, input=stdin, capture_output=True, text=True)


def on_screen(*words: str, cluster: Cluster) -> str:
    """What a person sees on a terminal of 80 columns: both streams, without colours."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environment = {**os.environ, "CHRONIK_BOOTSTRAP": cluster.bootstrap, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen([*COMMAND, *words], env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, seen
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r", "")


def test_cluster_status_fits_80_columns(cluster: Cluster) -> None:
    """A number that is cut is another number, and a title that is cut is none."""
    seen = on_screen("cluster", "status", cluster=cluster)
    assert "…" not in seen
    for title in ("NODE", "ROLE", "STATE", "APPLIED", "BEHIND", "LAG", "LEASE", "VERSION", "STATE HASH"):
        assert title in seen


def test_sql_names_the_columns_that_do_not_fit_80_columns(cluster: Cluster) -> None:
    """A column that is missing without a word looks as if the topic had none."""
    seen = on_screen("sql", "SELECT *, repeat(CAST(value AS VARCHAR), 20) AS long FROM orders", cluster=cluster)
    for name in ("key", "value", "_partition", "_offset", "_timestamp", "long"):
        assert re.search(rf"\b{name}\b", seen), f"{name} is neither shown nor named in\n{seen}"


def test_a_timestamp_that_retention_deletes_is_warned_about(cluster: Cluster) -> None:
    """The record is acknowledged, and gone at the next check."""
    created = run("topic", "create", "short", "--config", "retention.ms=3600000", cluster=cluster)
    assert created.returncode == 0, created.stderr
    made = run("produce", "short", "--timestamp", "2h ago", cluster=cluster, stdin="old\n")
    assert made.returncode == 0
    assert "retention" in made.stderr


@pytest.mark.parametrize("command", ["up", "server"])
def test_an_unknown_log_level_is_one_line(command: str, cluster: Cluster) -> None:
    refused = run(command, "--log-level", "LOUD", cluster=cluster)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert "DEBUG, INFO, WARNING, ERROR, CRITICAL" in refused.stderr


def test_log_levels_may_have_any_case() -> None:
    process = subprocess.Popen(
        [*COMMAND, "up", "--port", "0", "--log-level", "warning"], stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("bootstrap.servers")
        finally:
            process.terminate()


def test_every_replica_describes_producers(cluster: Cluster) -> None:
    """kafka-transactions find-hanging asks one broker for all its replicas, most of which it does not lead."""

    async def codes() -> list[int]:
        request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])
        async with ClusterClient(real_runtime(), cluster.bootstrap, client_id="test") as client:
            await client.refresh(None)
            return [
                (await (await client.to_node(node_id)).ask(request, DescribeProducersResponse))
                .topics[0]
                .partitions[0]
                .error_code
                for node_id in (1, 2, 3)
            ]

    assert asyncio.run(codes()) == [ErrorCode.NONE] * 3
