"""How a flow's rows enter its table: append or by key, each batch once under (application, number).

Tasks and commit are those of format("chronik-table"), called without the format: its planning starts Python processes
for every write, which a batch of a second cannot afford. Here is decided how a declaration is written, no more.
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
INPUTS: Final = "chronik.inputs"  # a note of a commit
NEVER: Final = "_never"  # marks tombstones where there are none, so that a column _deleted is data
UPSERT_BYTES_MAX: Final = 256 << 20  # of compressed rows, which meet in the driver; more are left to the executors


def holds(table: str, application: str, number: int) -> bool:
    """Whether an earlier attempt has committed this batch."""
    found = Place.of(table).find()
    return found is not None and BatchName(application, number).is_in(found)


def version_of(table: str) -> int:
    """-1 before the first commit."""
    found = Place.of(table).find()
    return -1 if found is None else int(found.version())


def write(rows: DataFrame, flow: Flow, application: str, number: int) -> int:
    """The table's version afterwards."""
    declaration = flow.declaration
    if isinstance(declaration, Silver) and declaration.keys:
        return _committed(marked(rows, declaration), _by_key(flow, declaration), BatchName(application, number))
    shaped = flat(rows) if isinstance(declaration, Gold) else rows
    return _committed(shaped, _appending(flow), BatchName(application, number))


def identity_of(table: str) -> tuple[str, int] | None:
    """The id and the version of a table. Versions count within one id: a table that was made anew has another."""
    found = Place.of(table).find()
    return None if found is None else (str(found.metadata().id), int(found.version()))


def inputs_of(table: str) -> str | None:
    """From what the contents of a table were computed, as `replace` was told; None when that is not known."""
    found = Place.of(table).find()
    return None if found is None else newest_note(found, INPUTS)


def replace(rows: DataFrame, flow: Flow, inputs: str) -> int:
    """The rows become all there is. `inputs` says what they were computed from, and is part of the same commit."""
    return _committed(flat(rows), _appending(flow), None, replaces=True, notes={INPUTS: inputs})


def add_missing(rows: DataFrame, flow: Flow, application: str, number: int) -> int:
    """As `write`, for records that may be in the table already: none enters it twice."""
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
        """A task's part: rows in, what became of them out; nothing where there are more than may meet in the driver."""
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
    """A batch that is too large for one process is no fault: Spark's executors take it."""
    try:
        yield
    except TableError as error:
        if error.condition != "TABLE_BATCH_TOO_LARGE":
            raise


def _appending(flow: Flow) -> TableOptions:
    return _options(flow)


def _by_key(flow: Flow, silver: Silver) -> TableOptions:
    """What the user named decides, then the order of the log; `tables.order` has the rule."""
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
    """A window as two columns: tables can be partitioned and filtered by those."""
    if "window" not in rows.columns or rows.schema["window"].dataType.typeName() != "struct":
        return rows
    start, end = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return rows.select(start, end, *(name for name in rows.columns if name != "window"))
