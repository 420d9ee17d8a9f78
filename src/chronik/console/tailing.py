"""The live tail of a topic: what arrives, or a sample of it when more arrives than can be shown.

It looks at the ends of the partitions four times a second and reads only the last records before them, so its cost
depends on what is shown and not on what is written: at most READ_BYTES a look. What lies between two looks and was not
read is counted as skipped, from offsets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError
from chronik.console import errors
from chronik.console.cursors import cursor_text
from chronik.console.errors import ConsoleError
from chronik.console.reading import READ_S, Budget, Reader
from chronik.console.shown import shown_record
from chronik.console.streams import event

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.console.reading import Filter
    from chronik.console.snapshot import Missing
    from chronik.wire.records import Record

LOOK_S: Final = 0.25
IDLE_S: Final = 1.0
FAILED_S: Final = 2.0
ENDS_AFTER_S: Final = 3_600.0
READ_BYTES: Final = 1 << 20
FILTERED_WINDOW: Final = 2_000  # offsets of all partitions that a condition looks at in one look


class Tail:
    def __init__(
        self,
        cluster: ClusterClient,
        topic: str,
        partitions: Sequence[int],
        matching: Filter | None,
        rate: int,
        value_bytes: int,
    ) -> None:
        self._cluster, self._topic, self._partitions = cluster, topic, partitions
        self._matching, self._value_bytes = matching, value_bytes
        self._per_look = max(1, round(rate * LOOK_S))
        self._positions: dict[int, int] = {}

    async def events(self) -> AsyncGenerator[bytes, None]:
        started = told = time.monotonic()
        arrived = skipped = 0
        is_first = True
        while time.monotonic() - started < ENDS_AFTER_S:
            begin = time.monotonic()
            try:
                found, new, passed = await self._look()
            except (ClientError, ConsoleError, TimeoutError) as fault:
                yield event("failed", self._failure(fault).document())
                await asyncio.sleep(FAILED_S)
                continue
            arrived += new
            skipped += passed
            now = time.monotonic()
            if found or is_first or now - told >= IDLE_S:
                yield event(
                    "records",
                    {
                        "records": [shown_record(partition, each, self._value_bytes) for partition, each in found],
                        "arrived": arrived,
                        "skipped": skipped,
                        "per_s": 0.0 if is_first else round(arrived / max(LOOK_S, now - told), 1),
                        "is_sampled": skipped > 0,
                        "cursor": cursor_text(self._positions),
                    },
                )
                arrived = skipped = 0
                told, is_first = now, False
            await asyncio.sleep(max(0.01, begin + LOOK_S - time.monotonic()))
        yield event("ended", {})

    async def _look(self) -> tuple[list[tuple[int, Record]], int, int]:
        """Records to show, how many offsets are new, and how many of those were not looked at."""
        missing: list[Missing] = []
        reader = Reader(self._cluster, self._topic, missing)
        ends = {each: end for each, (_, end) in (await reader.bounds(self._partitions)).items()}
        if not ends:
            self._cluster.forget(self._topic)
            await self._cluster.refresh([self._topic])
            raise ConsoleError("UNREACHABLE", "; ".join(each.reason for each in missing) or "no leader answers")
        for each, end in ends.items():
            known = self._positions.setdefault(each, end)
            if known > end:  # the log was cut, or the topic was created again
                self._positions[each] = end
        new = {each: end - self._positions[each] for each, end in ends.items() if end > self._positions[each]}
        arrived = sum(new.values())
        if not arrived:
            return [], 0, 0
        room = self._per_look if self._matching is None else FILTERED_WINDOW
        share = max(1, room // len(new))
        starts = {
            each: max(self._positions[each], ends[each] - max(share, room - arrived + count))
            for each, count in new.items()
        }
        passed = sum(starts[each] - self._positions[each] for each in starts)
        budget = Budget(READ_BYTES, room * 4, time.monotonic() + READ_S)
        bounds = {each: (starts[each], ends[each]) for each in starts}
        page, _ = await reader.forward(starts, bounds, room, budget, self._matching)
        passed += sum(ends[each] - page.next[each] for each in starts)
        self._positions |= {each: ends[each] for each in starts}
        shown = page.records[-self._per_look :]
        return shown, arrived, passed + len(page.records) - len(shown)

    @staticmethod
    def _failure(fault: Exception) -> ConsoleError:
        if isinstance(fault, ConsoleError):
            return fault
        if isinstance(fault, ClientError):
            return errors.of(fault)
        return ConsoleError("TIMED_OUT", "the cluster did not answer in time")
