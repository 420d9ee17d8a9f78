"""Reads pages of records: from positions in either direction, bounded in bytes, records and time.

A page is read with committed records only. Nothing is read before the position that was asked for, except whole batches
that the broker sends around it. If the leader of a partition does not answer, the page says so and shows the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.admin import offsets
from chronik.client.errors import ClientError, OffsetOutOfRange
from chronik.client.fetch_answers import Chunk, FetchOptions, fetch
from chronik.client.topology import TopicPartition
from chronik.console.cursors import Page, Positions, Read, page_backward, page_forward, window_back
from chronik.console.shown import record_bytes
from chronik.console.snapshot import Missing
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.wire.records import Record

PAGE_BYTES: Final = 8 << 20
SCAN_BYTES: Final = 64 << 20
SCAN_RECORDS: Final = 50_000
READ_S: Final = 2.0
LEADER_S: Final = 2.0
FETCH_BYTES: Final = 4 << 20  # of one request
PARTITION_BYTES_MIN: Final = 64 << 10
LOOK_UPS_AT_ONCE: Final = 8
SHRINK: Final = 8
SCAN_WINDOW: Final = 2_000  # offsets of one partition at once, when records are only looked at

Filter = Callable[[Sequence[tuple[int, "Record"]]], Awaitable[list[int]]]  # places of those that match
Bounds = Mapping[int, tuple[int, int]]  # start and end, by partition


@dataclass(slots=True)
class Budget:
    """What one page may cost. `ended_by` is the first bound that was met."""

    bytes_left: int
    records_left: int
    deadline_s: float
    ended_by: str | None = None
    scanned: int = 0

    @classmethod
    def of_page(cls, *, is_scan: bool) -> Budget:
        return cls(SCAN_BYTES if is_scan else PAGE_BYTES, SCAN_RECORDS, time.monotonic() + READ_S)

    def spend(self, records: Iterable[Record]) -> None:
        for record in records:
            self.bytes_left -= record_bytes(record) + 1
            self.records_left -= 1
            self.scanned += 1

    def again(self) -> Budget:
        """The same in bytes and records, and until the same moment."""
        return Budget(SCAN_BYTES, SCAN_RECORDS, self.deadline_s, None, self.scanned)

    @property
    def is_spent(self) -> bool:
        if self.ended_by is None:
            if self.bytes_left <= 0:
                self.ended_by = "bytes"
            elif self.records_left <= 0:
                self.ended_by = "records"
            elif time.monotonic() >= self.deadline_s:
                self.ended_by = "time"
        return self.ended_by is not None


class Reader:
    """Of one topic, for one request."""

    def __init__(self, cluster: ClusterClient, topic: str, missing: list[Missing]) -> None:
        self._cluster, self._topic, self._missing = cluster, topic, missing

    # --- offsets

    async def look_up(self, wanted: Mapping[int, int]) -> dict[int, int]:
        """The offset at a time or place, by partition; `offsets.NONE` where no record is that late."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, spec in wanted.items():
            leader_id = self._cluster.topology.leader_of(self._topic, partition)
            if leader_id is None:
                is_known = self._topic in self._cluster.topology.topics
                why = "it has no leader" if is_known else "its leader is not known"
                self._missing.append(Missing(f"partition {partition}", why))
            else:
                by_leader.setdefault(leader_id, {})[TopicPartition(self._topic, partition)] = spec

        async def of(node_id: int, some: dict[TopicPartition, int]) -> dict[int, int]:
            found: dict[int, int] = {}
            try:
                async with asyncio.timeout(LEADER_S):
                    answers = await offsets.look_up(self._cluster, some, isolation_level=READ_COMMITTED)
            except (ClientError, TimeoutError) as fault:
                self._miss(node_id, fault)
                return found
            for at, answer in answers.items():
                if isinstance(answer, ClientError):
                    self._missing.append(Missing(f"partition {at.partition}", str(answer)))
                else:
                    found[at.partition] = answer.offset
            return found

        merged: dict[int, int] = {}
        for found in await asyncio.gather(*(of(node_id, some) for node_id, some in by_leader.items())):
            merged |= found
        return merged

    async def look_up_all(self, times_ms: Sequence[int], ends: Mapping[int, int]) -> dict[int, list[int]]:
        """The offset at each of many ascending times, by partition; its end where no record is that late.

        A request may name a partition once, so each time is a request to each leader. Offsets never fall as times grow:
        between two times with the same offset nothing is asked.
        """
        found: dict[int, dict[int, int]] = {each: {} for each in ends}
        gate = asyncio.Semaphore(LOOK_UPS_AT_ONCE)

        async def ask(place: int, partitions: Sequence[int]) -> None:
            async with gate:
                told = await self.look_up(dict.fromkeys(partitions, times_ms[place]))
            for each in partitions:
                if each in told:
                    found[each][place] = ends[each] if told[each] == offsets.NONE else told[each]
                else:
                    found.pop(each, None)

        last = len(times_ms) - 1
        gaps = {each: [(0, last)] for each in ends}
        wanted = {place: list(ends) for place in {0, last}}
        while wanted:
            await asyncio.gather(*(ask(place, partitions) for place, partitions in wanted.items()))
            wanted = {}
            for each, known in found.items():
                split = []
                for low, high in gaps[each]:
                    if known[low] == known[high]:
                        known |= dict.fromkeys(range(low, high), known[low])
                    elif high - low > 1:
                        middle = (low + high) // 2
                        wanted.setdefault(middle, []).append(each)
                        split += [(low, middle), (middle, high)]
                gaps[each] = split
        return {each: [known[place] for place in range(last + 1)] for each, known in found.items()}

    async def bounds(self, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Of the partitions that answer."""
        wanted = list(partitions)
        starts = await self.look_up(dict.fromkeys(wanted, EARLIEST))
        ends = await self.look_up(dict.fromkeys(starts, LATEST))
        return {partition: (starts[partition], end) for partition, end in ends.items()}

    # --- pages

    async def forward(
        self, positions: Positions, bounds: Bounds, limit: int, budget: Budget, matching: Filter | None = None
    ) -> tuple[Page, Budget]:
        reads = {each: Read(offset, offset, []) for each, offset in positions.items() if each in bounds}
        while True:
            open_ = {
                each: read.end
                for each, read in reads.items()
                if read.end < bounds[each][1] and len(read.records) < limit
            }
            enough = matching is not None and sum(len(read.records) for read in reads.values()) >= limit
            if not open_ or enough or budget.is_spent:
                break
            window = limit if matching is None else SCAN_WINDOW
            found = await self._ranges({each: (at, bounds[each][1]) for each, at in open_.items()}, window, budget)
            found = await self._filtered(found, matching)
            if not found:
                break
            for each, piece in found.items():
                reads[each] = Read(reads[each].start, piece.end, [*reads[each].records, *piece.records])
        return page_forward(reads, limit), budget

    async def backward(
        self, positions: Positions, bounds: Bounds, limit: int, budget: Budget, matching: Filter | None = None
    ) -> tuple[Page, Budget]:
        reads = {each: Read(offset, offset, []) for each, offset in positions.items() if each in bounds}
        window = limit if matching is None else SCAN_WINDOW
        wanted = dict.fromkeys(reads, max(1, min(window, SCAN_RECORDS // 4 // max(1, len(reads)))))
        while True:
            open_ = {
                each: read.start
                for each, read in reads.items()
                if read.start > bounds[each][0] and len(read.records) < limit
            }
            enough = matching is not None and sum(len(read.records) for read in reads.values()) >= limit
            if not open_ or enough or budget.is_spent:
                break
            ranges = {each: (window_back(at, bounds[each][0], wanted[each]), at) for each, at in open_.items()}
            pieces = await self._whole_ranges(ranges, budget)
            pieces = await self._filtered(pieces, matching)
            if not pieces:
                if budget.ended_by in (None, "time") or not any(wanted[each] > 1 for each in open_):
                    break
                # Large records: a page must go on, however few fit into it.
                budget = budget.again()
                wanted = {each: max(1, size // SHRINK) for each, size in wanted.items()}
                continue
            for each, piece in pieces.items():
                reads[each] = Read(piece.start, reads[each].end, [*piece.records, *reads[each].records])
                if matching is None:
                    wanted[each] *= 4  # compaction and transactions leave gaps between offsets
        return page_backward(reads, limit), budget

    async def _whole_ranges(self, ranges: Mapping[int, tuple[int, int]], budget: Budget) -> dict[int, Read]:
        """Every record of these ranges: a page read backward must not lack the records that come last in its window.
        A range that the budget does not suffice for is left out."""
        reads = {each: Read(start, start, []) for each, (start, _) in ranges.items()}
        while open_ := {
            each: (read.end, ranges[each][1]) for each, read in reads.items() if read.end < ranges[each][1]
        }:
            found = await self._ranges(open_, None, budget)
            for each, piece in found.items():
                reads[each] = Read(reads[each].start, piece.end, [*reads[each].records, *piece.records])
            if not found or budget.is_spent:
                break
        return {each: read for each, read in reads.items() if read.end >= ranges[each][1]}

    async def _filtered(self, pieces: dict[int, Read], matching: Filter | None) -> dict[int, Read]:
        if matching is None:
            return pieces
        rows = [(each, record) for each, piece in pieces.items() for record in piece.records]
        places = await matching(rows) if rows else []
        kept: dict[int, list[Record]] = {each: [] for each in pieces}
        for place in places:
            kept[rows[place][0]].append(rows[place][1])
        return {each: Read(piece.start, piece.end, kept[each]) for each, piece in pieces.items()}

    async def _ranges(
        self, ranges: Mapping[int, tuple[int, int]], records_max: int | None, budget: Budget
    ) -> dict[int, Read]:
        """One request to each leader. Of each partition that answered, what came of its range; at least one batch."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        for partition, (start, _) in ranges.items():
            leader_id = self._cluster.topology.leader_of(self._topic, partition)
            if leader_id is not None:
                by_leader.setdefault(leader_id, {})[TopicPartition(self._topic, partition)] = start
        room = max(PARTITION_BYTES_MIN, min(FETCH_BYTES, budget.bytes_left))
        options = FetchOptions(
            max_wait_ms=0,
            max_bytes=room,
            partition_max_bytes=max(PARTITION_BYTES_MIN, room // max(1, len(ranges))),
            isolation_level=READ_COMMITTED,
        )

        async def of(node_id: int, some: dict[TopicPartition, int]) -> dict[TopicPartition, Chunk | ClientError]:
            try:
                async with asyncio.timeout(LEADER_S):
                    return await fetch(self._cluster, node_id, some, options, purpose="console")
            except (ClientError, TimeoutError) as fault:
                self._miss(node_id, fault)
                return {}

        found: dict[int, Read] = {}
        for answers in await asyncio.gather(*(of(node_id, some) for node_id, some in by_leader.items())):
            for at, chunk in answers.items():
                start, end = ranges[at.partition]
                if isinstance(chunk, ClientError):
                    if not isinstance(chunk, OffsetOutOfRange):
                        self._missing.append(Missing(f"partition {at.partition}", str(chunk)))
                    continue
                if chunk.is_empty and at.partition in found:
                    continue
                fetched = chunk.take(1 << 30 if records_max is None else records_max)
                records = [record for record in fetched.records if record.offset < end]
                reached = min(fetched.next_offset, end)
                if reached <= start:  # nothing came: another partition filled the answer
                    continue
                budget.spend(records)
                found[at.partition] = Read(start, reached, records)
            await asyncio.sleep(0)
        return found

    async def one(self, partition: int, offset: int) -> Record | None:
        """The record at this very offset."""
        budget = Budget.of_page(is_scan=False)
        while not budget.is_spent:
            found = await self._ranges({partition: (offset, offset + 1)}, 1, budget)
            read = found.get(partition)
            if read is None:
                return None
            if read.records:
                return read.records[0]
            if read.end > offset:
                return None
        return None

    def _miss(self, node_id: int, fault: Exception) -> None:
        reason = f"no answer within {LEADER_S:g} s" if isinstance(fault, TimeoutError) else str(fault)
        self._missing.append(Missing(f"node {node_id}", reason))
