"""A real Kafka of one node, from the jars: started in a folder, stopped with everything it made.

    with KafkaServer(tmp_path) as kafka: ... kafka.bootstrap

`kafka` is the same as a fixture, one server for all the tests of a process; import it into a conftest. When another
process takes one of its ports first, the server is started again on others. What the server wrote is shown when it does
not come up.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from chronik.testing.ports import free_ports
from tests.oracle.jars import kafka_jars

RELEASE = "4.3.1"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
# A server that lives for seconds: quick compilation beats good compilation.
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto")
START_S_MAX = 120
STARTS_MAX = 3
POLL_S = 0.05
LOG_LINES_SHOWN = 40

_running = pytest.StashKey["KafkaServer"]()


class CannotStart(Exception):
    """Kafka did not come up; the message holds the end of its log."""


class KafkaServer:
    def __init__(self, folder: Path, *, release: str = RELEASE, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._release = release
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self._folder / "server.log"

    def start(self) -> Self:
        for _ in range(STARTS_MAX):
            self._start_once()
            if self._is_up():
                return self
            self.stop()
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        raise CannotStart("\n".join([f"Kafka {self._release} did not start in {self._folder}:", *lines]))

    def stop(self) -> None:
        """At once: nobody needs what it stored."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """kill -9, then a new process on the same data and ports."""
        self.stop()
        with self.log.open("ab") as log:
            command = self._java("kafka.Kafka", str(self._folder / "server.properties"))
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        if not self._is_up():
            raise CannotStart(f"Kafka {self._release} did not come back in {self._folder}: see {self.log}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _start_once(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self.port, controller_port = free_ports(2)
        properties = self._folder / "server.properties"
        properties.write_text(self._properties(controller_port))
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties))
        with self.log.open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log)
            self._process = subprocess.Popen(self._java("kafka.Kafka", str(properties)), stdout=log, stderr=log)

    def _properties(self, controller_port: int) -> str:
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "num.partitions": "1",
            "offsets.topic.num.partitions": "4",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # Tests write records with old timestamps. The retention check runs every five minutes and would delete them
            # in the middle of a test.
            "log.retention.ms": "-1",
        } | self._settings
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _java(self, *words: str) -> list[str]:
        java = shutil.which("java")
        if java is None:
            raise FileNotFoundError("no java on the PATH: install a JDK, 17 or later")
        return [java, *JVM_OPTIONS, "-cp", f"{kafka_jars(self._release)}/*", *words]

    def _awaited_ports(self) -> tuple[int, ...]:
        """The ports of all listeners that a test uses: Kafka opens its listeners one after the other."""
        return (self.port,)

    def _is_up(self) -> bool:
        """Whether every awaited port answers before the process ends; Kafka listens when it is ready to serve."""
        assert self._process is not None
        end = time.monotonic() + START_S_MAX
        closed = list(self._awaited_ports())
        while closed and self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", closed[0]), timeout=1).close()
            except OSError:
                time.sleep(POLL_S)
            else:
                del closed[0]
        return not closed


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KafkaServer:
    """The same server whichever conftest imports this: a JVM for each of them would be several too many."""
    config = request.config
    if _running not in config.stash:
        server = config.stash[_running] = KafkaServer(tmp_path_factory.mktemp("kafka") / "node").start()
        config.add_cleanup(server.stop)
    return config.stash[_running]
