"""The partition that a directory belongs to: Kafka's `partition.metadata`, with the partition's name added.

    version: 0
    topic_id: FPmgTsZ5TL2MyyLTNBqYEQ
    topic: orders
    partition: 3

A directory whose file names another partition was exchanged or copied. A directory without a complete file is older
than this file format, or lost power before the file was durable: the file is written again.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import NamedTuple

from chronik.runtime.interfaces import Disk, File
from chronik.wire.uuids import uuid_text

FILE = "partition.metadata"
TOPIC_ID_BYTES = 16
FILE_BYTES_MAX = 1024  # a topic's name has up to 249 characters


class PartitionName(NamedTuple):
    topic: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} (topic id {uuid_text(self.topic_id)})"

    def encode(self) -> bytes:
        lines = ("version: 0", f"topic_id: {uuid_text(self.topic_id)}", f"topic: {self.topic}")
        return "\n".join([*lines, f"partition: {self.partition}", ""]).encode()


def decode(data: bytes) -> PartitionName | None:
    """None if the file is incomplete."""
    fields = dict([line.partition(": ")[::2] for line in data.decode("utf-8", "replace").splitlines()])
    try:
        name = PartitionName(fields["topic"], urlsafe_b64decode(fields["topic_id"] + "=="), int(fields["partition"]))
    except (KeyError, ValueError):
        return None
    return name if len(name.topic_id) == TOPIC_ID_BYTES and data.endswith(b"\n") else None


def read(disk: Disk, directory: str) -> PartitionName | None:
    path = f"{directory}/{FILE}"
    return decode(disk.read_file(path)) if disk.exists(path) else None


def write(disk: Disk, directory: str, name: PartitionName) -> File:
    """Writes it if it is missing. Until the returned file is synced, a power cut may remove it."""
    file = disk.open(f"{directory}/{FILE}", create=True)
    if bytes(file.read(0, FILE_BYTES_MAX)) != name.encode():
        file.truncate(0)
        file.append([name.encode()])
    return file
