"""Decodes entries and snapshots from other nodes before they are stored, so that everything stored can be read.

Once committed, undecodable bytes would stop every node that applies them, at each start. Decoded records are kept until
they are applied, up to a bound, so that a follower decodes once. Whether the records are valid is not checked here: the
leader that wrote them is responsible.
"""

from __future__ import annotations

from collections.abc import Iterable

from chronik.metadata.errors import DamagedMetadata
from chronik.metadata.records import MetadataRecord, decode_batch
from chronik.metadata.snapshot import decode_snapshot
from chronik.runtime.invariants import check

KEPT_MAX = 256  # few entries wait for the disk
KEPT_BYTES_MAX = 64 << 10  # per entry; larger ones are decoded twice rather than kept in memory


class Received:
    def __init__(self) -> None:
        self._records: dict[bytes, list[MetadataRecord]] = {}  # entry bytes: records; oldest first

    def refusal(self, data: bytes) -> str | None:
        """Why the bytes are not an entry; None when they are."""
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
        """The records of an entry that is applied now."""
        kept = self._records.pop(data, None)
        return decode_batch(data) if kept is None else kept


def snapshot_refusal(data: bytes) -> str | None:
    """Why the bytes are not a snapshot; None when they are."""
    try:
        decode_snapshot(data)
    except DamagedMetadata as fault:
        return str(fault)
    except Exception as fault:  # noqa: BLE001 - records that do not fit each other, which no node writes
        return f"its records contradict each other: {type(fault).__name__}: {fault}"
    return None
