"""A journal or checkpoint that was written for another data directory: a node that takes it for its own would believe
that it has acknowledged nothing of the partitions that the file does not know."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import checkpoint
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import CannotRecover
from chronik.storage.journal import journal_path
from chronik.storage.journal_format import RecordKind, identity, read_frames
from chronik.storage.logs import Logs
from chronik.storage.repair import is_whole, repair
from tests.storage.driving import DIRECTORY, append, batch, durable, run, runtime_on, topic_id, values_of

OWN, OTHER, NEW = b"own directory id", b"another node's id"[:16], b"drawn afterwards"
VALUES = [b"value %d" % number for number in range(8)]


async def opened(disk: SimDisk, owner: bytes = OWN) -> Logs:
    return await Logs.open(runtime_on(disk), DIRECTORY, LogsConfig(), owner=owner)


async def filled(owner: bytes, topic: int, *, has_checkpoint: bool) -> SimDisk:
    """A disk after kill -9, with half of the records behind the checkpoint, if there is one."""
    disk = SimDisk(1)
    logs = await opened(disk, owner)
    log = logs.create("t", topic_id(topic), 0, LogConfig())
    for number, value in enumerate(VALUES):
        append(log, batch([value]))
        await durable(log)
        if has_checkpoint and number == len(VALUES) // 2:
            await logs.checkpoint()
    return disk.process_killed()


def names(what: str, disk: SimDisk) -> list[str]:
    return [f"journal/{each}" for each in disk.list(f"{DIRECTORY}/journal")] if what == "journal" else [what]


def put(disk: SimDisk, files: dict[str, bytes]) -> None:
    for name in disk.list(f"{DIRECTORY}/journal"):
        if any(each.startswith("journal/") for each in files):
            disk.remove(f"{DIRECTORY}/journal/{name}")
    for name, data in files.items():
        disk.replace_file(f"{DIRECTORY}/{name}", data)


def taken(what: str, disk: SimDisk) -> dict[str, bytes]:
    return {name: disk.read_file(f"{DIRECTORY}/{name}") for name in names(what, disk)}


@pytest.mark.parametrize(("what", "has_checkpoint"), [("journal", False), ("journal", True), ("checkpoint", True)])
def test_the_file_of_another_directory_is_refused_and_changes_nothing(what: str, *, has_checkpoint: bool) -> None:
    async def scenario() -> None:
        disk = await filled(OWN, 1, has_checkpoint=has_checkpoint)
        other = await filled(OTHER, 2, has_checkpoint=has_checkpoint)
        own = taken(what, disk)
        put(disk, taken(what, other))
        before = disk.list(DIRECTORY)
        with pytest.raises(CannotRecover, match=rf"{DIRECTORY}/{what}.*was written for the data directory.*repair"):
            await opened(disk)
        assert disk.list(DIRECTORY) == before
        put(disk, own)
        logs = await opened(disk)
        log = logs.get(topic_id(1), 0)
        assert log is not None
        assert values_of(log) == VALUES

    run(scenario)


@pytest.mark.parametrize(("what", "has_checkpoint"), [("journal", False), ("journal", True), ("checkpoint", True)])
def test_a_repair_keeps_the_records_and_takes_nothing_from_the_file(what: str, *, has_checkpoint: bool) -> None:
    """The journal of a replica holds the same records at other positions."""

    async def scenario() -> None:
        disk = await filled(OWN, 1, has_checkpoint=has_checkpoint)
        other = await filled(OTHER, 1, has_checkpoint=has_checkpoint)
        put(disk, taken(what, other))
        assert not is_whole(disk, DIRECTORY, OWN)
        (rebuilt,) = repair(disk, DIRECTORY, owner=OWN)
        assert rebuilt.from_journal_bytes == 0
        logs = await opened(disk, NEW)
        log = logs.get(topic_id(1), 0)
        assert log is not None
        assert values_of(log) == VALUES

    run(scenario)


def test_a_directory_that_gets_its_id_later_names_it_from_then_on() -> None:
    """The first process of a node opens its logs before it knows the cluster."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await opened(disk, b"")
        await logs.belong_to(OWN)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"v"]))
        await durable(log)
        disk = disk.process_killed()
        with pytest.raises(CannotRecover, match="was written for"):
            await opened(disk, OTHER)
        assert (await opened(disk)).get(topic_id(1), 0) is not None

    run(scenario)


def test_a_directory_whose_identity_was_removed_starts_twice() -> None:
    """It gets another id, and its files name the old one until they are written again: a kill must find them so."""

    async def scenario() -> None:
        disk = await filled(OWN, 1, has_checkpoint=True)
        await (await opened(disk, b"")).belong_to(NEW)
        disk = disk.process_killed()
        logs = await opened(disk, NEW)
        log = logs.get(topic_id(1), 0)
        assert log is not None
        assert values_of(log) == VALUES

    run(scenario)


def test_files_of_a_release_that_names_no_directory_are_taken() -> None:
    async def scenario() -> None:
        disk = await filled(b"", 1, has_checkpoint=True)
        assert checkpoint.owner_in(disk.read_file(f"{DIRECTORY}/checkpoint")) is None
        logs = await opened(disk)
        assert logs.get(topic_id(1), 0) is not None
        await logs.checkpoint()
        assert checkpoint.owner_in(disk.read_file(f"{DIRECTORY}/checkpoint")) == OWN

    run(scenario)


def test_to_an_older_release_the_name_of_the_directory_is_a_deleted_log() -> None:
    """So that a node can go back to it. That release knows no other record that it would pass over."""

    async def scenario() -> None:
        disk = await filled(OWN, 1, has_checkpoint=False)
        frames, _ = read_frames(memoryview(disk.read_file(journal_path(f"{DIRECTORY}/journal", 0))))
        declared, dropped, log = frames[0].records[:3]
        assert (declared.kind, dropped.kind, log.kind) == (RecordKind.DECLARE, RecordKind.DROP, RecordKind.DECLARE)
        assert declared.handle == dropped.handle != log.handle
        assert identity(declared.data) == ("", OWN, -1)
        assert len(list((await opened(disk)).all())) == 1

    run(scenario)
