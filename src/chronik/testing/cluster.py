"""A cluster for tests: one node in a thread of this process, or as a process of its own.

Ready means ready: when the constructor returns, topics can be created and produced to. Data lives in a temporary
directory that goes with the cluster, unless one is given. Nothing is shared between two clusters, not even a port.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import uvloop

from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.runtime.real import real_runtime

HOST = "127.0.0.1"
START_SECONDS_MAX = 30
QUICK = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": f"PLAINTEXT://{HOST}:0",
    "advertised.listeners": f"PLAINTEXT://{HOST}:0",
    "chronik.admin.listener": "none",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "5",  # enough for a test, and a tenth of the groups to load
    "group.initial.rebalance.delay.ms": "0",
}


class Cluster:
    """`settings` are Kafka's own keys: Cluster(settings={"num.partitions": "3"})."""

    def __init__(
        self,
        *,
        settings: Mapping[str, str] | None = None,
        data: str | Path | None = None,
        in_process: bool = True,
    ) -> None:
        self._own_data = None if data is not None else tempfile.mkdtemp(prefix="chronik-test-")
        self.data = Path(data if data is not None else str(self._own_data))
        self.settings = {**QUICK, **(settings or {}), "log.dirs": str(self.data)}
        self._runner: _InThread | _AsProcess = _InThread() if in_process else _AsProcess()
        self.port = self._runner.start(self.settings)

    @property
    def bootstrap(self) -> str:
        """What clients call bootstrap.servers."""
        return f"{HOST}:{self.port}"

    def restart(self) -> None:
        """Stops cleanly and starts again on the same data and port."""
        self._runner.stop()
        self._start_again()

    def kill(self) -> None:
        """Ends the node as kill -9 does; only for a node that is a process of its own."""
        self._runner.kill()

    def start_again(self) -> None:
        """After `kill`: the same data, the same port."""
        self._start_again()

    def _start_again(self) -> None:
        listeners = f"PLAINTEXT://{HOST}:{self.port}"
        self.settings |= {"listeners": listeners, "advertised.listeners": listeners}
        self.port = self._runner.start(self.settings)

    def close(self) -> None:
        self._runner.stop()
        if self._own_data is not None:
            shutil.rmtree(self._own_data, ignore_errors=True)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _InThread:
    """The node on an event loop of its own: the caller's tests may use one too, or none."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._node: Node | None = None

    def start(self, settings: Mapping[str, str]) -> int:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chronik", daemon=True)
        self._thread.start()
        loaded = Settings.load(None, environment={}, overrides=settings)
        starting = asyncio.run_coroutine_threadsafe(_start(loaded), self._loop)
        try:
            self._node = starting.result(START_SECONDS_MAX)
        except BaseException:
            self._end_loop()
            raise
        return self._node.port()

    def stop(self) -> None:
        if self._node is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._node.stop(), self._loop).result(START_SECONDS_MAX)
            self._node = None
        self._end_loop()

    def kill(self) -> None:
        raise RuntimeError("a node in this process cannot be killed alone: Cluster(in_process=False)")

    def _end_loop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.call_later, 0.02, self._loop.stop)  # open transports end first
        self._thread.join(START_SECONDS_MAX)
        self._loop.close()
        self._loop = self._thread = None


async def _start(settings: Settings) -> Node:
    return await Node.start(real_runtime(), settings)


class _AsProcess:
    """`chronik server` with everything by --override; it says its port on standard output when it is ready."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, settings: Mapping[str, str]) -> int:
        overrides = [part for key, value in settings.items() for part in ("--override", f"{key}={value}")]
        command = [sys.executable, "-m", "chronik.cli", "server", *overrides, "--log-level", "WARNING"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("ready "):
            self.stop()
            raise RuntimeError("the node did not start: see its log above")
        return int(line.rpartition(":")[2])

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        self._process.wait(START_SECONDS_MAX)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
