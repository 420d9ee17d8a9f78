"""kafka-python's reader of record sets, which shares no line with ours."""

from __future__ import annotations

import warnings

from chronik.wire.records import NO_TIMESTAMP, Record

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its modules use calls that Python has deprecated
    from kafka.record.memory_records import MemoryRecords


def read(data: bytes) -> list[Record]:
    """The records of a set of any magic, after each batch's checksum was found to hold."""
    found = []
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert batch.validate_crc()
        for record in batch:
            timestamp = NO_TIMESTAMP if record.timestamp is None else record.timestamp
            found.append(Record(record.offset, timestamp, record.key, record.value, tuple(record.headers)))
    return found
