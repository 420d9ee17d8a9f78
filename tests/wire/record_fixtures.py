"""Record sets written by other software, with their contents. `data/README.md` says which software wrote which file."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from crc32c import crc32c
from hypothesis import strategies as st

from chronik.wire import batches, legacy_batches
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.records import NO_TIMESTAMP, Record, iterate

DATA = Path(__file__).parent / "data"
T = 1_700_000_000_000
APPENDED_AT = T + 123_456
Result = TypeVar("Result")
ROOM = 1 << 20  # more than any fixture decompresses to

MIXED = [
    Record(0, T, b"k1", b"v1", (("h1", b"x"), ("h2", None))),
    Record(1, T + 5, None, b"no key"),
    Record(2, T + 2, b"tombstone", None),
    Record(3, T + 70, b"", b""),
    Record(4, T + 70_000, b"k1", b"ab" * 150, (("ä", b""),)),
]
LONG = [Record(0, T, None, b"0123456789abcdef" * 4400)]


class Fixture(NamedTuple):
    writer: str
    name: str
    data: bytes

    @property
    def magic(self) -> int:
        return int(self.name[5])

    @property
    def codec(self) -> Codec:
        return Codec[self.name.split(".")[1].upper()]

    @property
    def expected(self) -> list[Record]:
        """What any reader has to find in a set of MIXED or LONG."""
        records = LONG if self.name.endswith(".long") else MIXED
        base_offset = 0 if self.name.endswith((".from0", ".long", "idempotent", "transactional")) else 1000
        return [
            Record(
                base_offset + offset,
                NO_TIMESTAMP if self.magic == 0 else APPENDED_AT if self.name.endswith("append_time") else timestamp,
                key,
                value,
                headers if self.magic == 2 else (),
            )
            for offset, timestamp, key, value, headers in records
        ]


def lines(file: str) -> list[list[str]]:
    return [line.split(" ") for line in (DATA / file).read_text().splitlines() if not line.startswith("#")]


def load(writer: str) -> dict[str, Fixture]:
    return {name: Fixture(writer, name, bytes.fromhex(hexed)) for name, hexed in lines(f"{writer}.hex")}


JAVA, LIBRDKAFKA, KAFKA_PYTHON = load("java"), load("librdkafka"), load("kafka-python")
ALL = [*JAVA.values(), *LIBRDKAFKA.values(), *KAFKA_PYTHON.values()]
# Those of MIXED or LONG; the others (control, empty, compacted batches) have tests of their own.
ORDINARY = [each for each in ALL if each.name.endswith((".from0", ".from1000", ".append_time", ".long"))]


def name_of(fixture: Fixture) -> str:
    return f"{fixture.writer}:{fixture.name}"


def read(data: bytes, magic: int, *, cut_tail: bool = False) -> list[Record]:
    """Everything in a set, whatever its magic, checksums verified."""
    view = memoryview(data)
    if magic < 2:
        return list(legacy_batches.iterate(view, ROOM, cut_tail=cut_tail))
    records: list[Record] = []
    for batch in batches.split(view, cut_tail=cut_tail):
        if not batches.crc_holds(batch):
            raise AssertionError("the fixture's CRC does not hold")
        records += iterate(batch, ROOM)
    return records


def positions(data: bytes) -> range:
    """Where to cut or flip: everywhere in a short set, at every 61st byte of a long one."""
    return range(0, len(data), 1 if len(data) < 600 else 61)


def with_crc(batch: bytes) -> bytes:
    """A batch of magic 2 with the correct checksum for its bytes."""
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]


def is_fine_or_malformed(decoder: Callable[..., Result], *arguments: object, **options: object) -> Result | None:
    """Gives doubtful bytes to a decoder. Whatever it raises but Malformed fails the test; None says it raised that."""
    try:
        return decoder(*arguments, **options)
    except Malformed as error:
        if error.kafka_error is ErrorCode.NONE or not str(error) or error.offset < 0:
            raise AssertionError("an error must have a code, a text and a place") from error
        return None


PEAKS = 3


def peak_bytes(call: Callable[[], object]) -> int:
    """The peak of Python's memory allocations during `call`.

    Other threads of the process are counted as well, so it is measured a few times: what the call needs, it needs in
    each of them.
    """
    return min([_peak_bytes(call) for _ in range(PEAKS)])


def _peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


keys = st.none() | st.binary(max_size=20)
values = st.none() | st.binary(max_size=200) | st.builds(lambda piece: piece * 40, st.binary(max_size=30))
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), keys), max_size=3)


def records(*, offsets_step_max: int = 1, with_headers: bool = True) -> st.SearchStrategy[list[Record]]:
    """One to a dozen records with rising offsets and any times."""
    each = st.tuples(
        st.integers(1, offsets_step_max),
        st.integers(0, 2**48),
        keys,
        values,
        headers.map(tuple) if with_headers else st.just(()),
    )

    def count_up(drawn: list[tuple], first: int) -> list[Record]:
        made = []
        offset = first
        for step, timestamp, key, value, found in drawn:
            made.append(Record(offset, timestamp, key, value, found))
            offset += step
        return made

    return st.builds(count_up, st.lists(each, min_size=1, max_size=12), st.integers(0, 2**40))
