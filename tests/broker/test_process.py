"""A node as a process: it starts as its file says or not at all, and can be stopped at any time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chronik.broker.process import EXIT_FAILED, _Formatter, escape
from chronik.client.admin.quorum import Quorum, describe
from chronik.client.routing import ClusterClient
from chronik.runtime.real import real_runtime
from chronik.testing.local_cluster import HOST, local_cluster
from chronik.testing.ports import free_ports
from chronik.testing.processes import NodeProcess

pytestmark = pytest.mark.slow
QUICKSTART = Path(__file__).parent / "settings" / "files" / "quickstart.properties"


def test_a_node_that_waits_for_its_quorum_stops_when_told(tmp_path: Path) -> None:
    """One of three nodes can never become ready by itself, and must not need to be killed."""
    quorum_ports = free_ports(3)
    alone, *_ = local_cluster(tmp_path, free_ports(3), quorum_ports)
    node = NodeProcess.start(alone)
    while not _listens(quorum_ports[0]):
        assert node.exit_code() is None
    node.stop()
    assert node.wait_ready() is None
    node.wait()
    assert node.exit_code() == 0


def test_a_node_that_is_not_registered_in_time_ends_with_the_code_that_has_it_started_again(tmp_path: Path) -> None:
    """systemd leaves a node alone that ended with 2. Without a quorum, all nodes would stay down."""
    settings = local_cluster(tmp_path, free_ports(3), free_ports(3))
    nodes = [NodeProcess.start(each) for each in settings]
    assert all(node.wait_ready() for node in nodes)
    for node in nodes:
        node.kill()
    alone = NodeProcess.start(settings[0] | {"initial.broker.registration.timeout.ms": "1000"})
    assert alone.wait_ready() is None
    alone.wait()
    assert alone.exit_code() == EXIT_FAILED


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def test_nodes_may_be_numbered_from_0_and_share_a_secret(tmp_path: Path) -> None:
    """As most of Kafka's examples number them. Node 0 is in the quorum like the others."""
    quorum_ports = free_ports(3)
    secret = tmp_path / "secret"
    secret.write_text("what nobody else knows")
    voters = ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(quorum_ports))
    more = {"controller.quorum.voters": voters, "chronik.quorum.secret.file": str(secret)}
    settings = local_cluster(tmp_path, free_ports(3), quorum_ports)
    nodes = [NodeProcess.start(each | more | {"node.id": str(number)}) for number, each in enumerate(settings)]
    try:
        assert all(node.wait_ready() for node in nodes)
        told = asyncio.run(_described(f"{HOST}:{nodes[0].port}"))
        assert told.voters == (0, 1, 2)
        assert all(member.end_offset > 0 for member in told.members), "each has heard from the leader"
    finally:
        for node in nodes:
            node.stop()
        for node in nodes:
            node.wait()
    assert [node.exit_code() for node in nodes] == [0, 0, 0]


async def _described(bootstrap: str) -> Quorum:
    async with ClusterClient(real_runtime(), bootstrap, client_id="test") as cluster:
        return await describe(cluster)


def test_kafkas_own_file_starts_a_node(tmp_path: Path) -> None:
    """It lists the node itself as the way to the quorum; that node must not wait for another to add it."""
    client_port, quorum_port = free_ports(2)
    text = QUICKSTART.read_text().replace("9092", str(client_port)).replace("9093", str(quorum_port))
    file = tmp_path / "server.properties"
    file.write_text(text.replace("/tmp/kraft-combined-logs", str(tmp_path / "data")).replace("://:", f"://{HOST}:"))
    command = [sys.executable, "-m", "chronik.cli", "server", str(file), "--until-stdin-ends"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == f"ready on {HOST}:{client_port}\n"
        node.terminate()
    assert node.returncode == 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"listeners": "PLAINTEXT://:0"}, "set chronik.insecure.listeners=true"),
        ({"chronik.admin.listener": "0.0.0.0:0"}, "set chronik.insecure.listeners=true"),
        ({"ssl.client.auth": "required"}, "ssl.client.auth=required: access is not restricted"),
        ({"process.roles": "broker"}, "set process.roles=broker,controller"),
        ({"process.roles": "controller", "listeners": f"C://{HOST}:0"}, "set process.roles=broker,controller"),
    ],
)
def test_a_node_that_cannot_do_what_its_file_says_ends_at_once_with_one_line(
    settings: dict[str, str], why: str, tmp_path: Path
) -> None:
    """It neither hangs nor serves: a supervisor sees the exit code, and an operator the reason."""
    quorum = {
        "listeners": f"PLAINTEXT://{HOST}:0",
        "controller.listener.names": "C",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,C:PLAINTEXT",
        "log.dirs": str(tmp_path / "data"),
        "node.id": "1",
    }
    if settings.get("process.roles") == "broker":
        quorum["controller.quorum.voters"] = f"0@{HOST}:1"
    overrides = [part for key, value in (quorum | settings).items() for part in ("-o", f"{key}={value}")]
    ended = subprocess.run(
        [sys.executable, "-m", "chronik.cli", "server", *overrides], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert why in ended.stderr


def test_a_damaged_count_of_processes_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "incarnation").write_bytes(b"garbage")
    overrides = ["-o", f"listeners=PLAINTEXT://{HOST}:0", "-o", f"log.dirs={tmp_path}"]
    ended = subprocess.run(
        [sys.executable, "-m", "chronik.cli", "server", *overrides], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path}/incarnation holds b'garbage'" in ended.stderr


def test_what_clients_choose_cannot_make_log_lines() -> None:
    """A group id with a line end in it would write whatever its author likes into the log."""
    chosen = "x\n2026 INFO all is well\x1b[2J\u2028\u202e"
    record = logging.LogRecord("a", logging.INFO, "", 0, "group %s", (chosen,), None)
    (line,) = _Formatter("%(message)s").format(record).splitlines()
    assert line == r"group x\n2026 INFO all is well\x1b[2J\u2028\u202e"
    try:
        raise ValueError("first\n2026 INFO second\r\x1b")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "failed", (), sys.exc_info())
    message, *traceback = _Formatter("%(message)s").format(record).split("\n")
    assert message == "failed"
    assert all(each.startswith("    ") for each in traceback)
    assert "\x1b" not in "".join(traceback)
    assert escape("Größe, 大きい") == "Größe, 大きい"
