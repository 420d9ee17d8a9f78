"""A list for a response that creates its elements one by one when it is encoded.

Python's garbage collector examines every instance of a Python class in each full run, so hundreds of thousands of
structs in a pending response would make it block the loop. Plain tuples of numbers and strings are examined once and
then untracked; members of an enumeration do not count as numbers. A row is converted to a struct each time it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class MadeLater(Generic[T]):
    __slots__ = ("_make", "_rows")

    def __init__(self, make: Callable[..., T], rows: list[tuple[Any, ...]]) -> None:
        self._make = make
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[T]:
        return starmap(self._make, self._rows)

    @property
    def as_list(self) -> list[T]:
        """Typed as messages declare it. Encoders only ask a list for its length and its elements."""
        return cast("list[T]", self)
