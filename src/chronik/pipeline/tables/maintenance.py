"""Care of a table: few large files instead of many small ones, and no files that nothing refers to.

Compaction changes no row and may run beside writers: whoever commits second looks again. Vacuum deletes files that no
snapshot within `keep_hours` refers to. A running batch's files are such files until it commits, which is why a table
may only be vacuumed of what is older than its longest batch.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

from deltalake.exceptions import DeltaError

from chronik.pipeline.tables import deletions
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.options import COMPACT_ABOVE
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import stored_files

SMALL_BYTES: Final = 32 << 20
TARGET_BYTES: Final = 128 << 20
KEEP_HOURS: Final = 168  # a week, Delta's own default
LONGEST_BATCH_HOURS: Final = 24

log = logging.getLogger(__name__)


def compact(place: Place, *, above: int = COMPACT_ABOVE) -> bool:
    """Joins small files where a partition has more than `above` of them. True when there were."""
    table = place.load()
    small = Counter(
        tuple(file.partition.values()) for file in stored_files(place, table) if file.size_bytes < SMALL_BYTES
    )
    if not small or max(small.values()) <= above:
        return False
    table.optimize.compact(target_size=TARGET_BYTES)
    return True


def compact_if_needed(place: Place, *, above: int) -> None:
    """After a batch, which is committed whatever happens here: a fault is told, and the next batch tries again."""
    if not above:
        return
    try:
        compact(place, above=above)
        deletions.tidy(place)
    except (DeltaError, OSError, TableError) as error:
        log.warning("the table at %s was not compacted: %s", place.uri, error)


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
