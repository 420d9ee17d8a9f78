"""Long computations as generators, so that their caller decides when to run other work.

A generator yields the number of pieces done since its last yield; a piece takes about ten microseconds. It never yields
inside a section that must be atomic. The caller handles time and loop iterations; the computation does not.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from types import GeneratorType
from typing import Any, Protocol, TypeVar

I = TypeVar("I")  # noqa: E741 - an item
T = TypeVar("T")
Work = Generator[int, None, T]


class Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


S = TypeVar("S", bound=Ordered)

PIECES_PER_SLICE = 256  # a few milliseconds
ITEMS_PER_RUN = 512  # sorted at once
ITEMS_PER_PIECE = 16  # for a loop with minimal work per item


def each(make: Callable[[I], T], items: Iterable[I], pieces: int = 1) -> Work[list[T]]:
    """`make` of each item; each costs `pieces` pieces."""
    made = []
    for item in items:
        made.append(make(item))
        yield pieces
    return made


def each_light(make: Callable[[I], T], items: Iterable[I]) -> Work[list[T]]:
    """Like `each`, for items that take a microsecond or two."""
    made = []
    for number, item in enumerate(items):
        made.append(make(item))
        if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
            yield 1
    return made


def in_order(items: Iterable[S]) -> Work[list[S]]:
    """In ascending order. Sorting a hundred thousand items at once takes a tenth of a second."""
    rest = iter(items)
    runs = []
    while run := sorted(islice(rest, ITEMS_PER_RUN)):
        runs.append(run)
        yield 1 + len(run) // ITEMS_PER_PIECE
    if len(runs) < 2:
        return runs[0] if runs else []
    return (yield from each_light(_as_it_is, heapq.merge(*runs)))


def _as_it_is(item: I) -> I:
    return item


def at_once(work: Work[T]) -> T:
    """Runs a computation to its end without pauses; returns the result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def slice_of(work: Work[None]) -> bool:
    """Continues a computation for a few milliseconds. False: it has ended."""
    done = 0
    for pieces in work:
        done += pieces
        if done >= PIECES_PER_SLICE:
            return True
    return False


async def in_slices(work: Work[T]) -> T:
    """Runs a computation, and lets the loop run other work in between; returns the result."""
    while True:
        done = 0
        try:
            while done < PIECES_PER_SLICE:
                done += next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def is_work(answer: object) -> bool:
    return type(answer) is GeneratorType
