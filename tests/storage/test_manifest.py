"""A data directory that lacks a file which it must have is not opened, and nothing in it is changed."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import CannotRecover, CorruptManifest, DataMissing
from chronik.storage.logs import Logs
from chronik.storage.manifest import Manifest, require_all
from tests.storage.driving import DIRECTORY, append, batch, durable, open_logs, run, runtime_on, topic_id, values_of


def test_a_manifest_is_read_as_it_was_written() -> None:
    manifest = Manifest(journal=7, checkpoint=3)
    assert Manifest.decode("/data/manifest", manifest.encode()) == manifest


def test_every_damaged_byte_of_a_manifest_is_noticed() -> None:
    whole = Manifest(journal=12, checkpoint=9).encode()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        with pytest.raises(CorruptManifest, match="chronik storage repair /data"):
            Manifest.decode("/data/manifest", bytes(damaged))


@pytest.mark.parametrize(
    ("promised", "checkpoint", "journals", "missing"),
    [
        (Manifest(0, 0), None, [0], None),
        (Manifest(2, 0), None, [0, 1, 2], None),
        (Manifest(2, 0), 2, [2], None),
        (Manifest(2, 1), 2, [1, 2, 3], None),  # begun, and the power went before the manifest said so
        (Manifest(0, 0), None, [], "journal/00000000000000000000.journal"),
        (Manifest(2, 0), None, [0, 2], "journal/00000000000000000001.journal"),
        (Manifest(2, 0), 1, [1], "journal/00000000000000000002.journal"),
        (Manifest(2, 0), None, [2], "checkpoint"),  # written since, or the older journals would be there
        (Manifest(3, 2), None, [2, 3], "checkpoint"),
        (Manifest(3, 2), 1, [1, 2, 3], "checkpoint"),
    ],
)
def test_what_is_missing_is_named(
    promised: Manifest, checkpoint: int | None, journals: list[int], missing: str | None
) -> None:
    if missing is None:
        require_all("/data", promised, checkpoint=checkpoint, journals=journals)
        return
    with pytest.raises(DataMissing, match=f"^/data/{missing} is not what this node wrote"):
        require_all("/data", promised, checkpoint=checkpoint, journals=journals)


async def _written(disk: SimDisk, *, starts: int, is_closed: bool) -> None:
    """Each start appends one record; the last process is closed, or killed."""
    for start in range(starts):
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"%d" % start]))
        await durable(log)
        if is_closed or start % 2:
            await logs.close()
        else:
            disk.unlock(f"{DIRECTORY}/.lock")


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("starts", [1, 2, 3])
def test_no_file_that_recovery_needs_can_go_unnoticed(starts: int, is_closed: bool) -> None:
    """Each file separately, after clean stops and kills. Either the node refuses to start, or none of its data is
    missing."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await _written(disk, starts=starts, is_closed=is_closed)
        journals = [f"journal/{name}" for name in disk.list(f"{DIRECTORY}/journal")]
        refused = []
        for name in [*journals, "checkpoint", "manifest"]:
            if not disk.exists(f"{DIRECTORY}/{name}"):
                continue
            copy = SimDisk(1)
            await _written(copy, starts=starts, is_closed=is_closed)
            copy.remove(f"{DIRECTORY}/{name}")
            before = _everything(copy)
            try:
                logs = await Logs.open(runtime_on(copy), DIRECTORY, LogsConfig(), is_used=True)
            except CannotRecover:
                refused.append(name)
                assert _everything(copy) == before, "a node that does not start changes nothing"
                continue
            log = logs.get(topic_id(1), 0)
            assert log is not None
            assert values_of(log) == [b"%d" % start for start in range(starts)]
        assert "manifest" in refused
        assert journals[-1] in refused

    run(scenario)


def _everything(disk: SimDisk, directory: str = DIRECTORY) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if name == ".lock":
            continue
        try:
            found[path] = disk.read_file(path)
        except OSError:
            found |= _everything(disk, path)
    return found


def test_a_directory_of_a_release_without_a_manifest_is_opened_and_gets_one() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await _written(disk, starts=2, is_closed=True)
        disk.remove(f"{DIRECTORY}/manifest")
        logs = await open_logs(disk)
        log = logs.get(topic_id(1), 0)
        assert log is not None
        assert values_of(log) == [b"0", b"1"]
        assert disk.exists(f"{DIRECTORY}/manifest")

    run(scenario)


def test_a_full_disk_is_opened_with_the_reserve() -> None:
    """The manifest must be written at every start, and a node that cannot start cannot make room by retention."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        await logs.maintain(0)
        await logs.close()
        assert disk.exists(f"{DIRECTORY}/reserve")
        disk.capacity_bytes = None
        disk.capacity_bytes = disk.total_bytes("/") - disk.free_bytes("/")
        await open_logs(disk)
        assert not disk.exists(f"{DIRECTORY}/reserve")

    run(scenario)
