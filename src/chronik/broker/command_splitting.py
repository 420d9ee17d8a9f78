"""Splits large requests to the controller into several commands, because it does nothing else while it decides one.

Equal items, such as a topic that is named twice, stay in one command.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")

PER_COMMAND = 500


def some_at_a_time(items: Sequence[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Keeps the given order up to PER_COMMAND items. Beyond that, items with equal keys stay together."""
    if len(items) <= PER_COMMAND:
        return [list(items)]
    together: dict[Hashable, list[T]] = {}
    for item in items:
        together.setdefault(key(item), []).append(item)
    parts: list[list[T]] = [[]]
    for equal in together.values():
        if len(parts[-1]) >= PER_COMMAND:
            parts.append([])
        parts[-1] += equal
    return parts
