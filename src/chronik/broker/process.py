"""A node as a process: event loop, signals, log lines, exit code. It gives the node the real machine."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import uvloop

from chronik.broker.errors import BadSetting, BrokerError, NotRegistered
from chronik.broker.lasting_objects import LastingObjects
from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.broker.settings.exposure import require_kept
from chronik.runtime.descriptors import raise_limit
from chronik.runtime.freed_memory import keep_freed_memory
from chronik.runtime.real import real_runtime
from chronik.runtime.service_manager import ServiceManager

# Number of allocations between two runs of the collector's youngest generation. Requests create many objects and few
# cycles: with the default of 700 the collector runs for every tenth request and finds nothing. 20,000 objects take at
# most some megabytes.
YOUNG_OBJECTS_MAX = 20_000
_steering = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
TEXT, JSON = LOG_FORMATS = ("text", "json")
EXIT_OK, EXIT_FAILED, EXIT_CANNOT_START = 0, 1, 2


def run(
    settings: Settings,
    started: Callable[[Node], None] = lambda node: None,
    *,
    until_stdin_ends: bool = False,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Serves until SIGTERM or SIGINT, or until standard input is closed; returns the exit code.

    A service manager in `environment` is notified when the node is registered and when it begins to stop.
    """
    manager = ServiceManager(environment or {})
    return uvloop.run(_serve(settings, started, manager, until_stdin_ends=until_stdin_ends))


async def _serve(
    settings: Settings, started: Callable[[Node], None], manager: ServiceManager, *, until_stdin_ends: bool
) -> int:
    log = logging.getLogger("chronik")
    try:
        require_kept(settings)
    except BadSetting as fault:
        log.error("cannot start: %s", fault)
        return EXIT_CANNOT_START
    raise_limit()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    if until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), stopping.set)
    asked_to_stop = asyncio.ensure_future(stopping.wait())
    starting = asyncio.ensure_future(Node.start(real_runtime(), settings))
    # A node that waits for its quorum can be stopped as well.
    await asyncio.wait([starting, asked_to_stop], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        log.info("stopping before the node was ready")
        starting.cancel()
        await asyncio.wait([starting])
        return EXIT_OK
    try:
        node = starting.result()
    except (BrokerError, OSError) as fault:
        log.error("cannot start: %s", fault)
        return EXIT_FAILED if isinstance(fault, NotRegistered) else EXIT_CANNOT_START
    keep_freed_memory()
    gc.freeze()  # modules and schemas are permanent: later collections need not examine them
    gc.set_threshold(YOUNG_OBJECTS_MAX)
    node.store.subscribe(LastingObjects().changed)
    started(node)
    manager.ready(f"serving on {', '.join(f'{each.host}:{each.port}' for each in node.listeners.values())}")
    waits = [asked_to_stop, asyncio.ensure_future(node.wait_stopped())]
    done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    manager.stopping()
    if waits[1] in done and waits[1].exception() is not None:
        return EXIT_FAILED
    log.info("stopping")
    await node.stop()
    manager.close()
    return EXIT_OK


def escape(text: str) -> str:
    """Escapes characters that end a line, control a terminal or change the direction of text."""
    return _steering.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def log_to_stderr(level: str = "INFO", log_format: str = TEXT) -> None:
    """One line per event, with a time stamp and its time zone; as text, or as a JSON object."""
    handler = logging.StreamHandler(sys.stderr)
    text = _Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    handler.setFormatter(_JsonFormatter() if log_format == JSON else text)
    logging.basicConfig(handlers=[handler], level=level)


class _Formatter(logging.Formatter):
    """One event is one line, even if it quotes text from clients, which may contain line ends and terminal codes. A
    traceback follows indented, so that none of its lines looks like an event."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = escape(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return "\n".join(f"    {escape(line)}" for line in super().formatException(ei).split("\n"))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        return datetime.fromtimestamp(record.created, tz=UTC).astimezone().isoformat(timespec="milliseconds")


class _JsonFormatter(_Formatter):
    """Time, level, logger, message and traceback of an event as one JSON line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["exception"] = logging.Formatter.formatException(self, record.exc_info)
        return json.dumps(event)
