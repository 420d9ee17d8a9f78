"""`chronik server FILE`: one node in the foreground, on Kafka's own configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from chronik.broker.node import Node

EXIT_BAD_SETTING = 2


def server(
    file: Path | None = None,
    /,
    *,
    override: Annotated[list[str] | None, Parameter(name=["--override", "-o"], negative="")] = None,
    log_level: str = "INFO",
    until_stdin_ends: bool = False,
) -> int:
    """Run one node in the foreground.

    FILE is an unchanged KRaft server.properties; its directory is formatted on first start. KAFKA_* environment
    variables override the file (KAFKA_LOG_DIRS sets log.dirs), and --override key=value overrides both.

    Parameters
    ----------
    file
        server.properties; without it every setting has its default.
    override
        key=value, may be given many times.
    log_level
        DEBUG, INFO, WARNING or ERROR.
    until_stdin_ends
        Stop when standard input ends: for programs that start nodes and must not leave any behind.
    """
    from chronik.broker.errors import BrokerError
    from chronik.broker.process import log_to_stderr, run
    from chronik.broker.settings import Settings

    log_to_stderr(log_level)
    overrides = dict(item.partition("=")[::2] for item in override or [])
    try:
        settings = Settings.load(str(file) if file else None, environment=os.environ, overrides=overrides)
    except BrokerError as fault:
        print(f"chronik server: {fault}", file=sys.stderr)
        return EXIT_BAD_SETTING
    return run(settings, _say_ready, until_stdin_ends=until_stdin_ends)


def _say_ready(node: Node) -> None:
    """One line on standard output, for people and for programs that start a node with port 0."""
    first = next(iter(node.listeners.values()))
    print(f"ready on {first.host}:{first.port}", flush=True)
