"""A truncated or changed meta.properties: the node reports it, and never uses another node's directory by mistake."""

from __future__ import annotations

import pytest

from chronik.broker.errors import CannotStart
from chronik.broker.identity import FILE, Identity, read_identity
from chronik.sim.disk import SimDisk
from tests.replication.small import machine

WRITTEN = Identity(3, "DMWae-XU9oEqDguIEjo4DA", bytes(range(16)), is_used=True)


def read(data: bytes) -> Identity | None:
    disk = SimDisk(0)
    disk.make_directory("/data")
    disk.replace_file(f"/data/{FILE}", data)
    return read_identity(machine(disk, 0), "/data", WRITTEN.node_id)


def test_what_was_written_is_read() -> None:
    assert read(WRITTEN.encode()) == WRITTEN


def test_a_file_that_was_cut_anywhere_is_no_other_identity() -> None:
    """With another directory id the node would copy all its replicas; without `chronik.used` it would be new."""
    data = WRITTEN.encode()
    lines = data.splitlines(keepends=True)
    at_lines = {sum(map(len, lines[:count])) for count in (3, 4)}  # as older releases and Kafka's tool write it
    for size_bytes in range(len(data) - 1):
        if {size_bytes, size_bytes + 1} & at_lines:
            continue
        with pytest.raises(CannotStart, match=r"was cut or damaged|belongs to node|is of version"):
            read(data[:size_bytes])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"directory.id=!", "is no id"),
        (b"directory.id=AAAA", "is no id"),
        (b"chronik.used=tru", "it ends with"),
        (b"chronik.us", "it ends with"),
    ],
)
def test_a_wrong_value_is_named(line: bytes, said: str) -> None:
    data = Identity(3, "c", bytes(16)).encode().replace(b"directory.id=AAAAAAAAAAAAAAAAAAAAAA\n", b"") + line
    with pytest.raises(CannotStart, match=said):
        read(data)
