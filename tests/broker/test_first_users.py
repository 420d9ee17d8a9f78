"""The first users of a cluster: written before its first start, brought once, and never brought back."""

from __future__ import annotations

import pytest

from chronik.broker.errors import CannotStart
from chronik.broker.first_users import FILE, credential_of, read_first_users, write_first_users
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials, ScramDeletion
from chronik.metadata.image import ScramKey
from chronik.sim.disk import SimDisk
from chronik.wire.scram import SHA_512, salted_password
from tests.broker.hostile import World, run

SALTED = salted_password(SHA_512, "top", b"salt", 4096)
ADMIN = credential_of("admin", SHA_512, b"salt", 4096, SALTED)
PATH = f"/data/{FILE}"


def test_what_is_written_is_read_and_holds_no_password() -> None:
    disk = SimDisk(0)
    assert read_first_users(disk, "/data") == []
    write_first_users(disk, "/data", [ADMIN])
    assert read_first_users(disk, "/data") == [ADMIN]
    assert b"top" not in disk.read_file(PATH)


@pytest.mark.parametrize("data", [b"", b"{}x", b'[{"name": "x"}]', b'[{"name": "x", "mechanism": "MD5"}]', b"[1]"])
def test_a_file_that_is_something_else_stops_the_start(data: bytes) -> None:
    disk = SimDisk(0)
    disk.make_directory("/data")
    disk.replace_file(PATH, data)
    with pytest.raises(CannotStart, match=FILE):
        read_first_users(disk, "/data")


def test_a_node_brings_them_once() -> None:
    async def story() -> None:
        disk = SimDisk(0)
        write_first_users(disk, "/data", [ADMIN])
        world = await World.make(disk)
        assert list(world.node.store.image.scram) == [ScramKey("admin", 2)]
        assert not disk.exists(PATH)
        gone = ScramDeletion(name="admin", mechanism=2)
        await world.node.store.submit(AlterScramCredentials(deletions=[gone], upsertions=[]))
        await world.node.stop()
        again = await World.make(disk)
        assert list(again.node.store.image.scram) == []
        await again.node.stop()

    run(story())


def test_a_cluster_that_has_users_takes_none() -> None:
    """A node whose file was forgotten for a month must not bring a password of then."""

    async def story() -> None:
        disk = SimDisk(0)
        world = await World.make(disk)
        other = credential_of("other", SHA_512, b"salt", 4096, SALTED)
        await world.node.store.submit(AlterScramCredentials(deletions=[], upsertions=[other]))
        await world.node.stop()
        write_first_users(disk, "/data", [ADMIN])
        world = await World.make(disk)
        assert list(world.node.store.image.scram) == [ScramKey("other", 2)]
        assert not disk.exists(PATH)
        await world.node.stop()

    run(story())
