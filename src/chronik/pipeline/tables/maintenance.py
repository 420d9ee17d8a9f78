"""Table maintenance: replaces many small files by few large ones, and deletes unreferenced files.

Compaction changes no row and never runs during a commit (`exclusion`). Vacuum deletes files that no recent version
refers to. Files of a running batch look the same until it commits, so vacuum only deletes files that are older than the
longest batch.

Writers do both automatically after a batch: they compact when there are many small files, and vacuum about once in
VACUUM_EVERY versions. The table's own setting, Delta's `delta.deletedFileRetentionDuration`, defines how long old
versions stay readable: a week by default.
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
VACUUM_EVERY: Final = 64  # versions: listing a folder is expensive, and each upsert may orphan a file
# A batch creates one version, or two with a compaction, so a vacuum is due at either of two versions per VACUUM_EVERY.
_DUE: Final = 2

log = logging.getLogger(__name__)


def compact(place: Place, *, above: int = COMPACT_ABOVE) -> bool:
    """Joins small files where a partition has more than `above` of them. True if it did.

    Also False if another writer is committing, or if the table is not on this machine: see `exclusion`.
    """
    place.load()  # a missing table is an error, even if the lock is taken
    with exclusion.compacting(place) as is_alone:
        return is_alone and _compact(place, above)


def _compact(place: Place, above: int) -> bool:
    table = place.load()  # under the lock, to see earlier compactions
    small = Counter(
        tuple(file.partition.values()) for file in stored_files(place, table) if file.size_bytes < SMALL_BYTES
    )
    if not small or max(small.values()) <= above:
        return False
    table.optimize.compact(target_size=TARGET_BYTES)
    return True


def tidy_if_needed(place: Place, *, above: int) -> None:
    """Runs after a committed batch. An error is only logged; a later batch tries again."""
    try:
        if above:
            compact(place, above=above)
            deletions.tidy(place)
        vacuum_if_due(place)
    except (DeltaError, OSError, TableError) as error:
        log.warning("the table at %s was not compacted and vacuumed: %s", place.uri, error)


def vacuum_if_due(place: Place) -> list[str]:
    """Deletes what the table's own setting no longer keeps, if a vacuum is due. Returns the paths."""
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
    """Deletes files that no snapshot of the last `keep_hours` refers to, including those of crashed batches."""
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
