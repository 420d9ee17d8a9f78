"""Nodes as processes: start, watch, stop, kill and pause them.

A node prints a line on standard output when it is ready. It stops when its standard input ends, so no node outlives the
process that started it, even if that process is killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from os import PathLike

from chronik.runtime.wording import is_or_are

STOP_SECONDS_MAX = 30
WATCH_SECONDS = 0.2
EARLY_SECONDS = 10  # a node that ends within this time has a fault that a restart does not cure
RESTARTS_MAX = 3


class NodeProcess:
    """`chronik server` with a file, with settings by --override, or both."""

    def __init__(self, process: subprocess.Popen[str], node_id: str) -> None:
        self._process = process
        self.node_id = node_id
        self.port: int | None = None  # set once it is ready

    @classmethod
    def start(
        cls, settings: Mapping[str, str], *, log_level: str = "WARNING", file: str | PathLike[str] | None = None
    ) -> NodeProcess:
        overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
        files = [] if file is None else [os.fspath(file)]
        command = [sys.executable, "-m", "chronik.cli", "server", *files, *overrides, "--log-level", log_level]
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*command, "--until-stdin-ends"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C goes to the parent, which stops its nodes in order
        )
        return cls(process, settings.get("node.id", "1"))

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> int | None:
        """The port that it serves; None if it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.port = int(line.rpartition(":")[2]) if line.startswith("ready ") else None
        return self.port

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def stop(self) -> None:
        """Requests a clean stop."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def heed_signals() -> None:
    """SIGINT and SIGTERM raise KeyboardInterrupt, even if the process was started with SIGINT ignored.

    A shell without job control starts background jobs this way.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)


def keep_running(processes: list[NodeProcess], start: Callable[[int], NodeProcess], tell: Callable[[str], None]) -> int:
    """Starts a node that ended again, until KeyboardInterrupt: 0. A node that soon ends again stays down; 1 if all do.

    `processes` always holds the newest process of each node. `start` gets a node's index in it.
    """
    running = dict.fromkeys(range(len(processes)), time.monotonic())
    early = dict.fromkeys(running, 0)
    try:
        while running:
            for index, began_s in list(running.items()):
                process = processes[index]
                if (code := process.exit_code()) is None:
                    continue
                early[index] = early[index] + 1 if time.monotonic() - began_s < EARLY_SECONDS else 1
                ended = f"node {process.node_id} ended with status {code}"
                if early[index] > RESTARTS_MAX:
                    del running[index]
                    left = f"{len(running)} {is_or_are(len(running))} left"
                    tell(f"{ended}, {early[index]} times in a row soon after its start: it stays down; {left}")
                    continue
                tell(f"{ended}; starting it again")
                process.wait()
                processes[index] = start(index)
                running[index] = time.monotonic()
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return 0
    return 1


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
