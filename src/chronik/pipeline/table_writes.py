"""How a flow's rows enter its table: append or by key, each batch once under (application, number).

Everything goes through format("chronik-table"), whose business exactly-once is. Here is decided how a declaration is
written, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.declarations import DELETED, Gold, Silver
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

    from chronik.pipeline.flows import Flow

COORDINATES: Final = ("_topic_id", "_partition", "_offset")
NEVER: Final = "_never"  # marks tombstones where there are none, so that a column _deleted is data


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
        rows = _marked(rows, declaration)
        writer = _by_key(rows, flow, declaration.keys, _sequence(declaration), DELETED)
    else:
        writer = _writer(flat(rows) if isinstance(declaration, Gold) else rows, flow)
    _named(writer, application, number).save(flow.table)
    return version_of(flow.table)


def replace(rows: DataFrame, flow: Flow, application: str, number: int) -> int:
    """The rows become all there is."""
    _named(_writer(flat(rows), flow).mode("overwrite"), application, number).save(flow.table)
    return version_of(flow.table)


def add_missing(rows: DataFrame, flow: Flow, application: str, number: int) -> None:
    """As `write`, for records that may be in the table already: none enters it twice."""
    declaration = flow.declaration
    if isinstance(declaration, Silver) and declaration.keys:
        write(rows, flow, application, number)
        return
    rows = rows.withColumn(NEVER, F.lit(False))
    _named(_by_key(rows, flow, COORDINATES, ("_offset",), NEVER), application, number).save(flow.table)


def _sequence(silver: Silver) -> tuple[str, ...]:
    """Of two rows that are level by what the user named, the later in the log wins, whichever batch they are in."""
    return tuple(dict.fromkeys((silver.sequence_by, "_timestamp", "_partition", "_offset")))


def _marked(rows: DataFrame, silver: Silver) -> DataFrame:
    """`_deleted` says which rows take their key out of the table; no condition, none."""
    condition = F.expr(silver.delete_when) if silver.delete_when else F.lit(False)
    return rows.withColumn(DELETED, F.coalesce(condition, F.lit(False)))


def flat(rows: DataFrame) -> DataFrame:
    """A window as two columns: tables can be partitioned and filtered by those."""
    if "window" not in rows.columns or rows.schema["window"].dataType.typeName() != "struct":
        return rows
    start, end = F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")
    return rows.select(start, end, *(name for name in rows.columns if name != "window"))


def _by_key(
    rows: DataFrame, flow: Flow, keys: tuple[str, ...], sequence: tuple[str, ...], delete_column: str
) -> DataFrameWriter:
    return (
        _writer(rows, flow)
        .option("mode", "upsert")
        .option("keys", ",".join(keys))
        .option("sequenceBy", ",".join(sequence))
        .option("deleteColumn", delete_column)
    )


def _writer(rows: DataFrame, flow: Flow) -> DataFrameWriter:
    writer = rows.write.format("chronik-table").mode("append").option("mergeSchema", "true")
    partition_by = getattr(flow.declaration, "partition_by", ())
    return writer.option("partitionBy", ",".join(partition_by)) if partition_by else writer


def _named(writer: DataFrameWriter, application: str, number: int) -> DataFrameWriter:
    return writer.option("txnAppId", application).option("txnVersion", str(number))
