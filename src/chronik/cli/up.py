"""`chronik up`: a broker in the foreground with every default right, for a laptop or a small machine."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chronik.broker.node import Node

EXIT_USAGE = 2
HOST = "127.0.0.1"


def up(*, nodes: int = 1, port: int = 9092, data: Path | None = None, log_level: str = "WARNING") -> int:
    """Start a broker here and keep it in the foreground; Ctrl-C stops it cleanly.

    Any Kafka client works with the address that is printed. Everything that is acknowledged is on disk.

    Examples
    --------
    chronik up                       a broker for an hour of work; its data goes when it stops
    chronik up --data ~/chronik      keeps its data: the next `chronik up --data ~/chronik` goes on from there
    chronik up --port 0              on any free port

    Parameters
    ----------
    nodes
        How many nodes; more than one needs replication between nodes, which this release does not have.
    port
        The port for clients, on loopback only.
    data
        Where to keep data; without it a temporary directory that is removed at the end.
    log_level
        DEBUG, INFO, WARNING or ERROR.
    """
    from chronik.broker.errors import BrokerError
    from chronik.broker.process import log_to_stderr, run
    from chronik.broker.settings import Settings

    if nodes != 1:
        print("chronik up: this release runs one node; replication between nodes comes next", file=sys.stderr)
        return EXIT_USAGE
    log_to_stderr(log_level)
    directory = data.expanduser().absolute() if data else Path(tempfile.mkdtemp(prefix="chronik-"))
    try:
        settings = Settings.load(None, environment={}, overrides=quick_settings(directory, port))
        return run(settings, lambda node: _say_ready(node, directory, keeps=data is not None))
    except BrokerError as fault:
        print(f"chronik up: {fault}", file=sys.stderr)
        return EXIT_USAGE
    finally:
        if data is None:
            shutil.rmtree(directory, ignore_errors=True)


def quick_settings(directory: Path, port: int) -> dict[str, str]:
    """One node that needs no other: internal topics with one replica, groups that do not wait for latecomers."""
    listener = f"PLAINTEXT://{HOST}:{port}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": listener,
        "advertised.listeners": listener,
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _say_ready(node: Node, directory: Path, *, keeps: bool) -> None:
    print(f"bootstrap.servers  {HOST}:{node.port()}")
    print(f"data               {directory}{'' if keeps else '  (temporary: removed at the end; keep it with --data)'}")
    print("ready              Ctrl-C stops", flush=True)
