"""A data directory records which processes registered with it, so that an old copy of it is recognised."""

from __future__ import annotations

import asyncio

import pytest

from chronik.broker.registrations import KEPT_MAX, Registrations
from chronik.runtime.interfaces import Disk
from chronik.sim.disk import SimDisk
from tests.broker.harness import SeededRandomness, start_node

RANDOMNESS = SeededRandomness(1)


def starting(disk: SimDisk, *, is_used: bool = True) -> Registrations:
    return Registrations(disk, "/data", is_used=is_used)


def test_a_process_names_the_one_that_registered_before_it() -> None:
    disk = SimDisk(1)
    disk.make_directory("/data")
    first = starting(disk, is_used=False)
    assert first.earlier is None, "a new directory cannot tell"
    first.begin(RANDOMNESS)
    first = starting(disk, is_used=False)
    assert first.earlier is None, "nor can one with which nobody is known to have registered"
    first_id = first.begin(RANDOMNESS)
    first.confirm()
    second = starting(disk)
    assert second.earlier == [first_id]


def test_all_who_tried_are_named_until_one_is_known_to_have_registered() -> None:
    """The power may go after the controller took a registration and before its answer came."""
    disk = SimDisk(1)
    disk.make_directory("/data")
    tried = [starting(disk).begin(RANDOMNESS) for _ in range(3)]
    last = starting(disk)
    assert last.earlier == tried
    last_id = last.begin(RANDOMNESS)
    last.confirm()
    assert starting(disk).earlier == [last_id]


def test_what_a_process_told_the_controller_survives_a_power_cut() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        disk.make_directory("/data")
        told = starting(disk).begin(RANDOMNESS)
        assert starting(disk.power_cut()).earlier == [told]


def test_a_used_directory_without_the_file_knows_nobody() -> None:
    """It must not pass for a directory of a release that did not write the file."""
    disk = SimDisk(1)
    disk.make_directory("/data")
    assert starting(disk, is_used=True).earlier == []
    disk.replace_file("/data/registrations", b"garbage\nmore\n")
    assert starting(disk, is_used=True).earlier == []


def test_the_file_does_not_grow_without_bound() -> None:
    disk = SimDisk(1)
    disk.make_directory("/data")
    ids = b"".join([b"%032x\n" % number for number in range(5 * KEPT_MAX)])
    disk.replace_file("/data/registrations", ids)
    starting(disk).begin(RANDOMNESS)
    assert len(disk.read_file("/data/registrations").split()) == KEPT_MAX + 1


def test_a_disk_that_an_older_release_used_meanwhile_is_no_old_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """That release registered too, and kept neither manifest nor registrations: so they are not compared."""
    compared: list[bool] = []
    made = Registrations.__init__

    def note(self: Registrations, disk: Disk, directory: str, *, is_used: bool) -> None:
        compared.append(is_used)
        made(self, disk, directory, is_used=is_used)

    async def test() -> None:
        disk = SimDisk(0)
        monkeypatch.setattr(Registrations, "__init__", note)
        for _ in range(2):
            await (await start_node(disk)).stop()
        kept = {name: disk.read_file(f"/data/{name}") for name in ("manifest", "registrations")}
        await (await start_node(disk)).stop()
        for name, data in kept.items():
            disk.replace_file(f"/data/{name}", data)
        await (await start_node(disk)).stop()
        await (await start_node(disk)).stop()
        assert compared == [False, True, True, False, True]

    asyncio.run(test())
