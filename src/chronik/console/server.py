"""The console's process: a socket, uvicorn, and an end that closes everything."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from chronik.console.app import Console
from chronik.console.settings import BadConsoleSetting, ConsoleSettings, Listening
from chronik.runtime.real import real_runtime

BACKLOG: Final = 128
HEAD_S: Final = 30
CLOSE_S: Final = 2  # for answers that are under way; streams have no end of their own


def bind(listening: Listening) -> socket.socket:
    """Raises BadConsoleSetting."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((listening.host, listening.port))
        listener.listen(BACKLOG)
    except OSError as fault:
        listener.close()
        where = f"{listening.host}:{listening.port}"
        raise BadConsoleSetting(
            f"cannot listen on {where}: {fault.strerror or fault}; choose another --port"
        ) from fault
    return listener


class Connection(H11Protocol):
    """Has HEAD_S for the head of each request: a few hundred connections that send nothing, or a byte now and then,
    would otherwise keep everyone out."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit is not None:
            self._limit.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def _expect_request(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.call_later(HEAD_S, self._end_if_silent)

    def _end_if_silent(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            self.transport.abort()


class Server(uvicorn.Server):
    """Leaves signals to `serve`: uvicorn sends itself those that it took once more before anything else can be closed,
    which ends this process with its queries and runs still going on."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()


async def serve(
    settings: ConsoleSettings,
    listener: socket.socket,
    started: Callable[[Console], None],
    until: Callable[[], None] | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, or until `until` returns, which runs in a thread."""
    console = Console(real_runtime(), settings, listener.getsockname()[1])
    listening = settings.listening
    config = uvicorn.Config(
        console,
        loop="none",
        http=Connection,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=HEAD_S,
        timeout_graceful_shutdown=CLOSE_S,
        limit_concurrency=256,
        h11_max_incomplete_event_size=32 << 10,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
    )
    server = Server(config)

    def stop() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stop)
    console.start()
    started(console)
    waiting = None
    if until is not None:

        async def end_with_parent() -> None:
            await asyncio.get_running_loop().run_in_executor(None, until)
            stop()

        waiting = asyncio.ensure_future(end_with_parent())
    try:
        await server.serve(sockets=[listener])
    finally:
        if waiting is not None:
            waiting.cancel()
        await console.close()


def run(
    settings: ConsoleSettings,
    listener: socket.socket,
    started: Callable[[Console], None],
    until: Callable[[], None] | None = None,
) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(settings, listener, started, until))
