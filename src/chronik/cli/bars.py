"""A progress bar on stderr for work that counts, shown after two seconds and only on a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from chronik.cli.session import progress

WIDTH: Final = 24
LOOK_EVERY_S: Final = 0.25


class Count(NamedTuple):
    done: int
    total: int
    detail: str = ""


@asynccontextmanager
async def bar(what: str, count: Callable[[], Count]) -> AsyncIterator[None]:
    """`count` is asked while the block runs."""
    with progress(what) as line:

        async def watch() -> None:
            while True:
                line.say(bar_text(what, count()))
                await asyncio.sleep(LOOK_EVERY_S)

        watching = asyncio.ensure_future(watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


def bar_text(what: str, count: Count) -> str:
    share = min(1.0, count.done / count.total) if count.total > 0 else 0.0
    full = round(share * WIDTH)
    end = f", {count.detail}" if count.detail else ""
    return f"{what} {'█' * full}{'░' * (WIDTH - full)} {share:4.0%}{end}"
