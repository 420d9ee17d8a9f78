"""What the fuzz job feeds: every decoder of record sets, each a function from any bytes to nothing.

A target may only return: it swallows Malformed and lets everything else out. Checksums would keep a fuzzer at the door,
so most targets put them right first. `SEEDS` are sets of real clients to mutate.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from crc32c import crc32c

from chronik.wire import batches, legacy_batches, records
from chronik.wire.compression import Codec, decompress
from chronik.wire.conversion import down_convert, up_convert
from chronik.wire.errors import Malformed
from tests.wire.record_fixtures import ALL

OUTPUT_BYTES_MAX = 256 * 1024
BATCH_BYTES_MAX = 1_048_588

SEEDS: list[bytes] = [fixture.data for fixture in ALL]


def swallowing(decode: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        try:
            decode(data)
        except Malformed as error:
            str(error)

    return target


def mended(data: bytes) -> bytes:
    """One batch of magic 2 around the bytes: length, magic and checksum right, everything else as given."""
    made = bytearray(data.ljust(61, b"\x00"))
    struct.pack_into(">i", made, 8, len(made) - 12)
    made[16] = 2
    struct.pack_into(">I", made, 17, crc32c(made[21:]))
    return bytes(made)


def mended_legacy(data: bytes) -> bytes:
    """Messages of magic 0 and 1 with right checksums, as far as their sizes lead from one to the next."""
    made = bytearray(data)
    at = 0
    while len(made) - at >= 26:
        (size,) = struct.unpack_from(">i", made, at + 8)
        if not 14 <= size <= len(made) - at - 12:
            break
        made[at + 16] &= 1
        struct.pack_into(">I", made, at + 12, zlib.crc32(made[at + 16 : at + 12 + size]))
        at += 12 + size
    return bytes(made)


def exhaust_batch(data: bytes) -> None:
    for batch in batches.split(memoryview(mended(data))):
        for record in records.iterate(batch, OUTPUT_BYTES_MAX):
            if batch.is_control:
                records.control_type(record)
                records.coordinator_epoch(record)


def find_timestamps(data: bytes) -> None:
    """Two readers of the same records must not disagree where both can read them."""
    for batch in batches.split(memoryview(mended(data))):
        found = records.timestamp_range(batch, OUTPUT_BYTES_MAX)
        stamps = [record.timestamp for record in records.iterate(batch, OUTPUT_BYTES_MAX)]
        if stamps and found != (min(stamps), max(stamps)):
            raise AssertionError(f"{found}, but the records have {min(stamps)} to {max(stamps)}")


def exhaust_legacy(data: bytes) -> None:
    for _ in legacy_batches.iterate(memoryview(mended_legacy(data)), OUTPUT_BYTES_MAX):
        pass


def decompress_any(data: bytes) -> None:
    """The first byte chooses the codec and whether an lz4 header may be broken."""
    if data:
        output = decompress(Codec(data[0] % 5), data[1:], OUTPUT_BYTES_MAX, broken_lz4=data[0] >= 128)
        if len(output) > OUTPUT_BYTES_MAX:
            raise AssertionError(f"{len(output)} bytes came out, {OUTPUT_BYTES_MAX} were allowed")


def rewrite(data: bytes) -> None:
    """What can be read can be written, and is then read as the same."""
    for batch in batches.split(memoryview(mended(data))):
        found = list(records.iterate(batch, OUTPUT_BYTES_MAX))
        # Not what a broker would not store: offsets before the base. With LogAppendTime the deltas are not to be seen.
        if batch.timestamp_type is records.TimestampType.LOG_APPEND_TIME or any(
            record.offset < batch.base_offset for record in found
        ):
            continue
        header = bytearray(batch.data[:61])
        header[22] &= 0xF8  # without compression
        (copy,) = batches.split(
            memoryview(mended(bytes(header) + records.encode(found, batch.base_offset, batch.base_timestamp)))
        )
        if list(records.iterate(copy, 2 * OUTPUT_BYTES_MAX)) != found:
            raise AssertionError("records changed when they were written again")


TARGETS: list[tuple[str, Callable[[bytes], None]]] = [
    ("batches.split", swallowing(lambda data: batches.split(memoryview(data)))),
    ("batches.split, cut tail", swallowing(lambda data: batches.split(memoryview(data), cut_tail=True))),
    (
        "batches.validate_produced",
        swallowing(lambda data: batches.validate_produced(memoryview(data), BATCH_BYTES_MAX)),
    ),
    (
        "batches.validate_produced, mended",
        swallowing(lambda data: batches.validate_produced(memoryview(mended(data)), BATCH_BYTES_MAX)),
    ),
    ("batches.validate_replicated", swallowing(lambda data: batches.validate_replicated(memoryview(mended(data)), 0))),
    ("records.iterate", swallowing(exhaust_batch)),
    ("records.timestamp_range", swallowing(find_timestamps)),
    ("records.encode", swallowing(rewrite)),
    ("legacy_batches.iterate", swallowing(exhaust_legacy)),
    (
        "legacy_batches.iterate, cut tail",
        swallowing(lambda data: list(legacy_batches.iterate(memoryview(data), OUTPUT_BYTES_MAX, cut_tail=True))),
    ),
    ("conversion.up_convert", swallowing(lambda data: up_convert(memoryview(mended_legacy(data)), OUTPUT_BYTES_MAX))),
    (
        "conversion.down_convert",
        swallowing(
            lambda data: down_convert(memoryview(mended(data)), data[0] & 1 if data else 0, 0, OUTPUT_BYTES_MAX)
        ),
    ),
    ("compression.decompress", swallowing(decompress_any)),
]
