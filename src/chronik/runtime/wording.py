"""Numbers in messages that people read."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """1 record, 2 records, 0 records."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"


def is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
