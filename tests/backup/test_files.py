"""The files of a backup: written data is read back, and damaged data is reported."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from chronik.backup.errors import BackupError, Damaged, NotABackup
from chronik.backup.files import (
    PartitionWriter,
    batches_of,
    opened_for_backup,
    read_manifest,
    write_manifest,
)
from chronik.backup.manifest import GroupOffset, Manifest, PartitionBackup, RecordFile, TopicBackup
from chronik.backup.restoring import Progress, checked
from chronik.wire.batches import BatchView, build, split
from chronik.wire.records import Record
from tests.backup.conftest import logs


def written(directory: Path, batches: list[BatchView], end: int, file_bytes_max: int = 200) -> Manifest:
    writer = PartitionWriter(directory, "orders", 0, file_bytes_max=file_bytes_max)
    for batch in batches:
        writer.append(batch)
    partition = PartitionBackup(0, 0, end, writer.close())
    topic = TopicBackup("orders", "00" * 16, 1, {"retention.ms": "5"}, (partition,))
    groups = {"billing": (GroupOffset("orders", 0, 3, "note"),)}
    manifest = Manifest("cluster", "2026-11-18T20:00:00+00:00", (topic,), groups, (), (), ("passwords",))
    write_manifest(directory, manifest)
    return manifest


def verify(directory: Path) -> None:
    asyncio.run(checked(directory, read_manifest(directory), Progress()))


def three_records(directory: Path) -> Manifest:
    batches = [split(memoryview(build([Record(offset, 5, b"k", b"value")])))[0] for offset in range(3)]
    return written(directory, batches, 3)


@settings(max_examples=25)  # each writes and syncs files
@given(logs())
def test_batches_are_read_back_as_they_were_written(log: tuple[list[BatchView], int, int]) -> None:
    """Byte for byte, whatever is in them and wherever one file ends and the next begins."""
    batches, _, end = log
    with tempfile.TemporaryDirectory() as name:
        manifest = written(Path(name), batches, end)
        assert read_manifest(Path(name)) == manifest
        read = list(batches_of(Path(name), manifest.topics[0].partitions[0]))
        assert [bytes(batch.data) for batch in read] == [bytes(batch.data) for batch in batches]


def damages(before: bytes) -> Iterator[bytes | None]:
    """Each byte changed, each length, something added, and the file removed."""
    for at, byte in enumerate(before):
        yield before[:at] + bytes([byte ^ 1]) + before[at + 1 :]
    for size in range(len(before)):
        yield before[:size]
    yield before + before[:1]
    yield before + before
    yield None


def test_any_damage_is_found_and_the_file_named(tmp_path: Path) -> None:
    """A backup that is restored with a flipped bit is worse than none. No checksum of a batch covers its offset."""
    three_records(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".batches"}
    for path in files:
        before = path.read_bytes()
        for damaged in damages(before):
            if damaged is None:
                path.unlink()
            elif damaged.strip() == before.strip():
                continue  # blanks at the end of the manifest
            else:
                path.write_bytes(damaged)
            with pytest.raises((Damaged, NotABackup), match=path.name):
                verify(tmp_path)
        path.write_bytes(before)


def test_an_interrupted_backup_leaves_the_one_before(tmp_path: Path) -> None:
    """Its files have no name in the manifest, and the next backup removes them."""
    manifest = three_records(tmp_path)
    writer = PartitionWriter(tmp_path, "orders", 0)
    writer.append(split(memoryview(build([Record(3, 5, b"k", b"value")])))[0])
    writer.abandon()
    assert read_manifest(tmp_path) == manifest
    verify(tmp_path)
    left = tmp_path / "records/orders/0/00000000000000000003.batches"
    assert left.exists()
    with opened_for_backup(tmp_path) as before:
        assert before == manifest
    assert not left.exists()
    assert all((tmp_path / file.name).exists() for file in manifest.topics[0].partitions[0].files)


def test_a_backup_without_a_manifest_is_called_incomplete(tmp_path: Path) -> None:
    """Restoring half of it would look like success."""
    writer = PartitionWriter(tmp_path, "orders", 0)
    writer.append(split(memoryview(build([Record(0, 5, None, b"x")])))[0])
    writer.abandon()
    with pytest.raises(NotABackup, match=r"was not completed.*chronik backup"):
        read_manifest(tmp_path)


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    """`chronik backup ~` is a slip of the finger."""
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(NotABackup, match=r"notes\.txt"), opened_for_backup(tmp_path):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_two_backups_into_one_directory_do_not_mix(tmp_path: Path) -> None:
    """A timer that starts the next while the last still runs."""
    with opened_for_backup(tmp_path), pytest.raises(BackupError, match="another"), opened_for_backup(tmp_path):
        pass


def test_a_manifest_cannot_name_files_outside_of_the_backup(tmp_path: Path) -> None:
    """A backup may come from an untrusted source."""
    manifest = three_records(tmp_path)
    partition = manifest.topics[0].partitions[0]
    stolen = RecordFile("../../etc/passwd", 1, "", 0, 1, 1, 1, 1)
    topic = TopicBackup("orders", "00" * 16, 1, {}, (PartitionBackup(0, 0, partition.end_offset, (stolen,)),))
    write_manifest(tmp_path, Manifest("cluster", "now", (topic,)))
    with pytest.raises(Damaged, match="passwd"):
        read_manifest(tmp_path)
