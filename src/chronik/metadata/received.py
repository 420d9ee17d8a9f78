"""Entries and snapshots that another node sent: read before they are stored, so that all that is stored can be read.

Once committed, bytes that are no records would stop every node that applies them, again after each start. What was read
is kept until it is applied, up to a bound, so that a follower decodes once. Whether records make sense is not asked
here: that is up to the leader that wrote them.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.errors import DamagedMetadata
from chronik.metadata.records import MetadataRecord, decode_batch
from chronik.metadata.snapshot import decode_snapshot
from chronik.runtime.invariants import check

KEPT_MAX = 256  # entries on their way to the disk are few
KEPT_BYTES_MAX = 64 << 10  # of one entry; decoding a larger one again costs less than its records in memory


class Received:
    def __init__(self) -> None:
        self._records: dict[bytes, list[MetadataRecord]] = {}  # by the entry's bytes, the oldest first

    def refusal(self, data: bytes) -> str | None:
        """Why the bytes are no entry; None when they are one."""
        try:
            if len(data) > KEPT_BYTES_MAX:
                for _ in decode_batch(data):
                    pass
                return None
            self._records[data] = list(decode_batch(data))
        except DamagedMetadata as fault:
            return str(fault)
        if len(self._records) > KEPT_MAX:
            del self._records[next(iter(self._records))]
            check(
                len(self._records) <= KEPT_MAX,
                "23 entries that wait to be applied are bounded",
                count=len(self._records),
            )
        return None

    def records(self, data: bytes) -> Iterable[MetadataRecord]:
        """Of an entry that is applied now."""
        kept = self._records.pop(data, None)
        return decode_batch(data) if kept is None else kept


def snapshot_refusal(data: bytes) -> str | None:
    """Why the bytes are no snapshot; None when they are one."""
    try:
        decode_snapshot(data)
    except DamagedMetadata as fault:
        return str(fault)
    except Exception as fault:  # noqa: BLE001 - records that do not fit each other, which no node writes
        return f"its records do not fit each other: {type(fault).__name__}: {fault}"
    return None
