"""Offsets at many times, with few requests."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from chronik.client.admin import offsets
from chronik.console.reading import Reader


class Logs(Reader):
    """Partitions as the times of their records; counts what is asked."""

    def __init__(self, times: Mapping[int, Sequence[int]]) -> None:
        nothing: Any = None
        super().__init__(nothing, "orders", [])
        self.times, self.asked = times, 0

    async def look_up(self, wanted: Mapping[int, int]) -> dict[int, int]:
        self.asked += 1
        places = {each: bisect_left(self.times[each], time_ms) for each, time_ms in wanted.items() if each < 9}
        return {each: place if place < len(self.times[each]) else offsets.NONE for each, place in places.items()}

    def found(self, edges: Sequence[int]) -> dict[int, list[int]]:
        return asyncio.run(self.look_up_all(edges, {each: len(some) for each, some in self.times.items()}))


EDGES = list(range(0, 24_100, 100))


@pytest.mark.parametrize("edges", [EDGES, EDGES[:2], EDGES[:3]])
def test_every_edge_has_the_offset_that_a_request_of_its_own_would_tell(edges: list[int]) -> None:
    logs = Logs({0: range(0, 24_000, 7), 1: [150, 151, 9_000], 2: [0], 3: [99_000]})
    assert logs.found(edges) == {
        each: [bisect_left(times, edge) for edge in edges] for each, times in logs.times.items()
    }


def test_no_time_is_asked_about_twice() -> None:
    logs = Logs({0: range(0, 24_000, 7)})
    logs.found(EDGES)
    assert logs.asked == len(EDGES)


def test_where_nothing_was_written_nothing_is_asked() -> None:
    logs = Logs({0: [150, 23_000]})
    logs.found(EDGES)
    assert logs.asked < 20


def test_a_partition_that_does_not_answer_is_left_out() -> None:
    assert Logs({0: [150], 9: [150]}).found(EDGES[:3]) == {0: [0, 0, 1]}
