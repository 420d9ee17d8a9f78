"""`--watch [SECONDS]`: a command that shows something shows it again and again, until Ctrl-C, which ends it with 0.

On a terminal each round replaces the one before. Elsewhere rounds follow each other: with `--format json` each is one
document. The first round fails as the command would without `--watch`; a later one says why it failed, and the next one
tries again.
"""

from __future__ import annotations

import asyncio
import io
import re
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from typing import TYPE_CHECKING, Final

from chronik.cli.complaining import complain
from chronik.cli.errors import CommandError, Misused
from chronik.cli.options import WATCH_DEFAULTS as WATCH_DEFAULTS
from chronik.cli.options import WatchOptions as WatchOptions
from chronik.cli.session import DONE, run, watched

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

PERIOD_S: Final = 2
PERIOD_S_MIN: Final = 0.1
PERIOD_S_MAX: Final = 86_400
HOME_AND_CLEAR: Final = "\033[H\033[2J"
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")


def with_periods(words: Sequence[str]) -> list[str]:
    """`--watch` without a number gets its default, because the parser knows no options with optional values."""
    found: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*found, *words[place:]]
        has_number = _NUMBER.fullmatch(words[place + 1]) if place + 1 < len(words) else None
        found.append(f"--watch={PERIOD_S}" if word == "--watch" and not has_number else word)
    return found


def show(
    options: WatchOptions, work: Callable[[ClusterClient], Awaitable[int | None]], *, is_patient: bool = False
) -> int:
    """As `run`, and again and again if the user wants to watch."""
    period_s = _period_s(options)
    if period_s is None:
        return run(options, work, is_patient=is_patient)

    async def rounds(cluster: ClusterClient) -> None:
        from chronik.client.errors import ClientError

        is_first = True
        while True:
            with _one_round(period_s):
                try:
                    await (work(cluster) if is_patient else watched(cluster, work(cluster)))
                except (ClientError, CommandError) as error:
                    if is_first:
                        raise
                    complain(str(error))
            is_first = False
            await asyncio.sleep(period_s)

    try:
        return run(options, rounds, is_patient=True)
    except KeyboardInterrupt:
        return DONE


def show_blocking(options: WatchOptions, work: Callable[[], None]) -> int:
    """`show` for work that runs its own loop. An error ends it in any round."""
    period_s = _period_s(options)
    try:
        while period_s is not None:
            with _one_round(period_s):
                work()
            time.sleep(period_s)
    except KeyboardInterrupt:
        return DONE
    work()
    return DONE


def _period_s(options: WatchOptions) -> float | None:
    period_s = options.watch
    if period_s is not None and not PERIOD_S_MIN <= period_s <= PERIOD_S_MAX:
        raise Misused(f"--watch {period_s:g}: use {PERIOD_S_MIN:g} to {PERIOD_S_MAX:,} seconds")
    return period_s


@contextmanager
def _one_round(period_s: float) -> Iterator[None]:
    """What is printed within appears at once when the round is complete, so that a screen does not flicker."""
    screen = sys.stdout
    if not screen.isatty():
        yield
        screen.flush()
        return
    drawn = _Screen()
    with redirect_stdout(drawn), redirect_stderr(drawn):
        yield
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    title = f"every {period_s:g} s, Ctrl-C ends  {now}"
    size = shutil.get_terminal_size()
    lines = drawn.getvalue().splitlines()
    room = max(1, size.lines - 3)
    if len(lines) > room:
        lines = [*lines[: room - 1], f"{len(lines) - room + 1} more lines do not fit on this terminal"]
    screen.write(HOME_AND_CLEAR + "\n".join([title[: size.columns], "", *lines]) + "\n")
    screen.flush()


class _Screen(io.StringIO):
    """Collects what is meant for a terminal."""

    def isatty(self) -> bool:
        return True
