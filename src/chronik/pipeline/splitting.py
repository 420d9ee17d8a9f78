"""Splits ranges into pieces (minPartitions, maxRecordsPerPartition), and groups small ones into tasks. Pure.

Without either option, each partition of a topic is one range. Pieces of one range are even and in order; nothing is
lost, duplicated or empty. A task costs Spark about 60 ms of a core, whatever it reads, so ranges of few records share
one. A range that is large enough for a task of its own gets one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronik.pipeline.offsets import OffsetRange

# Read in some ten milliseconds. Sizes in bytes are unknown here; at the default limit of a megabyte per batch of
# records, a task still reads at most about two gigabytes, as a stream.
TASK_RECORDS_MAX: Final = 2_000


def split(
    ranges: Sequence[OffsetRange], *, partitions_min: int | None = None, records_max: int | None = None
) -> list[OffsetRange]:
    """At least `partitions_min` ranges, if there are that many records, of at most `records_max` offsets each."""
    counts = [-(-each.size // records_max) if records_max else 1 for each in ranges]
    if partitions_min and sum(counts) < partitions_min:
        counts = _more(ranges, counts, partitions_min)
    return [piece for each, count in zip(ranges, counts, strict=True) for piece in _pieces(each, count)]


def _more(ranges: Sequence[OffsetRange], counts: list[int], partitions_min: int) -> list[int]:
    """Pieces in proportion to size, then one more for the range with the largest pieces until there are enough."""
    total = sum(each.size for each in ranges)
    counts = [
        max(count, min(each.size, each.size * partitions_min // total))
        for each, count in zip(ranges, counts, strict=True)
    ]
    while sum(counts) < min(partitions_min, total):
        index = max(range(len(ranges)), key=lambda i: ranges[i].size / counts[i] if counts[i] < ranges[i].size else 0)
        counts[index] += 1
    check(
        all(0 < count <= each.size for each, count in zip(ranges, counts, strict=True)),
        "19 no piece of a range is empty",
        counts=counts,
    )
    return counts


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    borders = [whole.start + whole.size * i // count for i in range(count + 1)]
    check(
        borders[0] == whole.start and borders[-1] == whole.end and borders == sorted(set(borders)),
        "19 pieces of a range are the range",
        range=whole,
        borders=borders,
    )
    return [whole._replace(start=start, end=end) for start, end in pairwise(borders)]


def grouped(
    ranges: Sequence[OffsetRange], *, partitions_min: int | None = None, records_max: int | None = None
) -> list[tuple[OffsetRange, ...]]:
    """One group per task, in order. A group of several ranges has at most TASK_RECORDS_MAX records, or `records_max`.
    There are at least `partitions_min` groups, if there are that many ranges."""
    limit = TASK_RECORDS_MAX if records_max is None else min(records_max, TASK_RECORDS_MAX)
    groups: list[list[OffsetRange]] = []
    size = 0
    for index, each in enumerate(ranges):
        size += each.size
        must_open = partitions_min is not None and len(groups) + len(ranges) - index <= partitions_min
        if not groups or must_open or size > limit:
            groups.append([])
            size = each.size
        groups[-1].append(each)
    check(
        sum(map(len, groups)) == len(ranges),
        "19 each range is read by one task",
        ranges=len(ranges),
        grouped=sum(map(len, groups)),
    )
    return [tuple(group) for group in groups]
