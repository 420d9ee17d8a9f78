"""The first access rules of a cluster: written before its first start, brought once, and never brought back."""

from __future__ import annotations

import pytest

from chronik.broker.errors import CannotStart
from chronik.broker.first_rules import FILE, read_first_rules, write_first_rules
from chronik.broker.settings.access import STANDARD
from chronik.metadata.access import ALLOW, PREFIXED, AccessRule
from chronik.metadata.commands.delete_acls import DeleteAcls
from chronik.sim.disk import SimDisk
from tests.broker.hostile import World, run
from tests.metadata.access_commands import acl_filter

RULE = AccessRule(2, "alice-", PREFIXED, "User:alice", "*", 4, ALLOW)
PATH = f"/data/{FILE}"


def test_what_is_written_is_read() -> None:
    disk = SimDisk(0)
    assert read_first_rules(disk, "/data") == []
    write_first_rules(disk, "/data", [RULE])
    assert read_first_rules(disk, "/data") == [RULE]


@pytest.mark.parametrize(
    "data", [b"", b"{}x", b"[1]", b'[{"name": "x"}]', b'[{"kind": "2", "name": "x", "pattern": 3}]', b'[{"k": 1}]']
)
def test_a_file_that_is_something_else_stops_the_start(data: bytes) -> None:
    """Going on without its rules would deny what an operator relies on, or allow it."""
    disk = SimDisk(0)
    disk.make_directory("/data")
    disk.replace_file(PATH, data)
    with pytest.raises(CannotStart, match=FILE):
        read_first_rules(disk, "/data")


def test_a_value_of_the_wrong_type_stops_the_start() -> None:
    disk = SimDisk(0)
    write_first_rules(disk, "/data", [RULE._replace(kind="TOPIC")])  # type: ignore[arg-type]
    with pytest.raises(CannotStart, match=FILE):
        read_first_rules(disk, "/data")


def test_a_node_brings_them_once() -> None:
    """What an operator removed stays removed."""

    async def story() -> None:
        disk = SimDisk(0)
        write_first_rules(disk, "/data", [RULE])
        world = await World.make(disk, authorizer_class_name=STANDARD)
        assert list(world.node.store.image.access) == [RULE]
        assert not disk.exists(PATH)
        await world.node.store.submit(DeleteAcls(filters=[acl_filter()]))
        await world.node.stop()
        again = await World.make(disk, authorizer_class_name=STANDARD)
        assert list(again.node.store.image.access) == []
        await again.node.stop()

    run(story())


def test_a_node_without_an_authorizer_does_not_start_with_rules() -> None:
    """The rules promise a protection that this node would not give."""

    async def story() -> None:
        disk = SimDisk(0)
        write_first_rules(disk, "/data", [RULE])
        with pytest.raises(CannotStart, match=r"authorizer\.class\.name"):
            await World.make(disk)
        assert disk.exists(PATH)

    run(story())


def test_a_rule_that_the_controller_refuses_stops_the_start() -> None:
    async def story() -> None:
        disk = SimDisk(0)
        write_first_rules(disk, "/data", [RULE._replace(principal="alice")])
        with pytest.raises(CannotStart, match="write User:alice"):
            await World.make(disk, authorizer_class_name=STANDARD)

    run(story())
