"""How the brokers under comparison are started, watched and ended. All get the very same server.properties."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

KAFKA_VERSION = "4.3.1"
START_SECONDS_MAX = 90
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

PROPERTIES = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor={replication}
transaction.state.log.replication.factor={replication}
transaction.state.log.min.isr={in_sync}
default.replication.factor={replication}
min.insync.replicas={in_sync}
group.initial.rebalance.delay.ms=0
"""


class CannotRun(Exception):
    """The message says what is missing and how to get it."""


@dataclass
class Server:
    """`nodes` processes that form one cluster."""

    name: str
    commands: list[list[str]]
    ports: list[int]
    directory: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> None:
        """Returns when every node takes connections."""
        self.processes = [self._launch(index) for index in range(len(self.commands))]
        for port in self.ports:
            self._wait_for(port)

    def start_again(self, index: int) -> None:
        self.processes[index] = self._launch(index)
        self._wait_for(self.ports[index])

    def kill(self, index: int) -> None:
        os.killpg(self.processes[index].pid, signal.SIGKILL)
        self.processes[index].wait()

    def _launch(self, index: int) -> subprocess.Popen[bytes]:
        with (self.directory / f"node{index}.log").open("ab") as log:
            return subprocess.Popen(
                self.commands[index], stdout=log, stderr=log, start_new_session=True, cwd=self.directory
            )

    def _wait_for(self, port: int) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                time.sleep(0.005)
            else:
                return
        raise CannotRun(f"{self.name} did not start within {START_SECONDS_MAX} s: see the logs in {self.directory}")

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.processes.clear()

    def cpu_seconds(self) -> float:
        ticks = 0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / TICKS_PER_SECOND

    def resident_mb(self, index: int | None = None) -> float:
        """Of all nodes, or of one."""
        total_kb = 0
        for process in self.processes if index is None else [self.processes[index]]:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    total_kb += int(line.split()[1])
        return total_kb / 1024


def chronik(root: Path, nodes: int) -> Server:
    script = Path(sys.executable).with_name("chronik")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "chronik.cli"]
    directory, ports, files = _configured(root / "chronik", nodes)
    return Server("Chronik", [[*command, "server", str(file)] for file in files], ports, directory)


def kafka(root: Path, nodes: int, cache: Path) -> Server:
    jars = cache / f"kafka-{KAFKA_VERSION}"
    if not jars.is_dir():
        raise CannotRun(
            f"there are no jars of Kafka in {jars}: run `make jars`, or measure Chronik with --only chronik"
        )
    if shutil.which("java") is None:
        raise CannotRun("Kafka needs Java, and there is no `java`: run `make jdk` to see how to install it")
    java = ["java", "-cp", f"{jars}/*"]
    directory, ports, files = _configured(root / "kafka", nodes)
    for file in files:
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(file), "-g"]
        subprocess.run(tool, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = ["java", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-cp", f"{jars}/*", "kafka.Kafka"]
    return Server("Kafka", [[*options, str(file)] for file in files], ports, directory)


def _configured(directory: Path, nodes: int) -> tuple[Path, list[int], list[Path]]:
    """An empty directory, and a file for each node that says so."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    ports = _free_ports(2 * nodes)
    clients, controllers = ports[:nodes], ports[nodes:]
    voters = ",".join(f"{index + 1}@127.0.0.1:{port}" for index, port in enumerate(controllers))
    files = []
    for index in range(nodes):
        file = directory / f"node{index}.properties"
        file.write_text(
            PROPERTIES.format(
                node_id=index + 1,
                voters=voters,
                port=clients[index],
                controller_port=controllers[index],
                data=directory / f"data{index}",
                replication=min(3, nodes),
                in_sync=min(2, nodes),
            )
        )
        files.append(file)
    return directory, clients, files


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
