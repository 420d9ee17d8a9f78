"""The end of a table: the offset after its last record, per partition of its topic.

A batch covers a range of each partition without gaps, and one commit makes all of it visible. So if a snapshot of the
table has a row with an offset, every record before it was processed: it is a row, a dead letter, or was dropped.
Records after the last row may have been processed as well, without a row. The checkpoint contains these. Read it before
the table, because it may be ahead of an older snapshot.

Offsets belong to one topic id. If a topic was deleted and created again, the table may have rows of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from chronik.pipeline.errors import PipelineError
from chronik.pipeline.offsets import Position
from chronik.pipeline.tables.order import OFFSET, PARTITION, TOPIC_ID
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import read_file, stored_files

_COORDINATES: Final = pa.schema([(TOPIC_ID, pa.string()), (PARTITION, pa.int32()), (OFFSET, pa.int64())])


def processed(checkpoint: str, topic: str, topic_id: str) -> dict[int, int]:
    """The next offset of each partition, after the newest batch that a query has completed."""
    folder = Path(checkpoint)
    numbers = [int(each.name) for each in _files(folder / "commits") if each.name.isdecimal()]
    if not numbers:
        return {}
    try:
        told = (folder / "offsets" / str(max(numbers))).read_text().splitlines()[-1]
        position = Position.from_json(json.loads(told))
    except (OSError, ValueError, IndexError, PipelineError):
        # Cleaned up meanwhile, or from a query of another source: the table's rows are enough.
        return {}
    if position.topic_ids.get(topic) != topic_id:
        return {}
    return {at.partition: offset for at, offset in position.offsets.items() if at.topic == topic}


def stored(place: Place, table: DeltaTable, topic_id: str) -> dict[int, int]:
    """The offset after the last row of each partition. Reads only files whose statistics do not determine it."""
    filesystem = place.filesystem()
    ends: dict[int, int] = {}
    bounds = _bounds(table)
    files = sorted(stored_files(place, table), key=lambda file: -_largest(bounds.get(file.path)))
    for file in files:
        bound = bounds.get(file.path)
        if bound is None or _may_go_further(bound, topic_id, ends):
            for batch in read_file(filesystem, file, _COORDINATES):
                _extend(ends, batch, topic_id)
    return ends


def furthest(*positions: Mapping[int, int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in positions:
        for partition, offset in each.items():
            found[partition] = max(offset, found.get(partition, 0))
    return found


def _extend(ends: dict[int, int], batch: pa.RecordBatch, topic_id: str) -> None:
    rows = pa.table(batch).filter(pc.equal(batch.column(TOPIC_ID), topic_id))
    last = rows.group_by(PARTITION).aggregate([(OFFSET, "max")])
    for partition, offset in zip(last[PARTITION].to_pylist(), last[f"{OFFSET}_max"].to_pylist(), strict=True):
        if partition is not None and offset is not None:
            ends[partition] = max(offset + 1, ends.get(partition, 0))


def _bounds(table: DeltaTable) -> dict[str, Mapping[str, Any]]:
    """The log's statistics of each file: minimum and maximum of partition and offset, if present."""
    from urllib.parse import unquote

    actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    names = [f"{side}.{column}" for side in ("min", "max") for column in (TOPIC_ID, PARTITION, OFFSET)]
    if not set(names) <= set(actions.column_names):
        return {}
    rows = actions.select(["path", *names]).to_pylist()
    return {unquote(row["path"]): row for row in rows if all(row[name] is not None for name in names)}


def _largest(bound: Mapping[str, Any] | None) -> float:
    """A sort key: files without statistics come first, then those with the largest offsets."""
    return float("inf") if bound is None else float(bound[f"max.{OFFSET}"])


def _may_go_further(bound: Mapping[str, Any], topic_id: str, ends: Mapping[int, int]) -> bool:
    # Statistics may truncate texts, but topic ids are shorter than that limit.
    if not bound[f"min.{TOPIC_ID}"] <= topic_id <= bound[f"max.{TOPIC_ID}"]:
        return False
    partitions = range(bound[f"min.{PARTITION}"], bound[f"max.{PARTITION}"] + 1)
    return any(bound[f"max.{OFFSET}"] >= ends.get(partition, 0) for partition in partitions)


def _files(folder: Path) -> Iterable[Path]:
    return folder.iterdir() if folder.is_dir() else ()
