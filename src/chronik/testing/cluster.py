"""A cluster for tests: nodes in threads of this process, or as separate processes.

When the constructor returns, topics can be created and produced to. Data is in a temporary directory that is removed
with the cluster, unless one is given. Two clusters share nothing, not even a port.

With `secure=True` clients need TLS and a login, and an authorizer decides what they may do: see `secured`.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import uvloop

from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.runtime.real import real_runtime
from chronik.testing.local_cluster import HOST, local_cluster
from chronik.testing.ports import free_ports
from chronik.testing.processes import NodeProcess

if TYPE_CHECKING:
    from chronik.testing.cluster_security import ClusterSecurity

START_SECONDS_MAX = 30
FOR_TESTS = {
    "chronik.admin.listener": "none",
    "log.retention.ms": "-1",  # tests may use old timestamps, and those records must not be deleted
    "offsets.topic.num.partitions": "5",  # enough for a test, and a tenth of the groups to load
}


class Cluster:
    """`settings` are Kafka's own keys: Cluster(settings={"num.partitions": "3"}). Node ids start at 1."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        settings: Mapping[str, str] | None = None,
        data: str | Path | None = None,
        in_process: bool = True,
        start: Sequence[int] | None = None,
        secure: bool = False,
    ) -> None:
        """`start` names the nodes to start, by default all of them; `start_again` starts the others.

        `secure` enables SASL_SSL with SCRAM and access rules: `admin` may do everything, `alice` everything with
        topics, groups and transactional ids whose names begin with `alice-`.
        """
        self._own_data = None if data is not None else tempfile.mkdtemp(prefix="chronik-test-")
        self.data = Path(data if data is not None else str(self._own_data))
        ports, quorum_ports = ([0], []) if nodes == 1 else (free_ports(nodes), free_ports(nodes))
        self._security: ClusterSecurity | None = None
        described = local_cluster(self.data, ports, quorum_ports)
        if secure:
            from chronik.testing.cluster_security import ClusterSecurity  # imports `cryptography`

            self._security = ClusterSecurity(self.data, described)
            described = self._security.settings
        self.settings = [{**made, **FOR_TESTS, **(settings or {})} for made in described]
        self._runners: list[_InThread | _AsProcess] = [_InThread() if in_process else _AsProcess() for _ in ports]
        self.ports = list(ports)
        try:
            self._start(start or range(1, nodes + 1))
        except BaseException:
            self.close()
            raise

    @property
    def port(self) -> int:
        """The port of the first node."""
        return self.ports[0]

    @property
    def bootstrap(self) -> str:
        """The value for bootstrap.servers."""
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def address(self, node_id: int) -> str:
        return f"{HOST}:{self.ports[node_id - 1]}"

    @property
    def security(self) -> ClusterSecurity:
        """Raises RuntimeError for a cluster without security."""
        if self._security is None:
            raise RuntimeError("this cluster has no users and no rules: Cluster(secure=True)")
        return self._security

    def client_settings(self, user: str, library: str) -> dict[str, Any]:
        """The settings with which a client logs in to a secure cluster as this user.

        Producer(cluster.client_settings("alice", "confluent-kafka"))
        KafkaProducer(**cluster.client_settings("alice", "kafka-python"))

        Other libraries: aiokafka, java, librdkafka.
        """
        return self.security.client_settings(user, library, self.bootstrap)

    def properties_file(self, user: str) -> Path:
        """A client.properties for Java's clients, Kafka's tools and `chronik --command-config`."""
        return self.security.properties_file(user, self.bootstrap)

    def add_user(self, name: str, password: str | None = None) -> str:
        """Adds a user, or sets a new password; returns the password. The user has no permissions until `allow`."""
        return self.security.add_user(name, password, self._addresses())

    def allow(self, user: str, *operations: str, **on: Any) -> None:
        """cluster.allow("alice", "read", "describe", topic="orders")

        `on`: topic, group, transactional_id or on_cluster=True; prefix=True for a name prefix; host="10.0.0.7".
        """
        from chronik.testing.cluster_security import rules_for

        self.security.add_rules(rules_for(user, operations, **on), self._addresses())

    def deny(self, user: str, *operations: str, **on: Any) -> None:
        """Like `allow`. A denial takes precedence over every permission."""
        from chronik.testing.cluster_security import rules_for

        self.security.add_rules(rules_for(user, operations, **on, is_denied=True), self._addresses())

    def _addresses(self) -> list[str]:
        """The addresses of running nodes."""
        return [self.address(number) for number, runner in enumerate(self._runners, 1) if runner.is_running]

    def restart(self, node_id: int = 1) -> None:
        """Stops cleanly and restarts on the same data and port."""
        self.stop(node_id)
        self.start_again(node_id)

    def stop(self, node_id: int = 1) -> None:
        self._runners[node_id - 1].stop()

    def kill(self, node_id: int = 1) -> None:
        """Kills the node like kill -9; only for a node that is a separate process."""
        self._runners[node_id - 1].kill()

    def pause(self, node_id: int = 1) -> None:
        """SIGSTOP: the process hangs, but its connections stay open."""
        self._runners[node_id - 1].signal(signal.SIGSTOP)

    def resume(self, node_id: int = 1) -> None:
        self._runners[node_id - 1].signal(signal.SIGCONT)

    def start_again(self, node_id: int = 1) -> None:
        """After `kill` or `stop`: starts on the same data and port."""
        settings, port = self.settings[node_id - 1], self.ports[node_id - 1]
        for key in ("listeners", "advertised.listeners"):
            for name in ("PLAINTEXT", "SASL_SSL"):
                settings[key] = settings[key].replace(f"{name}://{HOST}:0", f"{name}://{HOST}:{port}")
        self._runners[node_id - 1].start(settings)

    def start_all_again(self) -> None:
        self._start(range(1, len(self.ports) + 1))

    def close(self) -> None:
        with ThreadPoolExecutor(len(self._runners)) as pool:
            list(pool.map(lambda runner: runner.stop(), self._runners))
        if self._own_data is not None:
            shutil.rmtree(self._own_data, ignore_errors=True)

    def _start(self, node_ids: Sequence[int]) -> None:
        """Starts all concurrently: the first of several is ready only when others run."""
        with ThreadPoolExecutor(len(node_ids)) as pool:
            ports = pool.map(lambda node_id: self._runners[node_id - 1].start(self.settings[node_id - 1]), node_ids)
            for node_id, port in zip(node_ids, ports, strict=True):
                self.ports[node_id - 1] = port

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _InThread:
    """The node on a separate event loop: the caller's tests may use one too, or none."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._node: Node | None = None

    @property
    def is_running(self) -> bool:
        return self._node is not None

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
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        raise RuntimeError("a node in this process cannot be killed or paused alone: Cluster(in_process=False)")

    def _end_loop(self) -> None:
        if self._loop is None or self._thread is None:
            return
        # Lets open transports close first.
        self._loop.call_soon_threadsafe(self._loop.call_later, 0.02, self._loop.stop)
        self._thread.join(START_SECONDS_MAX)
        self._loop.close()
        self._loop = self._thread = None


async def _start(settings: Settings) -> Node:
    return await Node.start(real_runtime(), settings)


class _AsProcess:
    def __init__(self) -> None:
        self._process: NodeProcess | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, settings: Mapping[str, str]) -> int:
        self._process = NodeProcess.start(settings)
        port = self._process.wait_ready()
        if port is None:
            self.kill()
            raise RuntimeError("the node did not start: see its log above")
        return port

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)
