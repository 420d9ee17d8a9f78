"""Positions between records, and pages merged from partitions. Pure.

A cursor is an offset per partition, as `0:12,1:7`: it stands before offset 12 of partition 0. So the end of one page is
the beginning of the next, read forward, and of the one before, read backward. Pages merge partitions by time, and never
change the order within a partition; the page then is a gapless piece of every partition.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.console.errors import ConsoleError

if TYPE_CHECKING:
    from chronik.wire.records import Record

PARTITIONS_MAX: Final = 200
_cursor: Final = re.compile(r"\d{1,10}:\d{1,19}(,\d{1,10}:\d{1,19})*", re.ASCII)

Positions = Mapping[int, int]  # the next offset, by partition


def parse_cursor(text: str) -> dict[int, int]:
    """Raises BAD_CURSOR."""
    if not _cursor.fullmatch(text):
        raise ConsoleError("BAD_CURSOR", f"cursor {text[:40]!r} is not PARTITION:OFFSET,PARTITION:OFFSET")
    pairs = [each.split(":") for each in text.split(",")]
    found = {int(partition): int(offset) for partition, offset in pairs}
    if len(found) != len(pairs):
        raise ConsoleError("BAD_CURSOR", "the cursor names a partition twice")
    if len(found) > PARTITIONS_MAX:
        raise ConsoleError("BAD_CURSOR", f"the cursor has more than {PARTITIONS_MAX} partitions")
    return found


def cursor_text(positions: Positions) -> str:
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of one partition: every visible record in [start, end), in order."""

    start: int
    end: int
    records: Sequence[Record]


@dataclass(frozen=True, slots=True)
class Page:
    records: list[tuple[int, Record]]  # partition and record, in the order to show
    previous: dict[int, int]  # positions before the page
    next: dict[int, int]  # and after it
    is_full: bool  # the limit ended it


def page_forward(reads: Mapping[int, Read], limit: int) -> Page:
    """The first `limit` records by time. A partition's position moves over what was read of it, up to the first record
    that found no room."""
    taken, left = _merged(reads, limit)
    after = {
        partition: each.records[left[partition]].offset if left[partition] < len(each.records) else each.end
        for partition, each in reads.items()
    }
    return Page(taken, {partition: each.start for partition, each in reads.items()}, after, len(taken) >= limit)


def page_backward(reads: Mapping[int, Read], limit: int) -> Page:
    """The last `limit` records by time."""
    total = sum(len(each.records) for each in reads.values())
    everything, _ = _merged(reads, total)
    taken = everything[max(0, total - limit) :]
    skipped: dict[int, int] = dict.fromkeys(reads, 0)
    for partition, _record in everything[: max(0, total - limit)]:
        skipped[partition] += 1
    before = {
        partition: each.records[skipped[partition] - 1].offset + 1 if skipped[partition] else each.start
        for partition, each in reads.items()
    }
    return Page(taken, before, {partition: each.end for partition, each in reads.items()}, len(taken) >= limit)


def _merged(reads: Mapping[int, Read], limit: int) -> tuple[list[tuple[int, Record]], dict[int, int]]:
    """Records by time, and how many of each partition. A record that is older than the one before it in its partition
    counts as being of that one's time, so that both ends of a page agree on the order."""
    ranked: list[tuple[int, int, int, Record]] = []
    for partition, each in reads.items():
        time = -1
        for record in each.records:
            time = max(time, record.timestamp)
            ranked.append((time, partition, record.offset, record))
    ranked.sort(key=lambda each: each[:3])
    counts: dict[int, int] = dict.fromkeys(reads, 0)
    taken: list[tuple[int, Record]] = []
    for _, partition, _, record in ranked[:limit]:
        taken.append((partition, record))
        counts[partition] += 1
    return taken, counts


def window_back(position: int, start: int, wanted: int) -> int:
    """Where to begin reading so that about `wanted` offsets lie before a position."""
    return max(start, position - wanted)


def bounded(positions: Positions, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Positions moved into their logs: what retention deleted is skipped, what does not exist yet is waited for."""
    return {
        partition: min(max(offset, bounds[partition][0]), bounds[partition][1])
        for partition, offset in positions.items()
        if partition in bounds
    }


def has_more(positions: Positions, bounds: Mapping[int, tuple[int, int]], *, backward: bool) -> bool:
    return any(
        positions[partition] > start if backward else positions[partition] < end
        for partition, (start, end) in bounds.items()
        if partition in positions
    )


def bucket_edges(from_ms: int, to_ms: int, buckets: int) -> list[int]:
    """Times that cut a range into at most `buckets` pieces of whole seconds; the last edge lies after the range."""
    span = max(1, to_ms - from_ms + 1)
    step_ms = max(1, -(-span // (buckets * 1_000))) * 1_000
    count = -(-span // step_ms)
    return [from_ms + index * step_ms for index in range(count + 1)]


def counts_between(offsets: Iterable[Sequence[int]]) -> list[int]:
    """Records between edges, from the offsets at the edges of each partition. Where time runs backward in a log, the
    offsets do too; such a piece counts as empty."""
    columns = list(offsets)
    if not columns:
        return []
    edges = len(columns[0])
    return [sum(max(0, each[i + 1] - each[i]) for each in columns) for i in range(edges - 1)]
