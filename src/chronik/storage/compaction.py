"""Log compaction: keeps the last record of each key. Offsets never change, and the last segment is never touched.

Compaction removes records that a later one of the same key replaces, and records of aborted transactions. It removes
tombstones and markers `delete.retention.ms` after a pass first found that nothing else needs them; the batch carries
that time as its delete horizon. It keeps each producer's last batch, if necessary without records, for its sequence
number; or the last marker, if that raised the producer's epoch.

The work runs on the event loop in short steps, because a second busy Python thread would delay every system call of the
loop by the interpreter's switch interval. Only syncs run on the lane. New files are written beside the old ones. A
synced rename to BASE-END.swap is the commit point: recovery completes a replacement that reached it and discards one
that did not.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Lane
from chronik.runtime.invariants import check
from chronik.runtime.pieces import in_slices
from chronik.storage.aborted_index import AbortedIndex, DamagedIndex, NotReady
from chronik.storage.aborted_mending import mending
from chronik.storage.config import DECOMPRESSED_BYTES_MAX, FOREVER
from chronik.storage.errors import StorageError, StorageFailed
from chronik.storage.log import Log
from chronik.storage.producer_state import AbortedTransaction
from chronik.storage.segment import OFFSET_SPAN_MAX, Segment, segment_path
from chronik.wire import records
from chronik.wire.batches import BatchView, build
from chronik.wire.errors import WireError
from chronik.wire.records import ControlType, Record
from chronik.wire.records import TimestampType as Stamp

logger = logging.getLogger("chronik.storage")

OF_ABORTED = "-aborted"  # suffix of the new index of aborted transactions, after the name of its new segment
RECORDS_PER_STEP = 1000  # read before the loop continues: one to two milliseconds
ABORTED_PER_STEP = 4096  # index entries per step
WINDOW_OFFSETS = 4096  # aborted transactions are looked up for this many offsets at once
KEY_BYTES_MAX = 32  # a longer key is replaced by its digest of this size, which bounds the memory per key


class Cleanable(NamedTuple):
    dirty_index: int  # the first segment with records that no pass has processed
    end_index: int  # the first segment that must not change


def is_due(log: Log, now_ms: int) -> bool:
    """Whether enough of the log is new since the last pass, or a record has waited for too long."""
    if not log.config.compacts or log.damage is not None or len(log.segments) < 2:
        return False
    dirty_index, end_index = _cleanable(log, now_ms)
    if dirty_index >= end_index:
        return False
    sizes = [segment.size_bytes for segment in log.segments[:end_index]]
    if sum(sizes[dirty_index:]) >= log.config.min_cleanable_dirty_ratio * sum(sizes):
        return True
    oldest_ms = log.segments[dirty_index].first_timestamp_ms
    return 0 <= oldest_ms < now_ms - log.config.max_compaction_lag_ms


def _cleanable(log: Log, now_ms: int, below_offset: int = FOREVER) -> Cleanable:
    settled = log.last_stable_offset(log.high_watermark)
    end_index = 0
    for index, segment in enumerate(log.segments[:-1]):
        if segment.base_offset >= below_offset:
            break
        is_young = segment.max_timestamp_ms > now_ms - log.config.min_compaction_lag_ms
        if log.segments[index + 1].base_offset > settled or (is_young and log.config.min_compaction_lag_ms > 0):
            break
        end_index = index + 1
    dirty_index = 0
    while dirty_index < end_index and log.segments[dirty_index + 1].base_offset <= log.compacted_offset:
        dirty_index += 1
    return Cleanable(dirty_index, end_index)


async def compact(
    log: Log, now_ms: int, disk: Disk, lane: Lane, keys_max: int, fail: Callable[[OSError], StorageFailed]
) -> None:
    """Runs one pass. Gives up and leaves no trace if the log is truncated or deleted meanwhile, or the disk is full.

    Segments that the log has rolled since the checkpoint stay unchanged: the checkpoint and the journal name positions
    in them, which recovery uses (see `recovery`). `fail` is called with the error of a failed sync and returns the
    error to raise.
    """
    await in_slices(mending(log))
    dirty_index, end_index = _cleanable(log, now_ms, log.checkpointed_segment)
    if dirty_index >= end_index:
        return
    segments = log.segments[:end_index]
    check(
        end_index < len(log.segments),
        "7 compaction leaves the last segment alone",
        log=log,
        end=end_index,
        segments=len(log.segments),
    )
    check(
        log.segments[end_index].base_offset <= log.high_watermark,
        "7 compaction touches only what is committed",
        log=log,
        end=log.segments[end_index].base_offset,
        high_watermark=log.high_watermark,
    )
    turns = _Turns(log, lane, fail)
    try:
        latest, end_offset = await _latest_offsets(log, segments[dirty_index:], keys_max, turns)
        check(
            end_offset <= log.high_watermark,
            "7 compaction touches only what is committed",
            log=log,
            end=end_offset,
            high_watermark=log.high_watermark,
        )
        cleaning = _Cleaning(log, latest, end_offset, now_ms)
        for group in _groups([segment for segment in segments if segment.base_offset < end_offset], log):
            await _replace(log, group, cleaning, disk, turns)
    except DiskFull as error:
        logger.debug("%r is not compacted for now: %s", log, error)
        return
    except _LogChanged:
        return
    check(
        end_offset > log.compacted_offset or not latest,
        "25 every pass of compaction gets on",
        log=log,
        compacted=log.compacted_offset,
        end=end_offset,
    )
    log.compacted_offset = max(log.compacted_offset, end_offset)
    log.sparse_offset = max(log.sparse_offset, end_offset)


class _LogChanged(Exception):
    """The log was truncated or deleted, so the state of the pass is void."""


class _Turns:
    """Yields to the loop or the lane. Raises if the log has changed meanwhile."""

    def __init__(self, log: Log, lane: Lane, fail: Callable[[OSError], StorageFailed]) -> None:
        self._log = log
        self._lane = lane
        self.fail = fail
        self._generation = log.generation
        self._count = 0

    async def after(self, batch: BatchView) -> None:
        self._count += batch.record_count
        if self._count >= RECORDS_PER_STEP:
            self._count = 0
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(0)
        self._check()

    async def syncing(self, sync: Callable[[], None]) -> None:
        try:
            await self._lane.run(sync)
        except OSError as error:
            if not (self._log.deleted and isinstance(error, FileNotFoundError)):
                raise self.fail(error) from error
        self._check()

    def _check(self) -> None:
        if self._log.deleted or self._log.generation != self._generation:
            raise _LogChanged


async def _latest_offsets(
    log: Log, segments: list[Segment], keys_max: int, turns: _Turns
) -> tuple[dict[bytes, int], int]:
    """The last offset of each key, and where the map ends: at the end of a segment, or earlier when the map is full.

    It begins where the last pass ended, possibly within a segment, so every pass advances by at least one batch.
    """
    latest: dict[bytes, int] = {}
    aborted = _Aborted(log)
    end_offset = segments[0].base_offset
    for segment in segments:
        for position, header in segment.headers():
            if header.next_offset <= log.compacted_offset:
                continue
            batch = segment.batch_at(position, header)
            if not batch.is_control and aborted.transaction_of(batch) is None:
                for record in records.iterate(batch, DECOMPRESSED_BYTES_MAX):
                    if record.key is not None:
                        latest[_held(record.key)] = record.offset
                await turns.after(batch)
            if len(latest) >= keys_max:
                return latest, batch.next_offset
        end_offset = log.segments[log.segments.index(segment) + 1].base_offset
    check(
        end_offset > segments[0].base_offset,
        "25 every pass of compaction gets on",
        log=log,
        first=segments[0].base_offset,
        end=end_offset,
    )
    return latest, end_offset


class _Aborted:
    """Tells which batches belong to aborted transactions; called in the order of offsets. Loads the transactions of one
    window of offsets at a time, because all of them would take too much memory."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._end = -1  # end of the window
        self._of_producer: dict[int, list[AbortedTransaction]] = {}

    def transaction_of(self, batch: BatchView) -> AbortedTransaction | None:
        if not batch.is_transactional or batch.is_control:
            return None
        if batch.base_offset >= self._end:
            self._end = batch.base_offset + WINDOW_OFFSETS
            self._of_producer.clear()
            try:
                found = self._log.aborted_transactions(batch.base_offset, self._end)
            except NotReady as error:
                raise _LogChanged from error  # the next pass begins with a rebuild of the index
            for aborted in found:
                self._of_producer.setdefault(aborted.producer_id, []).append(aborted)
        for aborted in self._of_producer.get(batch.producer_id, ()):
            if aborted.first_offset <= batch.base_offset < aborted.last_offset:
                return aborted
        return None


class _Cleaning:
    """Decides what a pass keeps of each batch, in the order of offsets."""

    def __init__(self, log: Log, latest: dict[bytes, int], end_offset: int, now_ms: int) -> None:
        self._latest = latest
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon_ms = now_ms + log.config.delete_retention_ms
        self._aborted = _Aborted(log)
        self._with_data: set[int] = set()  # producers with a batch kept since their last marker
        self._aborted_kept: set[int] = set()  # marker offsets of aborted transactions of which a batch is kept
        self._last_offsets = {
            producer_id: producer.batches[-1].last_offset if producer.batches else -1
            for producer_id, producer in log.producers.producers.items()
        }

        # If a marker raised a producer's epoch and no batch has followed, only the marker holds the epoch.
        self._epochs_of_markers = {
            producer_id: producer.epoch
            for producer_id, producer in log.producers.producers.items()
            if not producer.batches
        }

    def keeps_aborted(self, aborted: AbortedTransaction) -> bool:
        """Called after everything before the marker has been processed. When nothing is left of a transaction, its
        marker and its entry are removed too. Otherwise a reader would take the producer's next records for aborted
        ones."""
        return aborted.last_offset >= self._end_offset or aborted.last_offset in self._aborted_kept

    def keep(self, batch: BatchView) -> memoryview | bytes | None:
        """Returns the batch unchanged, a smaller one, or None."""
        if batch.base_offset >= self._end_offset:
            return batch.data  # after the end of the map: the next pass decides
        horizon_passed = batch.has_delete_horizon and batch.base_timestamp <= self._now_ms
        if batch.is_control:
            return self._keep_marker(batch, horizon_passed=horizon_passed)
        kept: list[Record] = []
        has_tombstone = False
        aborted = self._aborted.transaction_of(batch)
        if aborted is None:
            for record in records.iterate(batch, DECOMPRESSED_BYTES_MAX):
                if record.key is None or record.offset < self._latest.get(_held(record.key), -1):
                    continue
                if record.value is None:
                    if horizon_passed:
                        continue
                    has_tombstone = True
                kept.append(record)
        if not kept and self._last_offsets.get(batch.producer_id) != batch.last_offset:
            return None
        if batch.is_transactional:
            self._with_data.add(batch.producer_id)
        if aborted is not None:
            self._aborted_kept.add(aborted.last_offset)
        sets_horizon = has_tombstone and not batch.has_delete_horizon
        check(
            len(kept) <= batch.record_count,
            "8 compaction keeps what was there",
            first=batch.base_offset,
            kept=len(kept),
            records=batch.record_count,
        )
        check(
            not kept or (kept[0].offset >= batch.base_offset and kept[-1].offset <= batch.last_offset),
            "8 compaction moves no record",
            first=batch.base_offset,
            last=batch.last_offset,
        )
        if len(kept) == batch.record_count and not sets_horizon:
            return batch.data
        return self._rebuilt(batch, kept, sets_horizon=sets_horizon)

    def _keep_marker(self, batch: BatchView, *, horizon_passed: bool) -> memoryview | bytes | None:
        marker = next(iter(records.iterate(batch, DECOMPRESSED_BYTES_MAX)), None)
        if marker is None or records.control_type(marker) not in (ControlType.COMMIT, ControlType.ABORT):
            return batch.data
        if batch.producer_id in self._with_data:
            self._with_data.discard(batch.producer_id)
            return batch.data
        is_last = self._epochs_of_markers.get(batch.producer_id) == batch.producer_epoch
        if horizon_passed and not is_last:
            return None
        if batch.has_delete_horizon:
            return batch.data
        return self._rebuilt(batch, [marker], sets_horizon=True)

    def _rebuilt(self, batch: BatchView, kept: list[Record], *, sets_horizon: bool) -> bytes:
        stamped = batch.timestamp_type is Stamp.LOG_APPEND_TIME
        return build(
            kept,
            batch.compression,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            base_timestamp=self._horizon_ms if sets_horizon else batch.base_timestamp,
            max_timestamp=batch.max_timestamp if stamped or not kept else None,
            timestamp_type=batch.timestamp_type,
            leader_epoch=batch.partition_leader_epoch,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
            has_delete_horizon=sets_horizon or batch.has_delete_horizon,
        )


def _groups(segments: list[Segment], log: Log) -> Iterator[list[Segment]]:
    """Groups neighbours that fit into one segment, so that compacted logs do not end up as many small files."""
    group: list[Segment] = []
    size_bytes = 0
    for segment in segments:
        fits = size_bytes + segment.size_bytes <= log.config.segment_bytes
        if group and not (fits and segment.base_offset - group[0].base_offset < OFFSET_SPAN_MAX // 2):
            yield group
            group, size_bytes = [], 0
        group.append(segment)
        size_bytes += segment.size_bytes
    if group:
        yield group


async def _replace(log: Log, group: list[Segment], cleaning: _Cleaning, disk: Disk, turns: _Turns) -> None:
    """Writes what is kept of a group into one new segment and puts it in place."""
    directory, base = log.directory, group[0].base_offset
    bases = [segment.base_offset for segment in group]
    cleaned_path = segment_path(directory, base, "cleaned")
    cleaned = disk.open(cleaned_path, create=True)
    cleaned.truncate(0)
    try:
        for segment in group:
            for batch in _batches(segment):
                kept = cleaning.keep(batch)
                if kept is not None:
                    cleaned.append([kept])
                await turns.after(batch)
        # A file's time is the age of its records without a timestamp, which compaction must not make younger.
        disk.set_modified(cleaned_path, max([disk.modified_ms(segment.path) for segment in group]))
        await turns.syncing(cleaned.sync)
    except (DiskFull, StorageError, WireError, OSError, _LogChanged):
        _forget(cleaned_path, disk)
        raise
    first = log.segments.index(group[0])
    end = first + len(group)
    check(
        log.segments[first:end] == group,
        "28 compaction replaces neighbours",
        log=log,
        first=base,
        count=len(group),
    )
    swap_path = f"{directory}/{base:020}-{log.segments[end].base_offset:020}.swap"
    aborted_path = f"{swap_path}{OF_ABORTED}"
    try:
        aborted_count = await _write_aborted(log, bases, cleaning, aborted_path, disk, turns)
    except (DiskFull, StorageError, OSError, _LogChanged):
        _forget(cleaned_path, disk)
        raise
    disk.rename(cleaned_path, swap_path)
    try:
        await turns.syncing(lambda: disk.sync_directory(directory))
    except _LogChanged:
        _forget(swap_path, disk)
        _forget(aborted_path, disk)
        raise
    try:
        for segment in group:
            segment.remove()
        if aborted_count is not None:
            disk.rename(aborted_path, segment_path(directory, base, "aborted"))
        disk.rename(swap_path, segment_path(directory, base))
    except OSError as error:
        raise turns.fail(error) from error  # incomplete: the next start completes it
    replacement = Segment(disk, directory, base, cleaned.size_bytes())
    replacement.checked(0)
    if replacement.size_bytes:
        replacement.rebuild_index(log.config.index_interval_bytes)
        replacement.seal()
    check(
        replacement.durable_bytes == replacement.size_bytes,
        "7 compacted segments are synced before they count",
        log=log,
        durable=replacement.durable_bytes,
        size=replacement.size_bytes,
    )
    log.replace_segments(first, end, [replacement])
    log.aborted.replaced(bases, base, aborted_count or 0)
    files = replacement.files()

    def sync() -> None:
        for file in files:  # the index too: no checkpoint will sync it, because the segment counts as synced
            file.sync()
        disk.sync_directory(directory)

    await turns.syncing(sync)


async def _write_aborted(
    log: Log, bases: list[int], cleaning: _Cleaning, path: str, disk: Disk, turns: _Turns
) -> int | None:
    """Writes the index of aborted transactions for a group's replacement; returns the number of entries. None: neither
    the group nor its replacement has an index."""
    try:
        if not log.aborted.is_whole:
            raise _LogChanged
        indexes = [log.aborted.indexes[base] for base in bases if base in log.aborted.indexes]
        if not indexes:
            return None
        kept = []
        for number, aborted in enumerate(chain.from_iterable(index.all() for index in indexes), 1):
            if cleaning.keeps_aborted(aborted):
                kept.append(aborted)
            if number % ABORTED_PER_STEP == 0:
                await turns.pause()
    except (DamagedIndex, FileNotFoundError) as error:
        log.aborted.distrust(str(error))
        raise _LogChanged from error  # the next pass finds a complete index
    try:
        file = await in_slices(AbortedIndex(disk, log.directory, bases[0]).write_whole(path, kept))
        await turns.syncing(file.sync)
    except (DiskFull, StorageError, OSError, _LogChanged):
        _forget(path, disk)
        raise
    return len(kept)


def _forget(path: str, disk: Disk) -> None:
    if disk.exists(path):  # otherwise it was removed with its log
        disk.remove(path)


def finish_swaps(directory: str, disk: Disk) -> bool:
    """On a start, completes replacements that were committed and discards others. Returns False if an index of aborted
    transactions may be from before the swap, because only one of two renames reached the disk."""
    names = disk.list(directory)
    is_certain = True
    for name in names:
        if name.endswith(".cleaned"):
            disk.remove(f"{directory}/{name}")
        elif name.endswith(OF_ABORTED) and name.removesuffix(OF_ABORTED) not in names:
            disk.remove(f"{directory}/{name}")
            is_certain = False
        elif name.endswith(".swap"):
            base, end = (int(part) for part in name.removesuffix(".swap").split("-"))
            has_aborted = f"{name}{OF_ABORTED}" in names
            for old in names:
                stem, _, suffix = old.partition(".")
                if suffix not in ("log", "index", "aborted") or not base <= int(stem) < end:
                    continue
                if suffix == "aborted" and int(stem) == base and not has_aborted:
                    continue  # it is the new one: an interrupted start renamed it already
                disk.remove(f"{directory}/{old}")
            if has_aborted:
                disk.rename(f"{directory}/{name}{OF_ABORTED}", segment_path(directory, base, "aborted"))
            disk.rename(f"{directory}/{name}", segment_path(directory, base))
            disk.sync_directory(directory)
    return is_certain


def _batches(segment: Segment) -> Iterator[BatchView]:
    for position, header in segment.headers():
        yield segment.batch_at(position, header)


def _held(key: bytes) -> bytes:
    return key if len(key) < KEY_BYTES_MAX else hashlib.blake2b(key, digest_size=KEY_BYTES_MAX).digest()
