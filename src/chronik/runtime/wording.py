"""Formats numbers for messages."""

from __future__ import annotations

from typing import Final

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
SECONDS_PER: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def counted(count: int, noun: str, plural: str = "") -> str:
    """1 record, 2 records, 0 records."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"


def is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def human_bytes(size_bytes: int) -> str:
    """For people: 1023 B, 1.5 KiB, 20 MiB."""
    value = float(size_bytes)
    for unit in UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {UNITS[-1]}"


def human_count(count: int) -> str:
    return f"{count:,}"


def human_duration(duration_ms: int) -> str:
    """The two largest relevant units: 850ms, 4.2s, 3m 20s, 2d 4h."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms < 60_000:
        return f"{duration_ms / 1000:.1f}s"
    left_s = duration_ms // 1000
    parts = []
    for unit, unit_s in SECONDS_PER:
        count, left_s = divmod(left_s, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
