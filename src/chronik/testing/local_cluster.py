"""Settings of a cluster whose nodes all run on this machine, with every default right for it: `up`, tests, the demo.

Loopback only. With three nodes or more every topic has three replicas, two of which must be in sync; internal topics
too. Groups do not wait for latecomers. The quorum's ports are free ones unless given. The nodes share a secret, drawn
once for a directory and kept there: other users of the machine can reach loopback too.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

HOST = "127.0.0.1"
REPLICAS_MAX = 3
SECRET_FILE = "quorum-secret"  # noqa: S105 - the file's name
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def local_cluster(directory: Path, ports: Sequence[int], quorum_ports: Sequence[int]) -> list[dict[str, str]]:
    """One node's settings after the other; a node alone keeps its data in the directory itself."""
    count = len(ports)
    replicas = min(REPLICAS_MAX, count)
    in_sync = min(2, replicas)
    secret_file = _secret_file(directory) if count > 1 else None
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


def why_not_here(directory: Path, count: int) -> str | None:
    """What is wrong with starting so many nodes on this data; None when nothing is."""
    was_one = (directory / "meta.properties").exists()
    were_many = sum(1 for each in directory.glob("node-*") if (each / "meta.properties").exists())
    if was_one and count > 1:
        return f"{directory} holds the data of one node: start it with --nodes 1, or give the cluster another --data"
    if were_many and were_many != count:
        return f"{directory} holds the data of {were_many} nodes: start it with --nodes {were_many}"
    return None
