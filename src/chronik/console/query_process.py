"""The process that answers one SQL query: DuckDB locked, its memory bounded, and a kill ends it.

The order is one line of JSON on stdin. Answers are lines of JSON on stdout: {"columns"}, then {"rows"} several times,
then {"end"}; or {"error"}. An export goes to the file that the order names, which the console made.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from chronik.console.parent import end_with_parent

if TYPE_CHECKING:
    from chronik.pipeline.sql.running import QueryResult

ROWS_AT_ONCE: Final = 500
CHARS_AT_ONCE: Final = 256 << 10  # or a line of rows is longer than the console reads
ROW_CHARS_MAX: Final = 4 << 20
MEMORY: Final = "256MB"
ADDRESS_SPACE_BYTES: Final = 4 << 30  # what DuckDB does not count: Arrow, decompression
EXACT_MAX: Final = 2**53
CELL_CHARS_MAX: Final = 65_536


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    end_with_parent(int(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    from chronik.client.errors import ClientError
    from chronik.pipeline.errors import PipelineError

    try:
        _answer(order)
    except (PipelineError, ClientError) as fault:
        _tell({"error": str(fault)})
    except MemoryError:
        _tell({"error": "the query needs more memory than it may have"})


def _answer(order: dict[str, Any]) -> None:
    from chronik.pipeline.cluster import BlockingCluster
    from chronik.pipeline.security import QuerySecurity
    from chronik.pipeline.sql.relations import Catalog, ShownTables
    from chronik.pipeline.sql.running import QueryResult

    properties = tuple((key, value) for key, value in order["properties"])
    security = QuerySecurity(properties)
    cluster = BlockingCluster(order["bootstrap"], client_id="chronik-console", security=security, is_patient=False)
    catalog = Catalog(cluster, order["bootstrap"], order["storage"], security=security, only_named=True)
    query = order["query"].strip().rstrip(";")
    if query.lower() == "show tables":
        shown = ShownTables(catalog)
        _tell({"columns": [{"name": name, "type": "VARCHAR"} for name in shown.columns]})
        _tell_rows(shown.rows(), order["limit"])
        return
    with QueryResult.to(query, catalog, locked={"memory_limit": MEMORY, "threads": "1"}) as answer:
        if order.get("file"):
            _export(answer, order)
            return
        types = answer.types()
        _tell({"columns": [{"name": name, "type": kind} for name, kind in zip(answer.columns, types, strict=True)]})
        _tell_rows(answer.rows(), order["limit"])


def _tell_rows(rows: Iterator[tuple[Any, ...]], limit: int) -> None:
    taken = islice(rows, limit)
    some: list[Any] = []
    size = 0
    for row in taken:
        some.append([cell(value) for value in row])
        size += len(json.dumps(some[-1], ensure_ascii=False))
        if size > ROW_CHARS_MAX:
            _tell({"error": "a row is too large to show: select less of it"})
            return
        if len(some) == ROWS_AT_ONCE or size > CHARS_AT_ONCE:
            _tell({"rows": some})
            some, size = [], 0
    _tell({"rows": some})
    _tell({"end": True, "is_truncated": next(rows, None) is not None})


def _export(answer: QueryResult, order: dict[str, Any]) -> None:
    import csv

    form, limit, size_max = order["format"], order["limit"], order["bytes_max"]
    rows = islice(answer.rows(), limit + 1)
    count = 0
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_pylist([dict(zip(answer.columns, row, strict=True)) for row in islice(rows, limit)])
        pq.write_table(table, order["file"])
        count = table.num_rows + (next(rows, None) is not None)
    else:
        with open(order["file"], "w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if form == "csv":
                writer.writerow(answer.columns)
            for row in rows:
                count += 1
                if form == "csv":
                    writer.writerow([_flat(cell(value)) for value in row])
                else:
                    record = {name: cell(value) for name, value in zip(answer.columns, row, strict=True)}
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
                if file.tell() > size_max:
                    _tell({"error": f"the answer has more than {size_max >> 20} MiB: select less"})
                    return
    if count > limit:
        _tell({"error": f"the answer has more than {limit:,} rows: select less"})
        return
    _tell({"end": True, "rows": count})


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def cell(value: Any) -> Any:
    """What JSON can say, and a browser reads exactly."""
    match value:
        case None | bool() | str():
            return value if not isinstance(value, str) else value[:CELL_CHARS_MAX]
        case int():
            return value if abs(value) <= EXACT_MAX else str(value)
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case dict():
            return {str(key): cell(each) for key, each in value.items()}
        case list() | tuple():
            return [cell(each) for each in value]
        case bytes() | bytearray() | memoryview():
            return bytes(value)[:CELL_CHARS_MAX].decode(errors="backslashreplace")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case Decimal():
            return str(value)
    return str(value)


def _tell(document: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
