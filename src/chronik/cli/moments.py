"""Places in a log as users write them: earliest, latest, an offset, or a time.

A time is ISO 8601 with its zone (2026-03-01T12:00:00+01:00, or Z), or how long ago (90s ago, 2h ago). A time without
zone is refused: two people in two countries would read different records with the same command.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from chronik.cli.errors import Misused
from chronik.cli.output import EPOCH

if TYPE_CHECKING:
    from chronik.client.consumer import Start

UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)\s+ago")


def parse_place(text: str, option: str, now_ms: int) -> Start:
    """What a consumer starts from."""
    from chronik.client.consumer import EARLIEST, LATEST, AtTime

    word = text.strip().lower()
    if word == "earliest":
        return EARLIEST
    if word == "latest":
        return LATEST
    if word.isascii() and word.isdigit():
        return int(word)
    if ago := _AGO.fullmatch(word):
        return AtTime(now_ms - int(ago[1]) * UNITS_MS[ago[2]])
    return AtTime(parse_time(text, option))


def parse_time(text: str, option: str) -> int:
    """Milliseconds since 1970."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Misused(
            f"{option} {text!r}: write earliest, latest, an offset, a time such as 2026-03-01T12:00:00+01:00, or 2h ago"
        ) from None
    if time.tzinfo is None:
        raise Misused(f"{option} {text!r}: say in which zone, as in {time.isoformat()}Z or {time.isoformat()}+01:00")
    return (time - EPOCH) // timedelta(milliseconds=1)
