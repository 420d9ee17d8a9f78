"""Writes a flow's rows to its table: append or by key, each batch once under (application, number).

Uses the tasks and commit of format("chronik-table") directly, without the format: its planning starts Python processes
for every write, which is too slow for batches of a second. This module only selects how a declaration is written.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.declarations import DELETED, Gold, Silver
from chronik.pipeline.rows import marked
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.rewriting import upsert_frame
from chronik.pipeline.tables.transactions import BatchName, newest_note
from chronik.pipeline.tables.writing import Target
from chronik.pipeline.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from chronik.pipeline.flows import Flow

COORDINATES: Final = ("_topic_id", "_partition", "_offset")
INPUTS: Final = "chronik.inputs"  # key of a commit note
NEVER: Final = "_never"  # deletion column for tables without deletions, so that _deleted is data
UPSERT_BYTES_MAX: Final = 256 << 20  # compressed rows collected in the driver; executors handle larger batches


def holds(table: str, application: str, number: int) -> bool:
    """Whether an earlier attempt has committed this batch."""
    found = Place.of(table).find()
    return found is not None and BatchName(application, number).is_in(found)


def version_of(table: str) -> int:
    """-1 before the first commit."""
    found = Place.of(table).find()
    return -1 if found is None else int(found.version())


def write(rows: DataFrame, flow: Flow, application: str, number: int) -> int:
    """Returns the table's version after the write."""
    declaration = flow.declaration
    if isinstance(declaration, Silver) and declaration.keys:
        return _committed(marked(rows, declaration), _by_key(flow, declaration), BatchName(application, number))
    shaped = flat(rows) if isinstance(declaration, Gold) else rows
    return _committed(shaped, _appending(flow), BatchName(application, number))


def identity_of(table: str) -> tuple[str, int] | None:
    """The id and version of a table. Versions count within one id: a recreated table has another."""
    found = Place.of(table).find()
    return None if found is None else (str(found.metadata().id), int(found.version()))


def inputs_of(table: str) -> str | None:
    """The inputs from which the table was computed, as passed to `replace`; None if unknown."""
    found = Place.of(table).find()
    return None if found is None else newest_note(found, INPUTS)


def replace(rows: DataFrame, flow: Flow, inputs: str) -> int:
    """The rows replace the whole content. `inputs` names their origin and is stored in the same commit."""
    return _committed(flat(rows), _appending(flow), None, replaces=True, notes={INPUTS: inputs})


def add_missing(rows: DataFrame, flow: Flow, application: str, number: int) -> int:
    """Like `write`, for records that may already be in the table: none is added twice."""
    declaration = flow.declaration
    if isinstance(declaration, Silver) and declaration.keys:
        return write(rows, flow, application, number)
    options = _options(flow, mode="upsert", keys=COORDINATES, sequence_by=("_offset",), delete_column=NEVER)
    return _committed(rows.withColumn(NEVER, F.lit(False)), options, BatchName(application, number))


def _committed(
    rows: DataFrame,
    options: TableOptions,
    name: BatchName | None,
    *,
    replaces: bool = False,
    notes: Mapping[str, str] | None = None,
) -> int:
    prefix = f"b{name.number}" if name is not None else "r"
    target = Target.of(options, rows.schema.json(), replace=replaces)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A task's part: rows in, results out; no result if there are more rows than the driver may collect."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        output = None
        with _unless_too_large():
            output = target.write(batches, f"{prefix}-{context.partitionId()}")
        settle()
        yield pa.RecordBatch.from_pydict({"output": pa.array([pickle.dumps(output)], pa.binary())})

    told = rows.mapInArrow(work, "output binary").collect()
    outputs = [pickle.loads(row.output) for row in told]  # noqa: S301 - of our tasks
    with _unless_too_large():
        if None not in outputs:
            target.commit(outputs, name, notes)
            return version_of(options.place.uri)
    upsert_frame(rows, name, options, merge_rows_max=0)
    return version_of(options.place.uri)


@contextmanager
def _unless_too_large() -> Iterator[None]:
    """A batch that is too large for one process is not an error: Spark's executors handle it."""
    try:
        yield
    except TableError as error:
        if error.condition != "TABLE_BATCH_TOO_LARGE":
            raise


def _appending(flow: Flow) -> TableOptions:
    return _options(flow)


def _by_key(flow: Flow, silver: Silver) -> TableOptions:
    """The user's `sequence_by`, then log order; `tables.order` defines the rule."""
    return _options(flow, mode="upsert", keys=silver.keys, sequence_by=(silver.sequence_by,), delete_column=DELETED)


def _options(flow: Flow, **more: object) -> TableOptions:
    return TableOptions(
        Place.of(flow.table),
        partition_by=getattr(flow.declaration, "partition_by", ()),
        merge_schema=True,
        upsert_bytes_max=UPSERT_BYTES_MAX,
        **more,  # type: ignore[arg-type]
    )


def flat(rows: DataFrame) -> DataFrame:
    """Replaces a window by two columns, which tables can partition and filter by."""
    if "window" not in rows.columns or rows.schema["window"].dataType.typeName() != "struct":
        return rows
    start, end = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return rows.select(start, end, *(name for name in rows.columns if name != "window"))
