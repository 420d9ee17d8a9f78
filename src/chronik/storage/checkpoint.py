"""The node's checkpoint: up to where each log's files are complete, so that recovery need not read before that.

One text file for all logs, replaced as a whole, so that any number of logs costs one sync. Journals below `journal` are
void, because the segments hold everything in them; logs with KEPT are the exception. Pure functions.

    chronik checkpoint 1 CRC32C
    journal NUMBER
    TOPIC PARTITION TOPIC_ID SEGMENT POSITION OFFSET START COMPACTED EPOCHS PRODUCERS BASES SPARSE NAMED KEPT DIGEST
        ABORTED [OWNER]

BASES are the base offsets of all segments up to SEGMENT, and "-" for a log that may be compacted: compaction joins
segments without a checkpoint. Below SPARSE offsets may be missing, because this or another replica was compacted. NAMED
is 1 when the directory's partition.metadata is durable. KEPT is the first journal that holds records of a log whose own
directory is elsewhere: they are put into its segments when it is back; else "-". DIGEST is that of SEGMENT's batches
below POSITION, or "-". ABORTED lists the base offsets of segments with an index of aborted
transactions, each with its number of entries, as BASE:COUNT. OWNER is the id of the data directory; it stands in the
first line that has all other columns, and nowhere else. In an older release a line ends before BASES, KEPT, DIGEST
or ABORTED, and the aborted transactions stand in PRODUCERS.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, NamedTuple

from chronik.runtime.invariants import check
from chronik.storage.errors import CorruptCheckpoint
from chronik.wire.checksums import crc32c

if TYPE_CHECKING:
    from chronik.storage.log import Log

TITLE = "chronik checkpoint 1"
COLUMNS = 16  # without OWNER
TEXT_BYTES = 3 << 14  # that become text at once; of three bytes four letters are made, without padding


class LogPoint(NamedTuple):
    """The log's files are synced below `offset`, at `position` of the segment with the base offset `segment`."""

    topic: str
    partition: int
    topic_id: bytes
    segment: int
    position: int
    offset: int
    start_offset: int
    compacted_offset: int
    epochs: list[tuple[int, int]]
    producers: bytes  # a snapshot as of `offset`
    # Base offsets of the segments that must exist, unless they are below the log's start. None: unknown.
    bases: list[int] | None = None
    sparse_offset: int = 0  # below it, offsets may be missing
    is_named: bool = False  # the log's directory durably has its partition.metadata
    kept_from: int | None = None  # the first journal before the checkpoint's that this log needs
    digest: int | None = None  # digest of the batches below `position`
    aborted: dict[int, int] | None = None  # entries by segment in indexes of aborted transactions; None: in `producers`

    def require_sound(self) -> None:
        """Checks a point that was taken from a log. The point of a log that recovery reads again has no offset yet."""
        check(
            0 <= self.start_offset <= self.offset,
            "10 a log does not start behind its end",
            topic=self.topic,
            partition=self.partition,
            start=self.start_offset,
            end=self.offset,
        )
        check(
            self.segment <= self.offset and self.position >= 0,
            "28 a checkpoint names the last segment",
            topic=self.topic,
            partition=self.partition,
            segment=self.segment,
            offset=self.offset,
        )
        check(
            self.compacted_offset <= self.offset and self.sparse_offset <= max(self.offset, self.compacted_offset),
            "28 compaction stays below the end",
            topic=self.topic,
            partition=self.partition,
            compacted=self.compacted_offset,
            sparse=self.sparse_offset,
            end=self.offset,
        )
        check(
            self.epochs == sorted(self.epochs),
            "11 leader epochs rise with offsets",
            topic=self.topic,
            partition=self.partition,
            epochs=self.epochs,
        )
        check(
            self.bases is None or self.bases == sorted(set(self.bases)),
            "28 segments follow each other",
            topic=self.topic,
            partition=self.partition,
            bases=self.bases,
        )

    def line(self, producers_text: str | None = None) -> str:
        """`producers_text` is `as_text` of the producers, if it was computed before."""
        epochs = ",".join([f"{epoch}:{start}" for epoch, start in self.epochs]) or "-"
        producers = as_text(self.producers) if producers_text is None else producers_text
        bases = "-" if self.bases is None else ",".join(map(str, self.bases))
        return (
            f"{self.topic} {self.partition} {self.topic_id.hex()} {self.segment} {self.position} {self.offset} "
            f"{self.start_offset} {self.compacted_offset} {epochs} {producers}"
            f" {bases} {self.sparse_offset} {int(self.is_named)} {'-' if self.kept_from is None else self.kept_from}"
            f" {'-' if self.digest is None else self.digest}"
            + ("" if self.aborted is None else f" {_pairs(self.aborted) or '-'}")
        )

    @classmethod
    def parse(cls, line: str) -> LogPoint:
        fields = line.split(" ")
        topic, partition, topic_id, segment, position, offset, start, compacted, epochs, producers = fields[:10]
        bases = fields[10] if len(fields) > 10 else "-"
        pairs = [] if epochs == "-" else [pair.split(":") for pair in epochs.split(",")]
        return cls(
            topic,
            int(partition),
            bytes.fromhex(topic_id),
            int(segment),
            int(position),
            int(offset),
            int(start),
            int(compacted),
            [(int(epoch), int(start)) for epoch, start in pairs],
            b"" if producers == "-" else b64decode(producers),
            None if bases == "-" else [int(base) for base in bases.split(",")],
            int(fields[11]) if len(fields) > 11 else int(offset),
            fields[12:13] == ["1"],
            _number(fields[13:14]),
            _number(fields[14:15]),
            _counts(fields[15:16]),
        )


def as_text(data: bytes) -> str:
    """Returns Base64, converted piece by piece so that other threads can run."""
    pieces = [b64encode(data[at : at + TEXT_BYTES]) for at in range(0, len(data), TEXT_BYTES)]
    return b"".join(pieces).decode() or "-"


def state_of(log: Log) -> tuple[int, int, int, bool]:
    """A value that changes whenever the content of the log's line changes."""
    return log.generation, log.start_offset, log.end_offset, log.config.compacts


def _pairs(counts: dict[int, int]) -> str:
    return ",".join([f"{base}:{count}" for base, count in counts.items()])


def _counts(field: list[str]) -> dict[int, int] | None:
    if not field:
        return None
    pairs = [] if field == ["-"] else [pair.split(":") for pair in field[0].split(",")]
    return {int(base): int(count) for base, count in pairs}


def _number(field: list[str]) -> int | None:
    """The number in a column that may be missing or empty."""
    return None if field in ([], ["-"]) else int(field[0])


def encode(journal: int, lines: list[str], owner: bytes = b"") -> bytes:
    if owner:
        at = next((at for at, line in enumerate(lines) if line.count(" ") == COLUMNS - 1), None)
        if at is not None:
            lines = [*lines[:at], f"{lines[at]} {owner.hex()}", *lines[at + 1 :]]
    body = "\n".join([f"journal {journal}", *lines, ""]).encode()
    return f"{TITLE} {crc32c(body):08x}\n".encode() + body


def owner_in(data: bytes) -> bytes | None:
    """The id of the directory that a checkpoint says it is of. None without logs, and of an older release's."""
    for line in data.split(b"\n"):
        if line.count(b" ") == COLUMNS:
            return bytes.fromhex(line.rpartition(b" ")[2].decode())
    return None


def decode(path: str, data: bytes) -> tuple[int, list[LogPoint]]:
    title, _, body = data.partition(b"\n")
    if title != f"{TITLE} {crc32c(body):08x}".encode():
        raise CorruptCheckpoint(path)
    lines = body.decode().splitlines()
    return int(lines[0].removeprefix("journal ")), [LogPoint.parse(line) for line in lines[1:]]
