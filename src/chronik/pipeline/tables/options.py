"""The options of format("chronik-table"), parsed and validated once, on the driver. Knows no Spark.

Names are case-insensitive, as everywhere in Spark. An unknown name is refused with the nearest valid one, because a
silently ignored option could leave a table in the wrong mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from chronik.pipeline.errors import hint_for
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.order import Keeping
from chronik.pipeline.tables.place import Place

Mode = Literal["append", "upsert"]

UPSERT_BYTES_MAX: Final = 64 << 20  # compressed rows, which pass through Spark's driver and merge in one process
COMPACT_ABOVE: Final = 32
DELETE_COLUMN: Final = "_deleted"

OPTIONS: Final = {
    "path": "where the table is: a path, or an address such as s3://bucket/table",
    "mode": "append (default) or upsert",
    "keys": "upsert: the key columns, separated by commas",
    "sequenceBy": "upsert: the columns that decide which of two rows is later; default: log order",
    "deleteColumn": "upsert: a boolean column that marks tombstones; default: _deleted, if it exists",
    "partitionBy": "the columns that partition a new table, separated by commas",
    "mergeSchema": "true: columns that the table lacks are added to it",
    "txnAppId": "a name for the writer that survives restarts; default: the streaming query's id",
    "txnVersion": "batch writes: the number of this write; with txnAppId, a repeated one does nothing",
    "compactAbove": "number of small files that triggers compaction after a batch; 0: never",
    "upsertBytesMax": "upsert: the largest batch that is merged in one process",
    "versionAsOf": "reading: the version to read",
    "timestampAsOf": "reading: the time to read at, with its zone",
    "withFile": "reading: true adds a column _file, the data file of each row",
    "files": "reading: only these data files of the version, one per line",
}
STORAGE_PREFIX: Final = "storage."  # the rest is an option of the object store: storage.aws_region
# Spark's own options, which it passes to every sink.
SPARKS: Final = frozenset({"checkpointlocation", "queryname"})


@dataclass(frozen=True, slots=True)
class TableOptions:
    place: Place
    mode: Mode = "append"
    keys: tuple[str, ...] = ()
    sequence_by: tuple[str, ...] = ()
    delete_column: str | None = None
    partition_by: tuple[str, ...] = ()
    merge_schema: bool = False
    application: str | None = None
    version: int | None = None
    compact_above: int = COMPACT_ABOVE
    upsert_bytes_max: int = UPSERT_BYTES_MAX
    version_as_of: int | None = None
    timestamp_as_of: datetime | None = None
    with_file: bool = False
    files: frozenset[str] | None = None

    def keeping(self, columns: Sequence[str]) -> Keeping:
        """The keying of rows with these columns."""
        for option, named in (("keys", self.keys), ("sequenceBy", self.sequence_by)):
            check_columns(option, named, columns)
        delete = self.delete_column
        if delete is not None:
            check_columns("deleteColumn", [delete], columns)
        elif DELETE_COLUMN in columns:
            delete = DELETE_COLUMN
        keeping = Keeping(self.keys, self.sequence_by, delete)
        keeping.check(columns)
        return keeping


def check_columns(option: str, named: Sequence[str], columns: Sequence[str]) -> None:
    for name in named:
        if name not in columns:
            raise TableError(
                "TABLE_COLUMN_UNKNOWN",
                option=option,
                column=name,
                hint=hint_for(name, columns),
                columns=", ".join(columns),
            )


def read_options(given: Mapping[str, str]) -> TableOptions:
    """Parses the options of a reader or writer. Raises TableError for the first invalid one."""
    names = {name.lower(): name for name in OPTIONS}
    values: dict[str, str] = {}
    storage: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in names:
            values[names[name.lower()]] = value
        elif name.lower().startswith(STORAGE_PREFIX):
            storage[name[len(STORAGE_PREFIX) :]] = value
        elif name.lower() not in SPARKS:
            raise TableError("TABLE_OPTION_UNKNOWN", option=name, hint=hint_for(name, OPTIONS))
    if not values.get("path"):
        raise TableError("TABLE_OPTION_MISSING", option="path", reason="say where the table is, e.g. .start(path)")
    mode = values.get("mode", "append").lower()
    if mode not in ("append", "upsert"):
        raise TableError("TABLE_OPTION_INVALID", option="mode", value=mode, reason="it is append or upsert")
    options = TableOptions(
        place=Place.of(values["path"], storage),
        mode="upsert" if mode == "upsert" else "append",
        keys=_names(values, "keys"),
        sequence_by=_names(values, "sequenceBy"),
        delete_column=values.get("deleteColumn"),
        partition_by=_names(values, "partitionBy"),
        merge_schema=_flag(values, "mergeSchema"),
        application=values.get("txnAppId"),
        version=_number(values, "txnVersion"),
        compact_above=_or(_number(values, "compactAbove"), COMPACT_ABOVE),
        upsert_bytes_max=_or(_number(values, "upsertBytesMax"), UPSERT_BYTES_MAX),
        version_as_of=_number(values, "versionAsOf"),
        timestamp_as_of=_moment(values, "timestampAsOf"),
        with_file=_flag(values, "withFile"),
        files=frozenset(values["files"].splitlines()) if "files" in values else None,
    )
    _check_together(options)
    return options


def _check_together(options: TableOptions) -> None:
    if options.mode == "upsert" and not options.keys:
        raise TableError("TABLE_OPTION_MISSING", option="keys", reason="mode=upsert goes by the key of a row")
    if options.mode == "append" and (options.keys or options.sequence_by or options.delete_column):
        raise TableError(
            "TABLE_OPTIONS_CONFLICT",
            options="keys, sequenceBy and deleteColumn with mode=append",
            reason="rows that are appended are not compared: set mode=upsert",
        )
    if options.version_as_of is not None and options.timestamp_as_of is not None:
        raise TableError(
            "TABLE_OPTIONS_CONFLICT", options="versionAsOf and timestampAsOf", reason="each names a version: choose one"
        )
    if options.version is not None and options.application is None:
        raise TableError("TABLE_OPTION_MISSING", option="txnAppId", reason="txnVersion counts the writes of one writer")


def _names(values: Mapping[str, str], option: str) -> tuple[str, ...]:
    names = tuple(each.strip() for each in values.get(option, "").split(",") if each.strip())
    if len(set(names)) != len(names):
        raise TableError(
            "TABLE_OPTION_INVALID", option=option, value=values[option], reason="a column is named more than once"
        )
    return names


def _flag(values: Mapping[str, str], option: str) -> bool:
    text = values.get(option, "false").lower()
    if text not in ("true", "false"):
        raise TableError("TABLE_OPTION_INVALID", option=option, value=text, reason="it is true or false")
    return text == "true"


def _number(values: Mapping[str, str], option: str) -> int | None:
    if option not in values:
        return None
    text = values[option].strip()
    if not text.isascii() or not text.isdigit():
        raise TableError("TABLE_OPTION_INVALID", option=option, value=text, reason="it is a number from 0 on")
    return int(text)


def _moment(values: Mapping[str, str], option: str) -> datetime | None:
    if option not in values:
        return None
    text = values[option]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        reason = "write it as 2026-03-01T12:00:00+01:00"
        raise TableError("TABLE_OPTION_INVALID", option=option, value=text, reason=reason) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _or(number: int | None, default: int) -> int:
    return default if number is None else number
