"""`chronik up`: a broker, or a cluster of them, in the foreground with every default right."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from chronik.cli.entry import parse_log_level

if TYPE_CHECKING:
    from chronik.broker.node import Node

EXIT_OK, EXIT_USAGE = 0, 2
PORT_DEFAULT = 9092
HOST = "127.0.0.1"


def up(*, nodes: int = 1, port: int = PORT_DEFAULT, data: Path | None = None, log_level: str = "WARNING") -> int:
    """Start a broker or a cluster here and keep it in the foreground; Ctrl-C stops it cleanly.

    Any Kafka client can use the printed address.

    Acknowledged records are on disk; in a cluster, on every in-sync replica.

    For example:
      chronik up                       one broker; its data is removed at the end
      chronik up --nodes 3             three processes, on ports 9092, 9093 and 9094
      chronik up --data ~/chronik      keep the data; run it again to continue
      chronik up --port 0              on any free port

    Parameters
    ----------
    nodes
        Number of nodes; three survive the loss of one; default: 1.
    port
        Client port of the first node, on loopback; the other nodes use the next ports; default: 9092.
    data
        Data directory; default: a temporary directory that is removed at the end.
    log_level
        DEBUG, INFO, WARNING, ERROR or CRITICAL; default: WARNING.
    """
    from chronik.broker.errors import BrokerError
    from chronik.broker.process import log_to_stderr
    from chronik.testing.local_cluster import why_not_here

    if nodes < 1:
        print("chronik up: --nodes must be 1 or more", file=sys.stderr)
        return EXIT_USAGE
    level = parse_log_level(log_level)
    log_to_stderr(level)
    directory = data.expanduser().absolute() if data else Path(tempfile.mkdtemp(prefix="chronik-"))
    if reason := why_not_here(directory, nodes):
        print(f"chronik up: {reason}", file=sys.stderr)
        return EXIT_USAGE
    try:
        if nodes == 1:
            code = _run_one(directory, port, keeps=data is not None)
        else:
            code = _run_many(directory, nodes, port, keeps=data is not None, log_level=level)
        if code == EXIT_OK:
            print("Stopped.")
        return code
    except BrokerError as fault:
        print(f"chronik up: {fault}", file=sys.stderr)
        return EXIT_USAGE
    finally:
        if data is None:
            shutil.rmtree(directory, ignore_errors=True)


def _run_one(directory: Path, port: int, *, keeps: bool) -> int:
    from chronik.broker.process import run
    from chronik.broker.settings import Settings
    from chronik.testing.local_cluster import local_cluster

    (overrides,) = local_cluster(directory, [port], [])
    settings = Settings.load(None, environment={}, overrides=overrides)

    def started(node: Node) -> None:
        admin = node.admin.listener
        _say_ready([node.port()], directory, keeps=keeps, admin=f"{admin.host}:{admin.port}" if admin else None)

    return run(settings, started)


def _run_many(directory: Path, nodes: int, port: int, *, keeps: bool, log_level: str) -> int:
    from chronik.testing.ports import free_ports
    from chronik.testing.processes import NodeProcess, wait_for_end

    ports = free_ports(nodes) if port == 0 else [port + index for index in range(nodes)]
    from chronik.testing.local_cluster import local_cluster

    started = [
        NodeProcess.start(settings, log_level=log_level)
        for settings in local_cluster(directory, ports, free_ports(nodes))
    ]
    try:
        for process in started:
            if process.wait_ready() is None:
                print("chronik up: a node did not start: see its log above", file=sys.stderr)
                return EXIT_USAGE
        _say_ready(ports, directory, keeps=keeps)
        return wait_for_end(started, lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        for process in started:
            process.stop()
        for process in started:
            process.wait()


def _say_ready(ports: list[int], directory: Path, *, keeps: bool, admin: str | None = None) -> None:
    where = "" if ports[0] == PORT_DEFAULT else f" --bootstrap {HOST}:{ports[0]}"
    print(f"bootstrap.servers  {','.join(f'{HOST}:{port}' for port in ports)}")
    if admin is not None:
        print(f"metrics            http://{admin}/metrics, also /healthz, /readyz and /status")
    print(f"data               {directory}{'' if keeps else '  (temporary: removed at the end; keep it with --data)'}")
    print(f"try                chronik topic create orders{where}")
    print("Ready. Press Ctrl-C to stop.", flush=True)
