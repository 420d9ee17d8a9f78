"""The brokers that are measured: Chronik and Apache Kafka, as processes, on the very same server.properties.

A cluster is started empty in a folder of its own and ends with the benchmark. CPU and memory are those of the whole
process tree. Kafka's jars come from the cache that `make jars` fills.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

HOST = "127.0.0.1"
KAFKA_VERSION = "4.3.1"
KAFKA_CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
QUORUM_PORT_OFFSET = 100
READY_SECONDS_MAX = 90
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class Servers:
    """All nodes of one broker. Use it as a context: leaving kills what is left."""

    name: str
    folder: Path
    ports: list[int]
    commands: list[list[str]]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def start(self) -> None:
        for index in range(len(self.commands)):
            self.start_node(index)

    def start_node(self, index: int) -> None:
        with (self.folder / f"node-{index + 1}.log").open("ab") as log:
            process = subprocess.Popen(
                self.commands[index], stdout=log, stderr=log, start_new_session=True, cwd=self.folder
            )
        if index < len(self.processes):
            self.processes[index] = process
        else:
            self.processes.append(process)

    def kill_node(self, index: int, number: int = signal.SIGKILL) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[index].pid, number)
        self.processes[index].wait()

    def cpu_s(self) -> float:
        """Spent so far, in user and system mode, by all nodes that run."""
        total = 0
        for pid in self._pids():
            with contextlib.suppress(FileNotFoundError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += int(fields[11]) + int(fields[12])
        return total / TICKS_PER_SECOND

    def rss_mb(self, index: int | None = None) -> float:
        """Resident memory of all nodes, or of one."""
        total_kb = 0
        for pid in self._pids(index):
            with contextlib.suppress(FileNotFoundError):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                total_kb += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
        return total_kb / 1024

    def _pids(self, index: int | None = None) -> list[int]:
        chosen = self.processes if index is None else [self.processes[index]]
        found, unseen = [], [process.pid for process in chosen]
        while unseen:
            pid = unseen.pop()
            found.append(pid)
            with contextlib.suppress(FileNotFoundError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    unseen += map(int, (task / "children").read_text().split())
        return found

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for index in range(len(self.processes)):
            self.kill_node(index)
        shutil.rmtree(self.folder, ignore_errors=True)


def chronik(folder: Path, nodes: int = 1, *, more: str = "") -> Servers:
    ports, files = _properties(folder, nodes, more)
    command = [sys.executable, "-m", "chronik.cli", "server"]
    return Servers("Chronik", folder, ports, [[*command, str(file)] for file in files])


def kafka_jars() -> Path | None:
    """Where Kafka's jars are; None when they were never fetched."""
    cache = Path(os.environ.get("CHRONIK_CACHE", Path(__file__).parents[2] / ".cache"))
    jars = cache / f"kafka-{KAFKA_VERSION}"
    return jars if jars.is_dir() else None


def kafka(folder: Path, nodes: int = 1, *, more: str = "") -> Servers:
    ports, files = _properties(folder, nodes, more)
    jars = kafka_jars()
    if jars is None:
        raise FileNotFoundError(f"no jars of Kafka {KAFKA_VERSION}: `make jars` fetches them")
    java = ["java", "-cp", f"{jars}/*"]
    for file in files:
        formatting = [*java, "kafka.tools.StorageTool", "format", "-t", KAFKA_CLUSTER_ID, "-c", str(file), "-g"]
        subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL)
    options = ["-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
    commands = [["java", *options, "-cp", f"{jars}/*", "kafka.Kafka", str(file)] for file in files]
    return Servers(f"Kafka {KAFKA_VERSION}", folder, ports, commands)


def wait_port(port: int) -> None:
    end = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.01)
    raise TimeoutError(f"nobody listens on {HOST}:{port} after {READY_SECONDS_MAX} s")


def _properties(folder: Path, nodes: int, more: str) -> tuple[list[int], list[Path]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    every = _free_ports(2 * nodes)
    ports, quorum_ports = every[:nodes], every[nodes:]
    voters = ",".join(f"{index + 1}@{HOST}:{port}" for index, port in enumerate(quorum_ports))
    replicas = min(3, nodes)
    files = []
    for index, port in enumerate(ports):
        file = folder / f"node-{index + 1}.properties"
        file.write_text(f"""\
process.roles=broker,controller
node.id={index + 1}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{quorum_ports[index]}
advertised.listeners=PLAINTEXT://{HOST}:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data-{index + 1}
num.partitions=1
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
transaction.state.log.min.isr={min(2, replicas)}
default.replication.factor={replicas}
min.insync.replicas={min(2, replicas)}
group.initial.rebalance.delay.ms=0
{more}
""")
        files.append(file)
    return ports, files


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
