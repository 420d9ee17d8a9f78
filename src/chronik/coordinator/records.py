"""Encodes records of internal topics. An int16 before each key is its type; an int16 before each value is its version.

Pure functions. A record of an unknown type is skipped, as in Kafka, so that a log of a newer release can be loaded. A
record of a known type that cannot be decoded raises Malformed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.wire import records
from chronik.wire.compiler import Encoder, decoder_of, encoder_of
from chronik.wire.errors import MalformedMessage
from chronik.wire.notation import InternalRecord

_PREFIX = Struct(">h")
_KEY_VERSION = 0  # key layouts never change: a change needs another type


def encode_records(
    changes: Sequence[CoordinatorRecord], timestamp_ms: int, first_offset: int = 0
) -> list[records.Record]:
    """The records of one batch; offsets count from its start. Most batches hold one kind, so encoders are cached."""
    encoded = []
    new, join = tuple.__new__, b"".join
    kinds: dict[tuple[type[InternalRecord], int], tuple[bytes, Encoder[InternalRecord]]] = {}
    for offset, (key, value, version) in enumerate(changes, first_offset):
        kind = type(key), _KEY_VERSION
        if kind not in kinds:
            kinds[kind] = _PREFIX.pack(key.record_type), encoder_of(*kind)
        prefix, encode = kinds[kind]
        key_parts = [prefix]
        encode(key, key_parts)
        value_bytes = None
        if value is not None:
            kind = type(value), version
            if kind not in kinds:
                kinds[kind] = _PREFIX.pack(version), encoder_of(*kind)
            prefix, encode = kinds[kind]
            value_parts = [prefix]
            encode(value, value_parts)
            value_bytes = join(value_parts)
        encoded.append(new(records.Record, (offset, timestamp_ms, join(key_parts), value_bytes, ())))
    return encoded


def decode_record(
    types: Mapping[int, RecordType], key: memoryview, value: memoryview | None
) -> CoordinatorRecord | None:
    """None for a record of a type that is not in `types`."""
    kind = types.get(_prefix(key, "record key"))
    if kind is None:
        return None
    decoded_key, _ = decoder_of(kind.key, _KEY_VERSION)(key, _PREFIX.size)
    if value is None:
        return CoordinatorRecord(decoded_key, None)
    version = _prefix(value, kind.value.__name__)
    if version not in kind.value.versions:
        raise MalformedMessage(kind.value.__name__, version, "version", 0, f"only {kind.value.versions} is known")
    decoded_value, _ = decoder_of(kind.value, version)(value, _PREFIX.size)
    return CoordinatorRecord(decoded_key, decoded_value, version)


def _prefix(data: memoryview, what: str) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedMessage(what, 0, "version", 0, f"{len(data)} bytes are too few for a version")
    number: int = _PREFIX.unpack_from(data)[0]
    return number
