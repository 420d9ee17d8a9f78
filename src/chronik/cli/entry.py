"""Where the `chronik` command begins. `chronik server FILE` takes a short way; the parser in `main` reads all others.

Supervisors run `chronik server FILE`, and a cluster that restarts waits for it. Importing the parser would take a tenth
of that start, so this module imports neither the parser nor any command that was not typed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chronik.broker.node import Node

EXIT_BAD_SETTING: Final = 2
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def main() -> None:
    match sys.argv[1:]:
        case ["server", file] if not file.startswith("-"):
            sys.exit(serve(file))
        case _:
            from chronik.cli.main import main as parse_and_run

            parse_and_run()


def serve(
    file: str | None,
    overrides: Sequence[str] = (),
    log_level: str = "INFO",
    log_format: str = "text",
    *,
    until_stdin_ends: bool = False,
) -> int:
    """One node in the foreground until a signal ends it; the exit code."""
    from chronik.broker.errors import BrokerError
    from chronik.broker.process import log_to_stderr, run
    from chronik.broker.settings import Settings
    from chronik.cli.naming import parse_settings

    given = parse_settings(overrides, "--override")
    log_to_stderr(parse_log_level(log_level), log_format)
    try:
        settings = Settings.load(file, environment=os.environ, overrides=given)
    except BrokerError as fault:
        print(f"chronik server: {fault}", file=sys.stderr)
        return EXIT_BAD_SETTING
    return run(settings, _say_ready, until_stdin_ends=until_stdin_ends, environment=os.environ)


def parse_log_level(text: str) -> str:
    """The level under logging's own name; any case is accepted."""
    from chronik.cli.errors import Misused

    level = text.strip().upper()
    if level not in LOG_LEVELS:
        raise Misused(f"--log-level {text!r}: write one of {', '.join(LOG_LEVELS)}, in any case")
    return level


def _say_ready(node: Node) -> None:
    """One line on standard output, for people and for programs that start a node with port 0."""
    first = next(iter(node.listeners.values()))
    print(f"ready on {first.host}:{first.port}", flush=True)
