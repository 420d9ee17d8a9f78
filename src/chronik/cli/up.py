"""`chronik up`: one broker or a local cluster, in the foreground, without a configuration file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from chronik.cli.entry import parse_log_level
from chronik.cli.naming import parse_settings
from chronik.cli.session import complain

if TYPE_CHECKING:
    from chronik.broker.node import Node
    from chronik.console.launching import LazyConsole

EXIT_OK, EXIT_USAGE = 0, 2
PORT_DEFAULT = 9092
CONSOLE_PORT_DEFAULT = 8080
HOST = "127.0.0.1"


def up(
    *,
    nodes: int = 1,
    port: int = PORT_DEFAULT,
    data: Path | None = None,
    override: Annotated[list[str] | None, Parameter(name=["--override", "-o"], negative="")] = None,
    log_level: str = "WARNING",
    console_port: int = CONSOLE_PORT_DEFAULT,
    no_console: bool = False,
    allow_changes: bool = False,
) -> int:
    """Start a broker or a cluster here and keep it in the foreground; Ctrl-C stops it cleanly.

    Any Kafka client can use the printed address. A node of a cluster that dies is started again, and the others go on.

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
    override
        Setting of every node as key=value; repeatable.
    log_level
        DEBUG, INFO, WARNING, ERROR or CRITICAL; default: WARNING.
    console_port
        Port of the web console, on loopback; if it is taken, any free one; default: 8080.
    no_console
        Serve no console.
    allow_changes
        Allow changes in the console; it is read-only otherwise.
    """
    from chronik.broker.errors import BrokerError
    from chronik.broker.process import log_to_stderr
    from chronik.testing.local_cluster import why_not_here

    given = parse_settings(override or (), "--override")
    if nodes < 1:
        print("chronik up: --nodes must be 1 or more", file=sys.stderr)
        return EXIT_USAGE
    level = parse_log_level(log_level)
    log_to_stderr(level)
    directory = data.expanduser().absolute() if data else Path(tempfile.mkdtemp(prefix="chronik-"))
    if reason := why_not_here(directory, nodes):
        print(f"chronik up: {reason}", file=sys.stderr)
        return EXIT_USAGE
    console = None if no_console else _Console(0 if port == 0 else console_port, allows_changes=allow_changes)
    try:
        if nodes == 1:
            code = _run_one(directory, port, given, keeps=data is not None, console=console)
        else:
            code = _run_many(directory, nodes, port, given, keeps=data is not None, log_level=level, console=console)
        if code == EXIT_OK:
            print("Stopped.")
        return code
    except BrokerError as fault:
        print(f"chronik up: {fault}", file=sys.stderr)
        return EXIT_USAGE
    finally:
        if console is not None:
            console.stop()
        if data is None:
            shutil.rmtree(directory, ignore_errors=True)


class _Console:
    """Listens when the cluster is ready, because only then its addresses are known."""

    def __init__(self, port: int, *, allows_changes: bool) -> None:
        self._port, self._allows_changes = port, allows_changes
        self._lazy: LazyConsole | None = None

    def open(self, bootstrap: str) -> str:
        """Its address, or why it has none."""
        from chronik.console.launching import LazyConsole

        try:
            self._lazy = LazyConsole(bootstrap, self._port, allows_changes=self._allows_changes)
        except OSError as fault:
            return f"none: cannot listen on {HOST}: {fault.strerror or fault}"
        return self._lazy.url

    def stop(self) -> None:
        if self._lazy is not None:
            self._lazy.stop()


def _run_one(directory: Path, port: int, given: Mapping[str, str], *, keeps: bool, console: _Console | None) -> int:
    from chronik.broker.process import run
    from chronik.broker.settings import Settings
    from chronik.testing.local_cluster import local_cluster

    (overrides,) = local_cluster(directory, [port], [])
    settings = Settings.load(None, environment={}, overrides={**overrides, **given})

    def started(node: Node) -> None:
        admin = node.admin.listener
        addresses = [f"{admin.host}:{admin.port}"] if admin else []
        _say_ready([node.port()], directory, keeps=keeps, admin=addresses, console=console)

    return run(settings, started)


def _run_many(
    directory: Path,
    nodes: int,
    port: int,
    given: Mapping[str, str],
    *,
    keeps: bool,
    log_level: str,
    console: _Console | None,
) -> int:
    from chronik.broker.settings import Settings
    from chronik.testing.local_cluster import find_cluster, local_cluster
    from chronik.testing.ports import free_ports
    from chronik.testing.processes import NodeProcess, heed_signals, keep_running

    heed_signals()
    for node_id in find_cluster(directory).lost:
        complain(f"{directory} has no data of node {node_id}: it starts empty and copies its replicas from the others")
    ports = free_ports(nodes) if port == 0 else [port + index for index in range(nodes)]
    settings = [{**made, **given} for made in local_cluster(directory, ports, free_ports(nodes))]
    admins = [Settings.load(None, environment={}, overrides=each).admin_listener for each in settings]
    started = [NodeProcess.start(each, log_level=log_level) for each in settings]
    try:
        for process in started:
            if process.wait_ready() is None:
                print(f"chronik up: node {process.node_id} did not start: see its log above", file=sys.stderr)
                return EXIT_USAGE
        admin = [f"{each.host}:{each.port}" for each in admins if each is not None and each.port]
        try:
            _say_ready(ports, directory, keeps=keeps, admin=admin, console=console)
            return keep_running(
                started,
                lambda index: NodeProcess.start(settings[index], log_level=log_level),
                lambda line: print(line, file=sys.stderr, flush=True),
            )
        except KeyboardInterrupt:  # right after the last line was printed
            return 0
    finally:
        for process in started:
            process.stop()
        for process in started:
            process.wait()


def _say_ready(
    ports: list[int], directory: Path, *, keeps: bool, admin: Sequence[str], console: _Console | None
) -> None:
    bootstrap = ",".join(f"{HOST}:{port}" for port in ports)
    where = "" if ports[0] == PORT_DEFAULT else f" --bootstrap {HOST}:{ports[0]}"
    print(f"bootstrap.servers  {bootstrap}")
    if console is not None:
        print(f"console            {console.open(bootstrap)}")
    for number, address in enumerate(admin):
        if number == 0:
            print(f"metrics            http://{address}/metrics, also /healthz, /readyz and /status")
        else:
            print(f"                   http://{address}/metrics")
    print(f"data               {directory}{'' if keeps else '  (temporary: removed at the end; keep it with --data)'}")
    print(f"try                chronik topic create orders{where}")
    print("Ready. Press Ctrl-C to stop.", flush=True)
