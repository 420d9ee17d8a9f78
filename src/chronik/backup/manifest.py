"""The manifest of a backup: what was backed up, the files, and their expected contents.

It is the last file that a backup writes, and the only one that it replaces. Record files never change after the
manifest names them, so an interrupted backup leaves the previous backup intact. The text includes its own SHA-256. This
module does no I/O.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from chronik.backup.errors import Damaged, NotABackup

FORMAT: Final = "chronik-backup"
VERSION: Final = 1
NAME: Final = "manifest.json"
# Kafka's rule for topic names. A name becomes a directory, so a manifest must not contain anything else.
TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
FILE_NAME: Final = re.compile(r"records/(?!\.{1,2}/)[a-zA-Z0-9._-]{1,249}/\d{1,10}/\d{20}\.batches")


@dataclass(frozen=True, slots=True)
class RecordFile:
    """Consecutive whole batches of one partition, as they were fetched."""

    name: str  # relative to the backup directory
    size_bytes: int
    sha256: str
    first_offset: int  # of the first batch
    next_offset: int  # after the last batch
    batch_count: int
    record_count: int
    batch_bytes_max: int


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """The backup covers `start_offset` to `end_offset`. An offset in no file has no committed record."""

    partition: int
    start_offset: int
    end_offset: int
    files: tuple[RecordFile, ...] = ()

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def record_count(self) -> int:
        """Counts whole batches: the first may begin before `start_offset`."""
        return sum(file.record_count for file in self.files)


@dataclass(frozen=True, slots=True)
class TopicBackup:
    name: str
    topic_id: str  # hexadecimal; all zeros if the broker is too old to report it
    replication_factor: int
    configs: Mapping[str, str]  # configs set on the topic itself
    partitions: tuple[PartitionBackup, ...]

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def record_count(self) -> int:
        return sum(partition.record_count for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class GroupOffset:
    topic: str
    partition: int
    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class Manifest:
    cluster_id: str
    taken_at: str  # time of the last backup into this directory; ISO 8601 with zone
    topics: tuple[TopicBackup, ...]
    groups: Mapping[str, tuple[GroupOffset, ...]] = field(default_factory=dict)
    acls: tuple[tuple[int | str, ...], ...] = ()  # fields of `metadata.access.AccessRule`
    quotas: tuple[Mapping[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()  # sentences for the user

    @property
    def size_bytes(self) -> int:
        return sum(topic.size_bytes for topic in self.topics)

    def topic(self, name: str) -> TopicBackup | None:
        return next((topic for topic in self.topics if topic.name == name), None)

    def only(self, names: Sequence[str]) -> Manifest:
        """Restricted to these topics: without the others' group offsets."""
        wanted = set(names)
        groups = {
            group: kept
            for group, offsets in self.groups.items()
            if (kept := tuple(each for each in offsets if each.topic in wanted))
        }
        return replace(self, topics=tuple(topic for topic in self.topics if topic.name in wanted), groups=groups)


def to_text(manifest: Manifest) -> str:
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    document["sha256"] = _digest(document)
    return json.dumps(document, indent=1, ensure_ascii=True) + "\n"


def from_text(text: str, where: str) -> Manifest:
    """Raises NotABackup, or Damaged if the text was altered."""
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise Damaged(f"{where} is damaged: it is not JSON ({fault})") from fault
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotABackup(f"{where} is not the manifest of a backup by `chronik backup`")
    if document.get("version") != VERSION:
        raise NotABackup(
            f"{where} has format version {document.get('version')!r}; this chronik reads version {VERSION}: "
            "use the version of chronik that wrote it"
        )
    told = document.pop("sha256", None)
    if told != _digest(document):
        raise Damaged(f"{where} is damaged: its SHA-256 does not match")
    try:
        return _manifest(document)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise Damaged(f"{where} is damaged: {type(fault).__name__} {fault}") from fault


def _digest(document: Mapping[str, Any]) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _manifest(document: Mapping[str, Any]) -> Manifest:
    return Manifest(
        cluster_id=document["cluster_id"],
        taken_at=document["taken_at"],
        topics=tuple(map(_topic, document["topics"])),
        groups={group: tuple(GroupOffset(**each) for each in offsets) for group, offsets in document["groups"].items()},
        acls=tuple(tuple(rule) for rule in document["acls"]),
        quotas=tuple(document["quotas"]),
        left_out=tuple(document["left_out"]),
    )


def _topic(document: Mapping[str, Any]) -> TopicBackup:
    name = document["name"]
    if not TOPIC_NAME.fullmatch(name):
        raise ValueError(f"topic {name!r}")
    partitions = tuple(
        PartitionBackup(**{**each, "files": tuple(RecordFile(**file) for file in each["files"])})
        for each in document["partitions"]
    )
    if [each.partition for each in partitions] != list(range(len(partitions))):
        raise ValueError(f"partitions of topic {name!r}")
    for file in (file for each in partitions for file in each.files):
        if not FILE_NAME.fullmatch(file.name):
            raise ValueError(f"file {file.name!r}")
    return TopicBackup(**{**document, "partitions": partitions})
