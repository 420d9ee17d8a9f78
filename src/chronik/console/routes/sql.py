"""SQL over topics and tables: the names that there are, queries, cancelling and exports."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from starlette.responses import StreamingResponse

from chronik.console.calls import Call, ask, get
from chronik.console.commands import Name, command_of
from chronik.console.errors import ConsoleError
from chronik.console.parameters import REQUIRED
from chronik.console.queries import Queries
from chronik.console.routes.session import SQL, TABLES, has

TOPICS_MAX: Final = 2_000
TABLES_MAX: Final = 500
ROWS_MAX: Final = 10_000
EXPORT_ROWS_MAX: Final = 1_000_000
EXPORT_BYTES_MAX: Final = 256 << 20
QUERY_CHARS_MAX: Final = 100_000
PIECE_BYTES: Final = 1 << 16
COLUMNS: Final = (
    ("key", "VARCHAR"),
    ("value", "VARCHAR"),
    ("_partition", "INTEGER"),
    ("_offset", "BIGINT"),
    ("_timestamp", "TIMESTAMP WITH TIME ZONE"),
    ("_headers", "STRUCT(key VARCHAR, value BLOB)[]"),
)
MEDIA_TYPES: Final = {"csv": "text/csv", "json": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_id: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


def require_sql() -> None:
    if not has(SQL):
        raise ConsoleError("EXTRA_MISSING", "SQL needs duckdb, pyarrow and deltalake", "pip install 'chronik[sql]'")


def queries_of(call: Call) -> Queries:
    queries = call.console.extras.get("queries")
    if queries is None:
        queries = call.console.extras["queries"] = Queries()
        call.console.at_close(queries.close)
    assert isinstance(queries, Queries)
    return queries


@get("/sql/catalog")
async def catalog(call: Call) -> dict[str, Any]:
    known = (await call.topology()).topics
    names = sorted(name for name, topic in known.items() if not topic.is_internal)
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS]
    tables, is_cut = await asyncio.to_thread(_tables, call.console.settings.storage)
    return {
        "topics": [{"name": name, "columns": columns} for name in names[:TOPICS_MAX]],
        "tables": tables,
        "is_truncated": len(names) > TOPICS_MAX or is_cut,
    }


def _tables(storage: str) -> tuple[list[dict[str, Any]], bool]:
    """Delta tables of a pipeline's folder, with columns where deltalake is installed."""
    folder = Path(storage) / "tables"
    names = sorted(each.name for each in folder.iterdir() if (each / "_delta_log").is_dir()) if folder.is_dir() else []
    return [describe_table(folder / name) for name in names[:TABLES_MAX]], len(names) > TABLES_MAX


def describe_table(path: Path) -> dict[str, Any]:
    columns, version = None, None
    if has(TABLES):
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(str(path))
            version = table.version()
            columns = [
                {"name": each.name, "type": str(each.type.to_json()).strip('"')} for each in table.schema().fields
            ]
        except (DeltaError, OSError):
            pass
    return {"name": path.name, "path": str(path), "columns": columns, "version": version}


def _order(call: Call, limit: int) -> tuple[str, str, dict[str, Any]]:
    query_id, query = call.body.text("id", REQUIRED), call.body.text("query", REQUIRED)
    if not _id.fullmatch(query_id):
        raise ConsoleError("BAD_BODY", "id must be 1 to 64 letters, digits or dashes")
    if len(query) > QUERY_CHARS_MAX:
        raise ConsoleError("BAD_BODY", f"a query has at most {QUERY_CHARS_MAX:,} characters")
    settings = call.console.settings
    return (
        query_id,
        query,
        {
            "query": query,
            "limit": limit,
            "bootstrap": settings.bootstrap,
            "storage": os.path.abspath(settings.storage),
            "properties": list(_properties(call)),
        },
    )


def _properties(call: Call) -> tuple[tuple[str, str], ...]:
    """Those of the console, with the login of the user if there is one."""
    settings = call.console.settings
    if call.session.user is None:
        return settings.properties
    known = call.console.clients.of(call.session).security.credentials
    assert known is not None
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (known.user, known.password)]
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    jaas = f'{module} required username="{quoted[0]}" password="{quoted[1]}";'
    return (*(each for each in settings.properties if each[0] != "sasl.jaas.config"), ("sasl.jaas.config", jaas))


@ask("/sql", limit_s=90.0)
async def query(call: Call) -> dict[str, Any]:
    limit = call.body.whole("limit", 1_000, low=1, high=ROWS_MAX)
    query_id, text, order = _order(call, limit)
    call.body.done()
    require_sql()
    clock = call.console.runtime.clock
    started_ns = clock.monotonic_ns()
    answer = await queries_of(call).ask(query_id, call.session, order)
    return {
        "id": query_id,
        "columns": answer.columns,
        "rows": answer.rows,
        "is_truncated": answer.is_truncated,
        "elapsed_ms": (clock.monotonic_ns() - started_ns) // 1_000_000,
        "command": command_of(call, "sql", Name(text)),
    }


@ask("/sql/{id}/cancel")
async def cancel(call: Call) -> dict[str, Any]:
    call.body.done()
    return {"done": await queries_of(call).cancel(call.path["id"], call.session)}


@ask("/sql/export", limit_s=120.0)
async def export(call: Call) -> StreamingResponse:
    form = call.body.text("format", "csv")
    if form not in MEDIA_TYPES:
        raise ConsoleError("BAD_BODY", f"format must be one of {', '.join(MEDIA_TYPES)}")
    query_id, _, order = _order(call, EXPORT_ROWS_MAX)
    call.body.done()
    require_sql()
    descriptor, name = tempfile.mkstemp(prefix="chronik-export-")
    os.close(descriptor)
    path = Path(name)
    try:
        await queries_of(call).ask(
            query_id, call.session, {**order, "format": form, "file": name, "bytes_max": EXPORT_BYTES_MAX}
        )
        file = await asyncio.to_thread(path.open, "rb")
    finally:
        await asyncio.to_thread(path.unlink)

    async def pieces() -> AsyncIterator[bytes]:
        with file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece

    return StreamingResponse(
        pieces(),
        media_type=MEDIA_TYPES[form],
        headers={"Content-Disposition": f'attachment; filename="query.{form}"', "Content-Security-Policy": "sandbox"},
    )
