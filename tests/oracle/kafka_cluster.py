"""A real Kafka of three nodes, from the jars, with the same faults as a Chronik of `chronik.testing`.

    with KafkaCluster(tmp_path) as kafka: ... kafka.bootstrap ... kafka.kill(1); kafka.start_again(1)

Every node is broker and controller. It shows whether a client's behaviour under faults is caused by the client.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from chronik.testing.ports import free_ports
from tests.oracle.kafka_server import RELEASE, KafkaServer

NODES = 3
# As Cluster of chronik.testing has them.
SETTINGS = {
    "default.replication.factor": "3",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "log.retention.ms": "-1",
}


class KafkaCluster:
    def __init__(self, folder: Path, *, release: str = RELEASE, settings: Mapping[str, str] | None = None) -> None:
        self.ports, controller_ports = free_ports(NODES), free_ports(NODES)
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controller_ports, 1))
        self._nodes = [
            _Node(
                folder / str(number),
                number,
                port,
                controller_port,
                release=release,
                settings={**SETTINGS, **(settings or {}), "controller.quorum.voters": voters},
            )
            for number, (port, controller_port) in enumerate(zip(self.ports, controller_ports, strict=True), 1)
        ]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def kill(self, node_id: int) -> None:
        self._nodes[node_id - 1].stop()

    def start_again(self, node_id: int) -> None:
        self._nodes[node_id - 1].restart()

    def pause(self, node_id: int) -> None:
        self._nodes[node_id - 1].signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        self._nodes[node_id - 1].signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(NODES) as pool:  # the first one is up only when others are there
            list(pool.map(_Node.start, self._nodes))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self._nodes:
            node.stop()


class _Node(KafkaServer):
    """One of several: its ports are known to the others, so it never takes other ones."""

    def __init__(
        self,
        folder: Path,
        node_id: int,
        port: int,
        controller_port: int,
        *,
        release: str,
        settings: Mapping[str, str],
    ) -> None:
        listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}"
        own = {
            "node.id": str(node_id),
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        }
        super().__init__(folder, release=release, settings={**settings, **own})
        self._known_port = port

    def signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _properties(self, controller_port: int) -> str:
        self.port = self._known_port
        return super()._properties(controller_port)
