"""Positions in a log as users write them: earliest, latest, an offset, or a time.

A time is ISO 8601 with a time zone (2026-03-01T12:00:00+01:00, or Z), or an age (90s ago, 2h ago). A time without a
zone is refused: the same command would read different records in different countries.
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
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_OTHER_UNIT: Final = re.compile(r"\d+\s*[a-zA-Z]+")
_AGO: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)\s+ago")


def with_durations(settings: dict[str, str]) -> dict[str, str]:
    """Settings in milliseconds may be written with a unit: retention.ms=7d. All others stay as they are."""
    return {key: _in_ms(key, value) if key.endswith(".ms") else value for key, value in settings.items()}


def _in_ms(key: str, text: str) -> str:
    if found := _DURATION.fullmatch(text.strip().lower()):
        return str(int(found[1]) * UNITS_MS[found[2]])
    if _OTHER_UNIT.fullmatch(text.strip()):
        raise Misused(f"{key}={text}: write milliseconds, or a duration such as 90s, 15m, 2h or 7d")
    return text


def parse_duration(text: str, option: str) -> int:
    """In milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise Misused(f"{option} {text!r}: write a duration with its unit, such as 90s, 15m or 2h")
    return int(found[1]) * UNITS_MS[found[2]]


def parse_place(text: str, option: str, now_ms: int) -> Start:
    """What a consumer starts from."""
    from chronik.client.consumer import AtTime
    from chronik.wire.offset_specs import EARLIEST, LATEST

    word = text.strip().lower()
    if word == "earliest":
        return EARLIEST
    if word == "latest":
        return LATEST
    if word.isascii() and word.isdigit():
        return int(word)
    return AtTime(parse_time(text, option, now_ms, others="earliest, latest, an offset, "))


def parse_time(text: str, option: str, now_ms: int, *, others: str = "") -> int:
    """Milliseconds since 1970. `others` names what else the option takes, for the message."""
    word = text.strip()
    if ago := _AGO.fullmatch(word.lower()):
        return now_ms - int(ago[1]) * UNITS_MS[ago[2]]
    try:
        time = datetime.fromisoformat(word)
    except ValueError:
        raise Misused(f"{option} {text!r}: write {others}a time such as 2026-03-01T12:00:00+01:00, or 2h ago") from None
    if time.tzinfo is None:
        raise Misused(
            f"{option} {text!r}: add a time zone, for example {time.isoformat()}Z or {time.isoformat()}+01:00"
        )
    return (time - EPOCH) // timedelta(milliseconds=1)
