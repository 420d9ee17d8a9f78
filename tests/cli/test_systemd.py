"""A node under systemd: the unit, and the node's notifications to the service manager."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.repository import ROOT, SOURCE

UNITS = ROOT / "deploy/systemd"
PATIENCE_S = 120
analyze = shutil.which("systemd-analyze")


@pytest.mark.slow
def test_a_node_is_ready_when_it_is_registered_and_says_when_it_stops(tmp_path: Path) -> None:
    """What starts after the node finds a broker that serves. The log is JSON, one object per line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE_S)
        manager.bind(str(tmp_path / "notify"))
        command = [sys.executable, "-m", "chronik.cli", "server", "--log-format", "json"]
        command += ["-o", f"log.dirs={tmp_path / 'data'}", "-o", "listeners=PLAINTEXT://127.0.0.1:0"]
        command += ["-o", "chronik.admin.listener=none"]
        environment = {
            "PYTHONPATH": str(SOURCE),
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
            "WATCHDOG_USEC": "600000000",
        }
        with (tmp_path / "log").open("w") as log:
            node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            ready = manager.recv(4096).decode()
            assert ready.startswith("READY=1\nSTATUS=serving on 127.0.0.1:")
            assert manager.recv(4096) == b"WATCHDOG=1"
            assert node.stdout is not None
            address = node.stdout.readline().removeprefix("ready on ").strip()
            assert ready.endswith(address)
            node.send_signal(signal.SIGTERM)
            assert manager.recv(4096).startswith(b"STOPPING=1")
            assert node.wait(PATIENCE_S) == 0
        finally:
            node.kill()
            node.communicate()
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"time", "level", "logger", "message"} == events[0].keys()
    assert events[-1]["level"] == "INFO"


@pytest.mark.skipif(analyze is None, reason="systemd-analyze is missing: apt-get install systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """A misspelt setting is ignored with a warning, and the sandbox is open."""
    assert analyze is not None
    unit = (UNITS / "chronik@.service").read_text()
    program = re.search(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    assert program is not None
    assert program[1] == "/opt/chronik/bin/chronik", "docs/how-to/systemd.md installs it there"
    copy = tmp_path / "chronik@.service"
    copy.write_text(unit.replace(program[1], sys.executable))
    checked = subprocess.run([analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(analyze is None, reason="systemd-analyze is missing: apt-get install systemd")
def test_the_sandbox_lets_the_node_sync_by_linux_aio() -> None:
    """Without io_submit a node falls back to threads, and is a fifth slower."""
    assert analyze is not None
    unit = (UNITS / "chronik@.service").read_text()
    allowed, denied = [
        re.findall(r"@\S+", " ".join(re.findall(pattern, unit, re.MULTILINE)))
        for pattern in (r"^SystemCallFilter=(@.*)$", r"^SystemCallFilter=~(.*)$")
    ]

    def calls(*groups: str) -> set[str]:
        found: set[str] = set()
        for group in groups:
            listed = subprocess.run([analyze, "syscall-filter", group], capture_output=True, text=True, check=True)
            words = {line.strip() for line in listed.stdout.splitlines() if line.startswith("    ")}
            found |= {word for word in words if not word.startswith(("@", "#"))}
            found |= calls(*(word for word in words if word.startswith("@")))
        return found

    assert {"io_setup", "io_submit", "io_getevents"} <= calls(*allowed) - calls(*denied)


def test_the_unit_does_not_restart_a_node_whose_configuration_is_wrong() -> None:
    """Exit code 2 says that another start fails the same way."""
    unit = (UNITS / "chronik@.service").read_text()
    from chronik.broker.process import EXIT_CANNOT_START

    assert f"RestartPreventExitStatus={EXIT_CANNOT_START}" in unit.splitlines()
    assert "Type=notify" in unit.splitlines()
