"""What may differ between two answers, and how far: the whole list.

Renamed: a value that a server made up (an id) is replaced by "the n-th that this server showed". Which one stands where
is still compared. Worded: text for people beside an error code, which is compared; without an error it is compared too.
Producer ids are renamed in the headers of batches, too. Erased: what the machine makes of it. Ours: configuration keys
that only Chronik has are left out of its answers. Everything else has to be equal to the byte.
"""

from __future__ import annotations

import struct
from typing import Any

from chronik.wire import records as record_codec
from chronik.wire.batches import MAGIC, MAGIC_AT, build, crc_holds, split
from chronik.wire.compression import Codec
from chronik.wire.legacy_batches import SIZE_COVERS_FROM, messages, unwrap
from chronik.wire.legacy_batches import build as build_legacy
from chronik.wire.notation import ZERO_UUID, Struct

# Field -> kind of name. Several fields may have one kind.
RENAMED = {
    "topic_id": "topic",
    "member_id": "member",  # drawn at random, after the client's name
    "leader": "member",
    "session_id": "session",
    "producer_id": "producer",
    "cluster_id": "cluster",
    "port": "port",
}
# Kafka's sentences are not ours, and sometimes it has none; clients show them to people without reading them.
WORDED = ("error_message", "batch_index_error_message")
# Texts about keys are our own: the comparison only checks that there is one.
TOLD = ("documentation",)
OWN_KEYS = "chronik."
ERASED = {
    "log_dir": "",
    "total_bytes": 0,  # of the disk
    "usable_bytes": 0,
}
# Kafka's controller writes this key into the cluster's configuration when it turns eligible leader replicas on.
SOURCE_ERASED = ("min.insync.replicas",)
# A time of the broker's own clock. Times that scenarios give their records are long past, and are compared.
CLOCK = (
    "log_append_time_ms",
    "last_timestamp",
    "transaction_start_time_ms",
)
CLOCK_MS_MIN = 1_700_000_000_000
# Positions of masked values in a batch.
CRC_AT, BASE_TIMESTAMP_AT, PRODUCER_ID_AT = 17, 27, 43

NOTHING: dict[str, tuple[object, ...]] = {
    "topic": (ZERO_UUID,),
    "member": ("", None),
    "session": (0,),
    "producer": (-1,),
    "cluster": (None, ""),
    "port": (-1, 0),
}
RECORDS_BYTES_MAX = 64 << 20


class Names:
    """The generated values of one server, numbered in the order of their appearance."""

    def __init__(self, port: int) -> None:
        self._seen: dict[str, dict[Any, int]] = {"port": {port: 1}}

    def of(self, kind: str, value: Any) -> Any:
        if value in NOTHING[kind]:
            return value
        seen = self._seen.setdefault(kind, {})
        number = seen.setdefault(value, len(seen) + 1)
        if isinstance(value, bytes):
            return number.to_bytes(16, "big")
        return f"{kind} {number}" if isinstance(value, str) else number


def masked(
    message: Any, names: Names, *, repacked: bool = False, unordered: tuple[str, ...] = (), erased: tuple[str, ...] = ()
) -> Any:
    """A copy of a message in which only what must be equal is left.

    `repacked`: the broker compressed the records anew, so their compressed bytes are those of its library; compare what
    is inside. `unordered`: lists whose order the protocol leaves open, and Kafka to a hash table. `erased`: fields that
    one scenario cannot pin down.
    """
    if isinstance(message, list):
        return [masked(each, names, repacked=repacked, unordered=unordered, erased=erased) for each in message]
    if not isinstance(message, Struct):
        return message
    made = type(message).__new__(type(message))
    made.unknown_tags = message.unknown_tags  # type: ignore[misc]
    for each in type(message).fields:
        value = getattr(message, each.name)
        if each.name == "configs" and isinstance(value, list):
            value = [entry for entry in value if not entry.name.startswith(OWN_KEYS)]
        if each.name in erased:
            value = each.default
        elif each.name in RENAMED and not isinstance(value, list | Struct):
            value = names.of(RENAMED[each.name], value)
        elif each.name in WORDED:
            value = "words" if getattr(message, "error_code", 1) else value
        elif each.name in TOLD:
            value = "words" if value else value
        elif each.name in ("config_source", "synonyms") and getattr(message, "name", "") in SOURCE_ERASED:
            value = each.default
        elif each.name in ERASED:
            value = ERASED[each.name]
        elif each.name in CLOCK:
            value = min(CLOCK_MS_MIN, value)
        elif each.name == "records" and value is not None:
            value = _unpacked(bytes(value)) if repacked else _named(_whole(bytes(value)), names)
        else:
            value = masked(value, names, repacked=repacked, unordered=unordered, erased=erased)
            if each.name in unordered and isinstance(value, list):
                value = sorted(value, key=repr)
        setattr(made, each.name, value)
    return made


def _whole(data: bytes) -> bytes:
    """Without a last batch that was cut short, which Kafka sends and every client throws away."""
    at = 0
    while len(data) - at >= SIZE_COVERS_FROM:
        size = SIZE_COVERS_FROM + int.from_bytes(data[at + 8 : at + SIZE_COVERS_FROM], signed=True)
        if size > len(data) - at:
            break
        at += size
    return data[:at]


def _named(data: bytes, names: Names) -> bytes:
    """Batches of producers with the names of their ids; markers, which brokers write, without the time of their clock.

    Both are covered by the CRC, which has to be right, and is then left out.
    """
    if len(data) <= MAGIC_AT or data[MAGIC_AT] != MAGIC:
        return data
    made = bytearray()
    for batch in split(memoryview(data)):
        written = bytearray(batch.data)
        if batch.has_producer_id:
            assert crc_holds(batch), f"the CRC of the batch at offset {batch.base_offset} is wrong"
            struct.pack_into(">q", written, PRODUCER_ID_AT, names.of("producer", batch.producer_id))
            struct.pack_into(">I", written, CRC_AT, 0)
        if batch.is_control:
            assert batch.base_timestamp == batch.max_timestamp >= CLOCK_MS_MIN
            struct.pack_into(">qq", written, BASE_TIMESTAMP_AT, CLOCK_MS_MIN, CLOCK_MS_MIN)
        made += written
    return bytes(made)


def _unpacked(data: bytes) -> bytes:
    """The same records without compression; a batch that has none, or is cut short, stays as it is."""
    data = _whole(data)
    view = memoryview(data)
    if len(data) > MAGIC_AT and data[MAGIC_AT] == MAGIC:
        made = b""
        for batch in split(view, cut_tail=True):
            if batch.compression is Codec.NONE:
                made += bytes(batch.data)
                continue
            made += batch.compression.name.encode() + build(
                list(record_codec.iterate(batch, RECORDS_BYTES_MAX)),
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                max_timestamp=batch.max_timestamp,
                leader_epoch=batch.partition_leader_epoch,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
            )
        return made
    made = b""
    for message in messages(view, cut_tail=True):
        if message.codec is Codec.NONE:
            made += build_legacy([_as_record(message)], message.magic)
        else:
            made += message.codec.name.encode() + build_legacy(unwrap(message, RECORDS_BYTES_MAX), message.magic)
            made += repr((message.offset, message.timestamp, message.attributes)).encode()
    return made


def _as_record(message: Any) -> Any:
    return record_codec.Record(message.offset, message.timestamp, message.key, message.value)
