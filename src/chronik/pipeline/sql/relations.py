"""The relations of a query: a topic as rows, a Delta table at a version.

A topic has key, value, _partition, _offset, _timestamp, and _headers if the query names it. Key and value are text,
with bytes that are not UTF-8 escaped, or raw bytes if requested. The other columns have the names of a topic's table. A
topic is read up to its end at the start of the query, so every scan sees the same rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from chronik.client.errors import ClientError
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.parsing import Name, Query

if TYPE_CHECKING:
    from chronik.pipeline.cluster import BlockingCluster

TOPICS, TABLES = "topics", "tables"
# Column names here, and in the source.
TOPIC_COLUMNS: Final = {
    "key": "key",
    "value": "value",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
    "_headers": "headers",
}
ALWAYS: Final = "_offset"  # a count needs rows even without columns; this one is cheapest
AT_VERSION: Final = re.compile(r"(?P<table>.+)@(?:v(?P<version>\d+)|(?P<moment>\d{4}-.+))")
DATA_FILE: Final = re.compile(r".*\.(csv|tsv|json|jsonl|ndjson|parquet)(\.gz|\.zst)?", re.IGNORECASE)


class Relation(Protocol):
    """Rows that DuckDB can scan repeatedly."""

    columns: tuple[str, ...]  # all columns, whether the query names them or not

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


@dataclass(frozen=True, slots=True)
class TopicRange:
    """The offsets of a topic to read, by partition."""

    starts: Mapping[int, int]
    ends: Mapping[int, int]


class TopicRows:
    """A topic; each scan reads it again."""

    columns = tuple(TOPIC_COLUMNS)

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        extent: TopicRange,
        query: Query,
        *,
        as_bytes: bool,
        security: QuerySecurity = NO_QUERY_SECURITY,
    ) -> None:
        self._bootstrap, self._topic, self._extent, self._security = bootstrap, topic, extent, security
        # A star omits headers: most records have none, and decoding them costs as much as everything else.
        named = [column for column in TOPIC_COLUMNS if query.wants(column, by_star=column != "_headers")]
        self._read = named or [ALWAYS]
        self._as_bytes = as_bytes
        from chronik.pipeline.columns import ARROW_TYPES

        self.schema = pa.schema(
            [
                (column, pa.string() if self._is_text(column) else ARROW_TYPES[TOPIC_COLUMNS[column]])
                for column in self._read
            ]
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        from chronik.pipeline.reading import read_range

        columns = [TOPIC_COLUMNS[column] for column in self._read]
        for partition, start in self._extent.starts.items():
            end = self._extent.ends[partition]
            if start < end:
                # Records deleted by retention during the scan are not an error: the query only observes.
                for batch in read_range(
                    self._bootstrap,
                    self._topic,
                    partition,
                    start=start,
                    end=end,
                    columns=columns,
                    fail_on_data_loss=False,
                    client_id="chronik-sql",
                    security=self._security,
                ):
                    shown = [
                        as_text(column) if self._is_text(name) else column
                        for name, column in zip(self._read, batch.columns, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(shown, schema=self.schema)

    def _is_text(self, column: str) -> bool:
        return column in ("key", "value") and not self._as_bytes


def as_text(column: pa.Array) -> pa.Array:
    """Bytes as text. In values that are not UTF-8, invalid bytes are escaped."""
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        values = column.to_pylist()
        return pa.array(
            [None if each is None else each.decode(errors="backslashreplace") for each in values], pa.string()
        )


class TableRows:
    """A snapshot of a Delta table; each scan reads the columns that the query names.

    Does not use Arrow's datasets, which import pandas; the import takes longer than most queries.
    """

    def __init__(self, path: str, query: Query, *, version: int | None = None, moment: datetime | None = None) -> None:
        from chronik.pipeline.tables.place import Place
        from chronik.pipeline.tables.reading import stored_files
        from chronik.pipeline.tables.schemas import arrow_schema

        self._place = Place.of(path)
        table = self._place.load_as_of(version=version, timestamp=moment)
        self._files = stored_files(self._place, table)
        whole = arrow_schema(table.schema())
        self.columns = tuple(whole.names)
        self.schema = pa.schema([field for field in whole if query.wants(field.name)] or [whole.field(0)])

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        from chronik.pipeline.tables.reading import read_file

        filesystem = self._place.filesystem()
        for file in self._files:
            yield from read_file(filesystem, file, self.schema)


class Catalog:
    """Resolves names. Asks the cluster only for names that may be topics, and only once."""

    def __init__(
        self,
        cluster: BlockingCluster,
        bootstrap: str,
        storage: str,
        *,
        as_bytes: bool = False,
        security: QuerySecurity = NO_QUERY_SECURITY,
        only_named: bool = False,
    ) -> None:
        """`only_named` finds tables of the storage folder by name, and none by path."""
        self._only_named = only_named
        self._cluster, self._bootstrap, self._security = cluster, bootstrap, security
        self._tables = os.path.join(storage, TABLES)
        self._as_bytes = as_bytes
        self._topics: dict[str, tuple[int, ...]] | None = None

    def find(self, name: Name, query: Query) -> Relation | None:
        """None for other names: a file that DuckDB reads by itself, or one of its own schemas."""
        if name.schema not in ("", TOPICS, TABLES):
            return None
        if name.schema != TOPICS and (table := self._table(name.relation, query)) is not None:
            if not name.schema and self._is_topic(name.relation):
                raise SqlError("SQL_NAME_AMBIGUOUS", name=name.relation)
            return table
        if name.schema != TABLES and name.relation in self._known_topics():
            return TopicRows(
                self._bootstrap,
                name.relation,
                self._extent(name.relation),
                query,
                as_bytes=self._as_bytes,
                security=self._security,
            )
        if not name.schema and DATA_FILE.fullmatch(name.relation):
            return None
        raise self._unknown(name)

    def _table(self, name: str, query: Query) -> TableRows | None:
        path, version, moment = name, None, None
        if at := AT_VERSION.fullmatch(name):
            path = at["table"]
            version = int(at["version"]) if at["version"] else None
            moment = _moment(at["moment"]) if at["moment"] else None
        if self._only_named and ("/" in path or path in ("", ".", "..")):
            return None
        folder = path if "/" in path else os.path.join(self._tables, path)
        if "://" not in folder and not os.path.isdir(os.path.join(folder, "_delta_log")):
            return None
        return TableRows(folder, query, version=version, moment=moment)

    def _known_topics(self) -> dict[str, tuple[int, ...]]:
        if self._topics is None:
            _knock(self._bootstrap, self._security)
            self._topics = {name: topic.partitions for name, topic in self._cluster.topics(None).items()}
        return self._topics

    def _is_topic(self, name: str) -> bool:
        """False if no broker is reachable: tables can still be read."""
        try:
            return name in self._known_topics()
        except (ClientError, PipelineError):
            return False

    def _extent(self, topic: str) -> TopicRange:
        from chronik.client.topology import TopicPartition
        from chronik.wire.isolation import READ_COMMITTED
        from chronik.wire.offset_specs import EARLIEST, LATEST

        partitions = [TopicPartition(topic, index) for index in self._known_topics()[topic]]
        starts = self._cluster.offsets(dict.fromkeys(partitions, EARLIEST), READ_COMMITTED)
        ends = self._cluster.offsets(dict.fromkeys(partitions, LATEST), READ_COMMITTED)
        return TopicRange(
            {at.partition: starts[at] or 0 for at in partitions}, {at.partition: ends[at] or 0 for at in partitions}
        )

    def names(self) -> list[tuple[str, str]]:
        """Every name that a query may use, with its kind: topic or table."""
        topics = [(name, "topic") for name in self._known_topics()]
        folders = sorted(os.listdir(self._tables)) if os.path.isdir(self._tables) else []
        tables = [(name, "table") for name in folders if os.path.isdir(os.path.join(self._tables, name, "_delta_log"))]
        return sorted([*topics, *tables])

    def _unknown(self, name: Name) -> SqlError:
        topics = [] if name.schema == TABLES else list(self._known_topics())
        tables = [] if name.schema == TOPICS or not os.path.isdir(self._tables) else sorted(os.listdir(self._tables))
        near = get_close_matches(name.relation, [*topics, *tables], n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        reason = "" if near else f" (tables are looked for in {self._tables})"
        return SqlError("SQL_NAME_UNKNOWN", name=name.relation, hint=hint, reason=reason)


class ShownTables:
    """The result of SHOW TABLES, which DuckDB cannot produce: names become relations only when a query uses them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.columns = ["name", "kind"]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        yield from self._catalog.names()


def _knock(bootstrap: str, security: QuerySecurity) -> None:
    """Fails at once if no broker is reachable; later errors are retried."""
    from chronik.client.addresses import parse_addresses
    from chronik.client.errors import Unreachable

    connect = security.connector("chronik-sql")
    faults = []
    for address in parse_addresses(bootstrap):
        try:
            connect(address).close()
        except Unreachable as fault:
            faults.append(str(fault))
        else:
            return
    raise Unreachable("; ".join(faults))


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SqlError("SQL_SYNTAX", reason=f"{text!r} is not a time: write table@2026-03-01T12:00:00Z") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
