"""A list of a response whose elements are made when it is encoded, one by one.

Python's collector looks at every object of ours each time that it looks at all: hundreds of thousands of structs that
wait to be sent make it hold the loop. Rows of numbers and strings, as plain tuples, it looks at once and then leaves
alone; members of an enumeration are no numbers to it. A row is made into a struct each time that it is asked for.
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
        """As what messages declare. Encoders ask a list for its length and its elements, and for nothing else."""
        return cast("list[T]", self)
