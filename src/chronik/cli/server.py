"""`chronik server FILE`: one node in the foreground, on Kafka's own configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from chronik.cli.entry import serve


def server(
    file: Path | None = None,
    /,
    *,
    override: Annotated[list[str] | None, Parameter(name=["--override", "-o"], negative="")] = None,
    log_level: str = "INFO",
    log_format: Literal["text", "json"] = "text",
    until_stdin_ends: bool = False,
) -> int:
    """Run one node in the foreground.

    FILE is an unchanged KRaft server.properties; its directory is formatted on first start. KAFKA_* environment
    variables override the file (KAFKA_LOG_DIRS sets log.dirs), and --override key=value overrides both.

    Parameters
    ----------
    file
        Path of server.properties; default: every setting has its default.
    override
        Setting as key=value; repeatable.
    log_level
        DEBUG, INFO, WARNING, ERROR or CRITICAL; default: INFO.
    log_format
        text, or json: one object per line, with time, level, logger and message; default: text.
    until_stdin_ends
        Stop when standard input ends, for programs that start nodes.
    """
    return serve(str(file) if file else None, override or (), log_level, log_format, until_stdin_ends=until_stdin_ends)
