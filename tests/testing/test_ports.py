"""Ports that a process assigns to its nodes: never another process's, and none is reused soon."""

from __future__ import annotations

import socket
import subprocess
import sys

from chronik.testing.ports import END, FIRST, free_ports

TAKE = "from chronik.testing.ports import free_ports; print(*free_ports(3), flush=True); input()"


def test_two_processes_never_get_the_same() -> None:
    """Both search at the same time, and start their nodes a moment later."""
    processes = [
        subprocess.Popen([sys.executable, "-c", TAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    taken = []
    for process in processes:
        assert process.stdout is not None
        taken += process.stdout.readline().split()
    for process in processes:
        process.communicate("\n")
    assert len(set(taken)) == 9


def test_one_that_somebody_listens_on_is_left_out() -> None:
    first, *_ = free_ports(1)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", first + 1))
        busy.listen()
        found = free_ports(3)
    assert first + 1 not in found
    assert all(FIRST < port < END for port in found)
