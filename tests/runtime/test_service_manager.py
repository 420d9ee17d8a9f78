"""The notifications that a process sends to a service manager."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from chronik.runtime.service_manager import ServiceManager

PATIENCE_S = 60


@pytest.mark.parametrize("is_abstract", [False, True])
def test_states_are_told_to_the_socket_that_the_environment_names(tmp_path: Path, *, is_abstract: bool) -> None:
    """systemd gives a path to a system service, and a name in the abstract namespace to a container."""
    name = f"chronik-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(PATIENCE_S)
        manager.bind(f"\0{name}" if is_abstract else str(tmp_path / "notify"))
        told = ServiceManager({"NOTIFY_SOCKET": f"@{name}" if is_abstract else str(tmp_path / "notify")})
        told.ready("serving on host:9092")
        told.stopping()
        assert manager.recv(4096) == b"READY=1\nSTATUS=serving on host:9092"
        assert manager.recv(4096) == b"STOPPING=1\nSTATUS=stopping"


def test_a_watched_event_loop_says_that_it_runs(tmp_path: Path) -> None:
    """Twice per period, so that one late message does not end the node."""

    async def watched() -> list[bytes]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.setblocking(False)
            told = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "20000"})
            told.ready("serving")
            try:
                loop = asyncio.get_running_loop()
                return [await asyncio.wait_for(loop.sock_recv(manager, 4096), PATIENCE_S) for _ in range(4)]
            finally:
                told.close()

    assert asyncio.run(watched())[1:] == [b"WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/notify"},
        {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "many"},
        {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"},
    ],
)
def test_a_manager_that_does_not_listen_stops_nothing(environment: dict[str, str]) -> None:
    """A node is more than its supervisor."""
    told = ServiceManager(environment)
    told.ready("serving")
    told.stopping()
    told.close()
