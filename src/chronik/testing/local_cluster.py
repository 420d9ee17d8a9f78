"""Settings of a cluster whose nodes all run on this machine: for `chronik up`, tests and the demo.

Nodes listen only on loopback. With three nodes or more, every topic, including internal ones, has three replicas and
needs two in sync. Groups do not wait for more members. The cluster's directory also holds the secret that its nodes
share, because other users of the machine can reach loopback too, and the number of its nodes, to detect a lost node
directory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
REPLICAS_MAX = 3
SECRET_FILE = "quorum-secret"  # noqa: S105 - the file's name
COUNT_FILE = "nodes"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def local_cluster(directory: Path, ports: Sequence[int], quorum_ports: Sequence[int]) -> list[dict[str, str]]:
    """The settings of each node. A single node keeps its data in the directory itself."""
    count = len(ports)
    replicas = min(REPLICAS_MAX, count)
    in_sync = min(2, replicas)
    secret_file = _secret_file(directory) if count > 1 else None
    if count > 1:
        (directory / COUNT_FILE).write_text(f"{count}\n")
    voters = ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in enumerate(quorum_ports, 1))
    made = []
    for node_id, port in enumerate(ports, 1):
        client = f"PLAINTEXT://{HOST}:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": client,
            "advertised.listeners": client,
            "log.dirs": str(directory),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
            "group.initial.rebalance.delay.ms": "0",
        }
        if count > 1:
            settings |= {
                "listeners": f"{client},CONTROLLER://{HOST}:{quorum_ports[node_id - 1]}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": voters,
                "chronik.quorum.secret.file": str(secret_file),
                "log.dirs": str(node_directory(directory, node_id)),
                "default.replication.factor": str(replicas),
                "min.insync.replicas": str(in_sync),
            }
        made.append(settings)
    return made


def _secret_file(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / SECRET_FILE
    with contextlib.suppress(FileExistsError), open(os.open(path, NEW, 0o600), "w") as file:
        file.write(f"{secrets.token_hex(32)}\n")
    return path


def node_directory(directory: Path, node_id: int) -> Path:
    return directory / f"node-{node_id}"


class Found(NamedTuple):
    """The contents of a cluster's directory."""

    node_count: int  # 0 if there is no cluster yet
    is_certain: bool  # False: the count is the highest number of a node directory
    lost: tuple[int, ...]  # nodes without data


def find_cluster(directory: Path) -> Found:
    present = {
        int(number)
        for each in directory.glob("node-*")
        if (number := each.name.removeprefix("node-")).isdigit() and _has_data(each)
    }
    if not present:
        return Found(0, is_certain=True, lost=())
    with contextlib.suppress(OSError, ValueError):
        count = int((directory / COUNT_FILE).read_text())
        return Found(count, is_certain=True, lost=tuple(sorted(set(range(1, count + 1)) - present)))
    count = max(present)
    return Found(count, is_certain=False, lost=tuple(sorted(set(range(1, count + 1)) - present)))


def _has_data(node: Path) -> bool:
    return (node / "meta.properties").exists()


def why_not_here(directory: Path, count: int) -> str | None:
    """Why this number of nodes cannot start on this data; None if it can."""
    if _has_data(directory):
        if count == 1:
            return None
        return f"{directory} holds the data of one node: start it with --nodes 1, or give the cluster another --data"
    found = find_cluster(directory)
    if not found.node_count:
        return None
    if count != found.node_count:
        reason = f"{directory} holds the data of {found.node_count} nodes: start it with --nodes {found.node_count}"
        if count > found.node_count and not found.is_certain:
            reason += f"; if the cluster had {count} nodes and lost some, write {count} into {directory / COUNT_FILE}"
        return reason
    majority = count // 2 + 1
    if count - len(found.lost) < majority:
        lost = ", ".join(f"node-{node_id}" for node_id in found.lost)
        return (
            f"{directory} lacks the data of {lost}, and {majority} of {count} nodes must have theirs to elect a "
            "controller: restore a missing directory from a copy, or give the cluster another --data"
        )
    return None
