"""Reads all records on disk periodically, so that damage is found while another replica still has the records.

One pass over all segments takes `interval_ms`, whatever their size. It runs in small steps of at most a few
milliseconds, at an even pace. A step reads from the disk, not from the page cache, checks CRCs and offsets, and reports
damage as every read does (`Segment.on_damage`). The position of a pass is stored in DIRECTORY/scrub, so that a node
that is restarted often also completes its passes.

    pass STARTED_MS FINISHED_MS    of this pass, and of the last one that was finished; -1 if none was
    at TOPIC_ID PARTITION SEGMENT  the next to read
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import NamedTuple

from chronik.runtime.buggify import SMALL_SCRUB_PAUSE
from chronik.runtime.errors import RuntimeFault
from chronik.runtime.interfaces import Clock, Disk, Lane
from chronik.runtime.invariants import check
from chronik.storage.errors import CorruptSegment, LogFull
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.segment import Segment
from chronik.storage.verification import scrub

logger = logging.getLogger("chronik.storage")

STEP_BYTES = 128 << 10  # checked per step: a few milliseconds if the batches are small
PAUSE_S_MIN, PAUSE_S_MAX = 0.01, 10.0  # between steps
LOGS_PER_STEP = 200  # visited before the loop continues: about a millisecond
KEEP_MS = 60_000  # how often the position of the pass is stored
FILE = "scrub"

Place = tuple[bytes, int, int]  # topic id, partition, base offset of a segment
BEGINNING: Place = (b"", -1, -1)


class Pass(NamedTuple):
    started_ms: int = -1  # wall time; -1 before the first
    finished_ms: int = -1  # of the last finished pass
    next_place: Place = BEGINNING

    def encode(self) -> bytes:
        topic_id, partition, segment = self.next_place
        return f"pass {self.started_ms} {self.finished_ms}\nat {topic_id.hex() or '-'} {partition} {segment}\n".encode()

    @classmethod
    def decode(cls, data: bytes) -> Pass:
        """If the file cannot be read, the pass starts again; nothing else is lost."""
        try:
            first, second = data.decode().splitlines()
            _, started, finished = first.split()
            _, topic_id, partition, segment = second.split()
            place = (b"" if topic_id == "-" else bytes.fromhex(topic_id), int(partition), int(segment))
            return cls(int(started), int(finished), place)
        except ValueError:
            return cls()


class Scrubber:
    """`checked_bytes` counts since the process started; `progress` is the position of the pass."""

    def __init__(self, logs: Logs, disk: Disk, clock: Clock, interval_ms: int) -> None:
        self._logs, self._disk, self._clock, self._interval_ms = logs, disk, clock, interval_ms
        self._path = f"{logs.directory}/{FILE}"
        self._lane: Lane = disk.lane("scrubber")
        self._kept_ns = clock.monotonic_ns()
        self.checked_bytes = 0
        self.damaged_count = 0  # segments found damaged since the process started
        self.progress = Pass.decode(disk.read_file(self._path)) if disk.exists(self._path) else Pass()

    async def run(self) -> None:
        """Runs passes until cancelled."""
        while True:
            await self.one_pass()
            pause_s = min(PAUSE_S_MAX, max(PAUSE_S_MIN, self._interval_ms / 1000))
            await asyncio.sleep(PAUSE_S_MIN if SMALL_SCRUB_PAUSE.is_on and SMALL_SCRUB_PAUSE.fires() else pause_s)

    async def one_pass(self) -> None:
        """Runs from where the last process stopped to the end."""
        if self.progress.next_place == BEGINNING:
            self.progress = self.progress._replace(started_ms=self._clock.wall_ms())
        topic_id, partition, base_offset = self.progress.next_place
        logs = list(self._logs.all())
        # At this rate, a pass over everything takes the interval, regardless of how bytes are distributed over
        # segments. Pauses are rounded, so one millisecond is added to avoid a shorter pass.
        s_per_byte = (self._interval_ms + 1) / 1000 / max(1, sum([log.size_bytes for log in logs]))
        keys = sorted([(log.topic_id, log.partition) for log in logs])
        for count, key in enumerate(keys):
            if count % LOGS_PER_STEP == LOGS_PER_STEP - 1:
                await asyncio.sleep(0)
            log = self._logs.get(*key)
            if key < (topic_id, partition) or log is None or log.damage is not None:
                continue
            for segment in list(log.segments):
                if key > (topic_id, partition) or segment.base_offset >= base_offset:
                    self.progress = self.progress._replace(next_place=(*key, segment.base_offset))
                    await self._scrub(log, segment, s_per_byte)
                    await self._keep(is_due=False)
        self.progress = Pass(self.progress.started_ms, self._clock.wall_ms())
        await self._keep(is_due=bool(keys))

    async def _scrub(self, log: Log, segment: Segment, s_per_byte: float) -> None:
        """Checks the part that is durable at the start. Stops if the segment is changed meanwhile."""
        if segment not in log.segments:
            return
        position, end, generation = 0, segment.durable_bytes, log.generation
        expected = log.expected_in(segment)
        while position < end and segment in log.segments and generation == log.generation:
            try:
                await self._read(segment, position)
                if segment not in log.segments or generation != log.generation:
                    return  # compacted, truncated or removed meanwhile
                checked_bytes, expected = scrub(segment, position, min(STEP_BYTES, end - position), expected)
            except CorruptSegment:  # its log has recorded the damage
                self.damaged_count += 1
                return
            except (LogFull, RuntimeFault):
                await asyncio.sleep(PAUSE_S_MAX)
                return  # no file descriptor is available: the next pass reads it
            check(
                0 < checked_bytes <= segment.size_bytes - position,
                "22 a scrub gets on within its segment",
                path=segment.path,
                position=position,
                step=checked_bytes,
            )
            position += checked_bytes
            self.checked_bytes += checked_bytes
            await asyncio.sleep(min(PAUSE_S_MAX, max(PAUSE_S_MIN, s_per_byte * checked_bytes)))

    async def _read(self, segment: Segment, position: int) -> None:
        """Reads into the page cache, from the disk and outside the event loop."""
        try:
            file = segment.file
        except OSError:
            segment.read(position, 1)  # raises an error that says what is wrong with the file
            return
        segment.doubt()  # otherwise a read before the check would find unverified bytes in memory

        def read() -> None:
            file.forget(position, position + STEP_BYTES)
            with contextlib.suppress(OSError):  # the loop reads it again and reports the error
                file.read(position, STEP_BYTES)

        await self._lane.run(read)

    async def _keep(self, *, is_due: bool) -> None:
        now_ns = self._clock.monotonic_ns()
        if is_due or now_ns - self._kept_ns >= KEEP_MS * 1_000_000:
            self._kept_ns = now_ns
            data = self.progress.encode()
            with contextlib.suppress(RuntimeFault):  # on a full disk, the older position remains stored
                await self._lane.run(lambda: self._disk.replace_file(self._path, data))

    def close(self) -> None:
        self._lane.close()
