"""Long computations as generators, so that whoever runs them decides when to let others work.

A generator yields the number of pieces that it has done since it last did; a piece is some ten microseconds. It never
yields inside a section that has to be atomic. Who runs it knows about time and turns; the computation does not.
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
ITEMS_PER_RUN = 512  # that are sorted at once
ITEMS_PER_PIECE = 16  # of a loop that does next to nothing with each


def each(make: Callable[[I], T], items: Iterable[I], pieces: int = 1) -> Work[list[T]]:
    """`make` of each item; one of them is so many pieces."""
    made = []
    for item in items:
        made.append(make(item))
        yield pieces
    return made


def each_light(make: Callable[[I], T], items: Iterable[I]) -> Work[list[T]]:
    """As `each`, where one item is a microsecond or two."""
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
    """The result of a computation, without a pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def slice_of(work: Work[None]) -> bool:
    """Goes on with a computation for a few milliseconds. False: it has ended."""
    done = 0
    for pieces in work:
        done += pieces
        if done >= PIECES_PER_SLICE:
            return True
    return False


async def in_slices(work: Work[T]) -> T:
    """The result of a computation that others wait for, with turns for the loop in between."""
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
