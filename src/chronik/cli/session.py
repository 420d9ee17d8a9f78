"""From a command to a cluster and back to an exit code: one event loop, one client, one way to fail.

Every command that talks to a cluster takes `Options` and runs its work through `run`. The work returns an exit code or
None, or raises; `main` alone prints what was raised and ends the process. Ctrl-C ends quietly with 130.

A command that takes longer than a second looks whether the metadata quorum is lost. If so it ends and says which voters
answer: no attempt can succeed, and the error of the last one would name something else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from chronik.cli.complaining import complain as complain
from chronik.cli.contexts import CONTEXT
from chronik.cli.errors import CommandFailed, Misused, NoBroker
from chronik.cli.options import DEFAULTS as DEFAULTS
from chronik.cli.options import CommandConfig as CommandConfig
from chronik.cli.options import Options as Options

if TYPE_CHECKING:
    from rich.status import Status

    from chronik.client.routing import ClusterClient

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused, or not found; 2 invalid command line; 3 no broker reached; 130 interrupted."
)

DONE, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130
PROGRESS_AFTER_S: Final = 2
LOOK_EVERY_S: Final = 1

T = TypeVar("T")


def run(options: Options, work: Callable[[ClusterClient], Awaitable[int | None]], *, is_patient: bool = False) -> int:
    """Runs `work` with a client of the cluster named by `options`; the exit code.

    `is_patient` is for work that goes on without a quorum, as reading and writing records does once it has begun.
    """
    from chronik.client.errors import BadAddress, ClientError, Unreachable

    try:
        return run_loop(_connected(options, work, is_patient=is_patient))
    except BadAddress as error:
        raise Misused(f"--bootstrap: {error}") from error
    except Unreachable as error:
        raise not_reached(error, options.bootstrap) from error
    except ClientError as error:
        raise CommandFailed(str(error)) from error


def not_reached(error: Exception, bootstrap: str) -> NoBroker:
    end = "" if str(error).endswith(("?", ".")) else "."
    context = os.environ.get(CONTEXT)
    source = f"context {context}" if context else "--bootstrap or CHRONIK_BOOTSTRAP"
    return NoBroker(f"{error}{end} Asked: {bootstrap} ({source})")


def run_loop(work: Awaitable[int]) -> int:
    """Runs `work` in an event loop of its own. The first Ctrl-C cancels it, the second ends it wherever it is.

    The event loop cancels it, between two steps. A task that is cancelled while it runs, as asyncio does on SIGINT, may
    enter `asyncio.timeout` before it hears of that; if the time is up first, the cancellation is lost.
    """
    import uvloop

    is_interrupted = False
    before = signal.getsignal(signal.SIGINT)

    async def main() -> int:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt(*_: object) -> None:
            nonlocal is_interrupted
            if is_interrupted:
                raise KeyboardInterrupt
            is_interrupted = True
            loop.call_soon_threadsafe(task.cancel)

        if before is signal.default_int_handler:  # a background job of a shell ignores Ctrl-C
            signal.signal(signal.SIGINT, interrupt)
        return await work

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())
    except asyncio.CancelledError:
        if is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


async def _connected(
    options: Options, work: Callable[[ClusterClient], Awaitable[int | None]], *, is_patient: bool
) -> int:
    from chronik.client.errors import ClientError, DeliveryFailed
    from chronik.client.properties import secured_client
    from chronik.runtime.real import real_runtime

    connected = secured_client(real_runtime(), options.bootstrap, options.security(), client_id="chronik-cli")
    async with connected as cluster:
        await _reach(cluster)  # a cluster that is not there at all is told at once; later faults are tried again
        try:
            return await (work(cluster) if is_patient else watched(cluster, work(cluster))) or DONE
        except ClientError as error:
            cause = error.cause if isinstance(error, DeliveryFailed) else error
            if not cause.retriable:
                raise
            await _explain(cluster, error)
            raise


async def _reach(cluster: ClusterClient) -> None:
    """Returns when a broker answers. An HTTP server never would: it waits for the end of a request that has none."""
    from chronik.client.admin.status import why_not_kafka
    from chronik.client.errors import Unreachable

    reaching = asyncio.ensure_future(cluster.to_any())
    try:
        await asyncio.wait([reaching], timeout=LOOK_EVERY_S)
        if not reaching.done() or isinstance(reaching.exception(), Unreachable):
            asked = (why_not_kafka(cluster.network, address, LOOK_EVERY_S) for address in cluster.bootstrap)
            for reason in await asyncio.gather(*asked):
                if reason is not None and not (reaching.done() and reaching.exception() is None):
                    raise NoBroker(reason)
        await reaching
    finally:
        reaching.cancel()
        await asyncio.wait([reaching])


async def watched(cluster: ClusterClient, work: Awaitable[T]) -> T:
    """The result of `work`. Raises QuorumLost instead as soon as the quorum is lost."""
    from chronik.client.admin.vigil import unless_quorum_lost

    return await unless_quorum_lost(cluster, work)


async def _explain(cluster: ClusterClient, error: Exception) -> None:
    """Raises the cause of an error that the missing controller has brought about, if that is what it is."""
    from chronik.client.admin.survey import survey

    seen = await survey(cluster)
    if seen is not None:
        raise CommandFailed(f"{seen}. `chronik cluster status` shows every node") from error


def confirm(question: str) -> None:
    """Asks a person before something that cannot be undone. Without a terminal nobody is asked."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("Nothing was changed.")


class StatusLine:
    """What is going on, said on stderr once it takes longer than two seconds; only where somebody looks on."""

    def __init__(self, what: str) -> None:
        self._status: Status | None = None
        self._timer: asyncio.TimerHandle | None = None
        if sys.stderr.isatty():
            self._timer = asyncio.get_running_loop().call_later(PROGRESS_AFTER_S, self._start)
        self._what = what

    def say(self, what: str) -> None:
        """Changes the words, for work that knows how far it is."""
        self._what = what
        if self._status is not None:
            self._status.update(what)

    def stop(self) -> None:
        """There is something better to look at."""
        if self._timer is not None:
            self._timer.cancel()
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _start(self) -> None:
        from rich.console import Console
        from rich.status import Status

        self._status = Status(self._what, console=Console(stderr=True))
        self._status.start()


@contextmanager
def progress(what: str) -> Iterator[StatusLine]:
    shown = StatusLine(what)
    try:
        yield shown
    finally:
        shown.stop()
