"""From a command to a cluster and back to an exit code: one event loop, one client, one way to fail.

Every command that talks to a cluster takes `Options` and runs its work through `run`. The work returns an exit code or
None, or raises; `main` alone prints what was raised and ends the process. Ctrl-C ends quietly with 130.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused, NoBroker

if TYPE_CHECKING:
    from rich.status import Status

    from chronik.client.routing import Cluster

EXIT_CODES: Final = """\
Exit codes: 0 done; 1 the cluster refused, or what was named is not there;
2 the command makes no sense; 3 no broker was reached; 130 interrupted."""

DONE, REFUSED, MISUSED, INTERRUPTED = 0, 1, 2, 130
PROGRESS_AFTER_S: Final = 2

Format = Literal["table", "json"]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Options:
    """What every command takes."""

    bootstrap: Annotated[
        str, Parameter(name=["--bootstrap", "--bootstrap-server", "--bootstrap-servers"], env_var="CHRONIK_BOOTSTRAP")
    ] = "localhost:9092"
    """Brokers to ask first: host:port, several with commas; localhost:9092 when left out."""

    format: Format = "table"
    """table for people (when left out), json for programs."""

    @property
    def wants_json(self) -> bool:
        return self.format == "json"


DEFAULTS: Final = Options()


def run(options: Options, work: Callable[[Cluster], Awaitable[int | None]]) -> int:
    """Runs `work` with a client of the cluster named by `options`; the exit code."""
    from chronik.client.errors import BadAddress, ClientError, Unreachable

    try:
        return run_loop(_connected(options, work))
    except BadAddress as error:
        raise Misused(f"--bootstrap: {error}") from error
    except Unreachable as error:
        raise NoBroker(f"{error} Asked: {options.bootstrap} (--bootstrap or CHRONIK_BOOTSTRAP).") from error
    except ClientError as error:
        raise CommandFailed(str(error)) from error


def run_loop(work: Awaitable[int]) -> int:
    import uvloop

    async def main() -> int:
        return await work

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())


async def _connected(options: Options, work: Callable[[Cluster], Awaitable[int | None]]) -> int:
    from chronik.client.routing import Cluster
    from chronik.runtime.real import real_runtime

    async with Cluster(real_runtime(), options.bootstrap, client_id="chronik-cli") as cluster:
        await cluster.to_any()  # a cluster that is not there at all is told at once; later faults are tried again
        return await work(cluster) or DONE


def complain(message: str) -> None:
    """One line on stderr, in red where that can be seen."""
    start, end = ("\033[31m", "\033[0m") if sys.stderr.isatty() and "NO_COLOR" not in os.environ else ("", "")
    print(f"{start}chronik: {message}{end}", file=sys.stderr)


class Progress:
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
def progress(what: str) -> Iterator[Progress]:
    shown = Progress(what)
    try:
        yield shown
    finally:
        shown.stop()
