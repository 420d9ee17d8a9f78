"""Care of a table: few large files instead of many small ones, and no files that nothing refers to.

Compaction changes no row and runs beside no commit (`exclusion`). Vacuum deletes files that
no recent version refers to. The files of a running batch are such files until it commits, so vacuum only deletes files
that are older than the longest batch.

Writers do both by themselves, after a batch: they compact when there are many small files, and vacuum about once in
VACUUM_EVERY versions. How long old versions stay readable is the table's own setting, Delta's
`delta.deletedFileRetentionDuration`: a week unless somebody has changed it.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from deltalake.exceptions import DeltaError

from chronik.pipeline.tables import deletions, exclusion
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.options import COMPACT_ABOVE
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import stored_files

SMALL_BYTES: Final = 32 << 20
TARGET_BYTES: Final = 128 << 20
KEEP_HOURS: Final = 168  # a week, Delta's own default
LONGEST_BATCH_HOURS: Final = 24
VACUUM_EVERY: Final = 64  # versions: listing a folder is dear, and an upsert may leave one file behind at each version
# A batch makes one version, or two with a compaction, so one of each VACUUM_EVERY may be passed over, two are not.
_DUE: Final = 2

log = logging.getLogger(__name__)


def compact(place: Place, *, above: int = COMPACT_ABOVE) -> bool:
    """Joins small files where a partition has more than `above` of them. True when there were.

    False also if somebody commits at this moment, or if the table is not on this machine: see `exclusion`.
    """
    place.load()  # a table that is not there is an error, whoever holds the lock
    with exclusion.compacting(place) as is_alone:
        return is_alone and _compact(place, above)


def _compact(place: Place, above: int) -> bool:
    table = place.load()  # with the lock: what others compacted before is seen
    small = Counter(
        tuple(file.partition.values()) for file in stored_files(place, table) if file.size_bytes < SMALL_BYTES
    )
    if not small or max(small.values()) <= above:
        return False
    table.optimize.compact(target_size=TARGET_BYTES)
    return True


def tidy_if_needed(place: Place, *, above: int) -> None:
    """After a batch, which is committed whatever happens here: a fault is logged, and a later batch tries again."""
    try:
        if above:
            compact(place, above=above)
            deletions.tidy(place)
        vacuum_if_due(place)
    except (DeltaError, OSError, TableError) as error:
        log.warning("the table at %s was not compacted and vacuumed: %s", place.uri, error)


def vacuum_if_due(place: Place) -> list[str]:
    """Deletes what the table's own setting no longer keeps; the paths. Nothing most of the time."""
    table = place.load()
    if table.version() % VACUUM_EVERY >= _DUE or table.version() < VACUUM_EVERY:
        return []
    deleted: list[str] = table.vacuum(dry_run=False, enforce_retention_duration=False, full=True)
    if (remembered := deletions.place_of(place).find()) is not None:
        remembered.vacuum(dry_run=False, enforce_retention_duration=False, full=True)
    return deleted


def vacuum(
    place: Place,
    *,
    keep_hours: int = KEEP_HOURS,
    longest_batch_hours: int = LONGEST_BATCH_HOURS,
    dry_run: bool = False,
) -> list[str]:
    """Deletes what no snapshot of the last `keep_hours` refers to, orphans of crashed batches included; their paths."""
    if keep_hours < longest_batch_hours:
        raise TableError(
            "TABLE_RETENTION_TOO_SHORT",
            uri=place.uri,
            keep_hours=keep_hours,
            longest_batch_hours=longest_batch_hours,
        )
    deleted: list[str] = place.load().vacuum(
        retention_hours=keep_hours, dry_run=dry_run, enforce_retention_duration=False, full=True
    )
    return deleted
