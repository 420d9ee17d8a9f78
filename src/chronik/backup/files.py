"""The files of a backup: writes them durably, and verifies everything when reading.

A directory holds `manifest.json` and `records/TOPIC/PARTITION/FIRST_OFFSET.batches`. A file is synced before the
manifest names it, and the manifest is synced before it replaces the previous one. Files that no manifest names come
from an interrupted backup; the next backup removes them. Reading holds one batch in memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from chronik.backup.errors import BackupError, Damaged, DoesNotContinue, NotABackup
from chronik.backup.manifest import FILE_NAME, NAME, Manifest, PartitionBackup, RecordFile, from_text, to_text
from chronik.wire.batches import HEADER_BYTES, LENGTH_COVERS_FROM, BatchView, crc_holds, split
from chronik.wire.errors import Malformed

FILE_BYTES_MAX: Final = 256 << 20  # then the next batch starts a new file
LOCK: Final = ".lock"
PIECE_BYTES: Final = 4 << 20  # read without yielding to the event loop
LENGTH_AT: Final = 8


# --- the manifest


def read_manifest(directory: Path) -> Manifest:
    """Raises NotABackup, or Damaged."""
    path = directory / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if (directory / "records").is_dir():
            raise NotABackup(
                f"{directory} holds a backup that was not completed: it has no {NAME}. "
                f"Run `chronik backup {directory}` again"
            ) from None
        raise NotABackup(f"{directory} holds no backup: there is no {NAME}") from None
    except UnicodeDecodeError as fault:
        raise Damaged(f"{path} is damaged: it is not UTF-8") from fault
    except OSError as fault:
        raise BackupError(f"cannot read {path}: {fault.strerror}") from fault
    return from_text(text, str(path))


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Replaces the previous one atomically. Every file that it names must be synced already."""
    path = directory / NAME
    made = path.with_suffix(".tmp")
    with made.open("w", encoding="utf-8") as file:
        file.write(to_text(manifest))
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)
    _sync_directory(directory)


@contextmanager
def opened_for_backup(directory: Path) -> Iterator[Manifest | None]:
    """Locks the directory, creates it if necessary, and removes files of an interrupted backup.

    Yields the previous manifest, or None. Raises NotABackup for a directory that holds something else.
    """
    directory.mkdir(parents=True, exist_ok=True)
    number = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"another `chronik backup` is writing to {directory}: wait until it ends") from None
        foreign = sorted({each.name for each in directory.iterdir()} - {NAME, "manifest.tmp", LOCK, "records"})
        if foreign:
            raise NotABackup(
                f"{directory} holds {foreign[0]!r}, which is not part of a backup: name an empty directory"
            )
        before = read_manifest(directory) if (directory / NAME).exists() else None
        _remove_unnamed(directory, before)
        yield before
    finally:
        os.close(number)


def _remove_unnamed(directory: Path, manifest: Manifest | None) -> None:
    named = (
        {file.name for topic in manifest.topics for each in topic.partitions for file in each.files}
        if manifest
        else set()
    )
    for path in sorted((directory / "records").rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file() and FILE_NAME.fullmatch(name) and name not in named:
            path.unlink()


# --- records


class PartitionWriter:
    """Appends the batches of one partition to new files. `close` returns the written files."""

    def __init__(self, directory: Path, topic: str, partition: int, *, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        self._root = directory
        self._place = Path("records", topic, str(partition))
        self._file_bytes_max = file_bytes_max
        self._number = -1
        self._files: list[RecordFile] = []
        self._open: _OpenFile | None = None

    def append(self, batch: BatchView) -> None:
        if self._open is not None and self._open.size_bytes + batch.size_bytes > self._file_bytes_max:
            self._finish()
        if self._open is None:
            folder = self._root / self._place
            folder.mkdir(parents=True, exist_ok=True)
            name = self._place / f"{batch.base_offset:020}.batches"
            self._open = _OpenFile(self._root, name.as_posix(), batch.base_offset)
        self._open.append(batch)

    def close(self) -> tuple[RecordFile, ...]:
        """Returns when all files are durable."""
        if self._open is not None:
            self._finish()
        if self._files:
            for folder in (self._root / self._place, *(self._root / self._place).parents[:3]):
                _sync_directory(folder)
        return tuple(self._files)

    def abandon(self) -> None:
        """After an error: written files stay, but no manifest names them."""
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def _finish(self) -> None:
        assert self._open is not None
        self._files.append(self._open.finish())
        self._open = None


class _OpenFile:
    def __init__(self, root: Path, name: str, first_offset: int) -> None:
        self._file = (root / name).open("xb")
        self._name = name
        self._first_offset = first_offset
        self._next_offset = first_offset
        self._digest = hashlib.sha256()
        self._batch_count = self._record_count = self._batch_bytes_max = 0
        self.size_bytes = 0

    def append(self, batch: BatchView) -> None:
        self._file.write(batch.data)
        self._digest.update(batch.data)
        self.size_bytes += batch.size_bytes
        self._batch_count += 1
        self._record_count += batch.record_count
        self._batch_bytes_max = max(self._batch_bytes_max, batch.size_bytes)
        self._next_offset = batch.next_offset

    def finish(self) -> RecordFile:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return RecordFile(
            self._name,
            self.size_bytes,
            self._digest.hexdigest(),
            self._first_offset,
            self._next_offset,
            self._batch_count,
            self._record_count,
            self._batch_bytes_max,
        )

    def abandon(self) -> None:
        with suppress(OSError):
            self._file.close()


def batches_of_file(directory: Path, file: RecordFile) -> Iterator[BatchView]:
    """The batches in order. Raises Damaged, at the latest at the end, if the file was altered."""
    path = directory / file.name
    digest = hashlib.sha256()
    size_bytes = batch_count = record_count = 0
    next_offset = file.first_offset
    try:
        with path.open("rb") as opened:
            while header := opened.read(HEADER_BYTES):
                batch_bytes = int.from_bytes(header[LENGTH_AT:LENGTH_COVERS_FROM], signed=True) + LENGTH_COVERS_FROM
                if not HEADER_BYTES <= batch_bytes <= file.size_bytes - size_bytes:
                    raise Damaged(f"{path} is damaged at byte {size_bytes}: no batch has {batch_bytes} bytes there")
                data = header + opened.read(batch_bytes - HEADER_BYTES)
                digest.update(data)
                try:
                    [batch] = split(memoryview(data))
                except Malformed as fault:
                    raise Damaged(f"{path} is damaged at byte {size_bytes}: {fault}") from fault
                if not crc_holds(batch):
                    raise Damaged(f"{path} is damaged at byte {size_bytes}: the CRC of the batch does not match")
                if batch.base_offset < next_offset or batch.last_offset_delta < 0:
                    raise Damaged(f"{path} is damaged at byte {size_bytes}: offset {batch.base_offset} is out of order")
                size_bytes += batch_bytes
                batch_count += 1
                record_count += batch.record_count
                next_offset = batch.next_offset
                yield batch
    except FileNotFoundError:
        raise Damaged(f"{path} is missing") from None
    except OSError as fault:
        raise BackupError(f"cannot read {path}: {fault.strerror}") from fault
    found = (size_bytes, batch_count, record_count, next_offset, digest.hexdigest())
    if found != (file.size_bytes, file.batch_count, file.record_count, file.next_offset, file.sha256):
        what = (
            f"{size_bytes} of {file.size_bytes} bytes"
            if size_bytes != file.size_bytes
            else "its SHA-256 does not match"
        )
        raise Damaged(f"{path} is damaged: {what}")


def batches_of(directory: Path, partition: PartitionBackup) -> Iterator[BatchView]:
    """The batches of all files of a partition. Raises Damaged."""
    next_offset = 0
    for file in partition.files:
        if not next_offset <= file.first_offset <= file.next_offset <= partition.end_offset:
            raise Damaged(f"{directory / NAME} is damaged: {file.name} is out of order")
        yield from batches_of_file(directory, file)
        next_offset = file.next_offset


def ensure_extends(before: PartitionBackup, start_offset: int, end_offset: int, at: str) -> None:
    """Raises DoesNotContinue if the log ends before the previous backup's end."""
    if end_offset < before.end_offset:
        raise DoesNotContinue(
            f"{at} ends at offset {end_offset}, but offsets up to {before.end_offset} were backed up before: "
            "the log went back. Use a new directory"
        )
    if not 0 <= start_offset <= end_offset:
        raise DoesNotContinue(f"{at} has offsets {start_offset} to {end_offset}")


def _sync_directory(path: Path) -> None:
    number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
