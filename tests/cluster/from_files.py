"""Nodes as processes, each with the server.properties of `chronik init`: the files are changed, and nodes restarted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from chronik.broker.settings.properties import parse_properties
from chronik.security.client_settings import properties_text
from chronik.testing.cluster_files import Place
from chronik.testing.ports import free_ports
from chronik.testing.processes import NodeProcess

# Ports of this machine that no test knows beforehand, and which the files do not name.
WITHOUT_ADMIN = {"chronik.admin.listener": "none", "group.initial.rebalance.delay.ms": "0"}


def free_places(count: int) -> list[Place]:
    ports = free_ports(2 * count)
    return [Place("127.0.0.1", ports[2 * index], ports[2 * index + 1]) for index in range(count)]


def place_words(places: Sequence[Place]) -> list[str]:
    """For `chronik init`: these places instead of the usual ports."""
    return [word for place in places for word in ("--host", place.address, "--quorum-port", str(place.quorum_port))]


class FromFiles:
    def __init__(self, files: Sequence[Path]) -> None:
        self.files = list(files)
        self._processes: dict[int, NodeProcess] = {}

    def __enter__(self) -> FromFiles:
        try:
            self.start(*range(1, len(self.files) + 1))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, *node_ids: int) -> None:
        """All at once, and returns when all are ready."""
        for node_id in node_ids:
            self._processes[node_id] = NodeProcess.start(WITHOUT_ADMIN, file=self.files[node_id - 1])
        for node_id in node_ids:
            assert self._processes[node_id].wait_ready() is not None, f"node {node_id} did not start: see its log"

    def stop(self, node_id: int) -> None:
        process = self._processes.pop(node_id)
        process.stop()
        process.wait()

    def restart(self, node_id: int) -> None:
        self.stop(node_id)
        self.start(node_id)

    def change(self, node_id: int, changes: Mapping[str, str | None]) -> None:
        """The file of a node; None removes a key. The node reads it when it starts."""
        file = self.files[node_id - 1]
        settings = {**parse_properties(file.read_text()), **changes}
        file.write_text(properties_text({key: value for key, value in settings.items() if value is not None}))

    def close(self) -> None:
        for process in self._processes.values():
            process.stop()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()
