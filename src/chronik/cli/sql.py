"""`chronik sql`: queries topics and tables with SQL and prints the result.

Runs in this process with DuckDB, in well under a second for what is small; --engine spark is for what is not.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import Column, print_rows
from chronik.cli.session import DONE, CommandConfig, Options, not_reached
from chronik.cli.sparking import security_of
from chronik.cli.sql_statements import statements_in

if TYPE_CHECKING:
    from chronik.pipeline.security import QuerySecurity
    from chronik.pipeline.sql.with_spark import SparkResult

_SHOW_TABLES: Final = re.compile(r"\s*show\s+(all\s+)?tables\s*;?\s*", re.IGNORECASE)
SHOWN_MAX: Final = 1000  # rows of a table for people; files and programs get all


class QueryResult(Protocol):
    columns: list[str]

    def rows(self) -> Iterator[tuple[Any, ...]]: ...


def sql(
    *query: str,
    file: Annotated[Path | None, Parameter(name=["--file"])] = None,
    engine: Literal["duckdb", "spark"] = "duckdb",
    storage: Annotated[Path, Parameter(env_var="CHRONIK_STORAGE")] = Path("chronik-storage"),
    as_bytes: Annotated[bool, Parameter(name="--bytes")] = False,
    master: str | None = None,
    bootstrap: Annotated[
        str, Parameter(name=["--bootstrap", "--bootstrap-server", "--bootstrap-servers"], env_var="CHRONIK_BOOTSTRAP")
    ] = "localhost:9092",
    command_config: CommandConfig = None,
    format_: Annotated[Literal["table", "json", "csv"], Parameter(name="--format")] = "table",
) -> int:
    """Query topics and tables with SQL. Without a query: a prompt on a terminal, else statements from stdin.

    A topic has the columns key, value, _partition, _offset, _timestamp, and _headers if named. A table has its own.
    SHOW TABLES lists topics and tables.
    A name that is both is written topics.NAME or tables.NAME; an older version of a table as "NAME@v3" or
    "NAME@2026-03-01T12:00:00Z"; files are named as 'orders.csv'.

    For example:
      chronik sql
      chronik sql FROM orders LIMIT 5
      chronik sql "SELECT _partition, count(*) FROM orders GROUP BY 1"
      chronik sql "SELECT value->>'$.city' AS city, count(*) FROM orders GROUP BY ALL" --format csv
      chronik sql "SELECT * FROM tables.orders EXCEPT SELECT * FROM tables.\\"orders@v3\\""
      chronik sql --file report.sql
      chronik sql "SELECT count(*) FROM clicks" --engine spark --master spark://host:7077

    Parameters
    ----------
    query
        One read-only statement; quote what the shell would change.
    file
        Read statements from this file.
    engine
        duckdb (default) runs in this process; spark is for larger data, and takes Spark's SQL.
    storage
        Folder of a pipeline whose tables can be queried; default: chronik-storage.
    as_bytes
        Keys and values as bytes; default: as text.
    master
        Spark master: local[4], spark://host:7077, sc://host; default: local[2].
    bootstrap
        Bootstrap brokers, as host:port,host:port; default: localhost:9092.
    command_config
        Properties file of a Kafka client: security.protocol, ssl.*, sasl.mechanism, sasl.jaas.config.
    format_
        Output format: table (default), json or csv.
    """
    if query and file is not None:
        raise Misused("a query and --file exclude each other: choose one")
    if engine == "duckdb":
        _require("duckdb", "pyarrow", "deltalake")

    def ask(text: str) -> None:
        with _failing_clearly(bootstrap):
            security = security_of(Options(bootstrap, command_config=command_config))
            with _asked(text, engine, bootstrap, str(storage), master, security, as_bytes=as_bytes) as answer:
                _print(answer, format_)

    if query:
        ask(" ".join(query))
    elif file is None and sys.stdin.isatty():
        from chronik.cli.sql_prompt import History, prompt

        with History():
            prompt(ask)
    else:
        statements = statements_in(_text_of(file))
        if not statements:
            raise Misused(f"{file or 'stdin'} holds no statement: chronik sql QUERY")
        for statement in statements:
            ask(statement)
    return DONE


def _text_of(file: Path | None) -> str:
    try:
        if file is not None:
            return file.expanduser().read_text("utf-8")
        with open(sys.stdin.fileno(), "rb", closefd=False) as stdin:
            return stdin.read().decode()
    except OSError as error:
        raise CommandFailed(f"cannot read {file or 'stdin'}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Misused(f"{file or 'stdin'} is not UTF-8: {error.reason} at byte {error.start}") from error


@contextmanager
def _failing_clearly(bootstrap: str) -> Iterator[None]:
    from chronik.client.errors import BadAddress, ClientError, Unreachable
    from chronik.pipeline.errors import PipelineError

    try:
        yield
    except PipelineError as error:
        raise CommandFailed(f"{error}{_hint(str(error))}") from error
    except BadAddress as error:
        raise Misused(f"--bootstrap: {error}") from error
    except Unreachable as error:
        raise not_reached(error, bootstrap) from error
    except ClientError as error:
        raise CommandFailed(str(error)) from error


def _hint(message: str) -> str:
    """One value that is not JSON fails a whole query, in words that do not say how to go on."""
    if "Malformed JSON" not in message:
        return ""
    return "\nTRY(...) around the expression gives NULL for such a value, and WHERE json_valid(value) skips its record"


def _require(*packages: str) -> None:
    """Says how to get what is missing, rather than which import failed. What Spark needs is told by its session."""
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise CommandFailed(f"`chronik sql` needs {package}, which is not installed: pip install 'chronik[sql]'")


@contextmanager
def _asked(
    query: str,
    engine: str,
    bootstrap: str,
    storage: str,
    master: str | None,
    security: QuerySecurity,
    *,
    as_bytes: bool,
) -> Iterator[QueryResult | SparkResult]:
    if engine == "spark":
        from chronik.pipeline.session import require_spark

        require_spark()
        from chronik.pipeline.sql.with_spark import ask_spark

        yield ask_spark(query, bootstrap, storage, master=master, security=security)
        return
    from chronik.client.addresses import parse_addresses
    from chronik.pipeline.cluster import BlockingCluster
    from chronik.pipeline.sql.relations import Catalog, ShownTables
    from chronik.pipeline.sql.running import QueryResult as DuckAnswer

    parse_addresses(bootstrap)  # complains before anything is opened
    cluster = BlockingCluster(bootstrap, client_id="chronik-sql", security=security, is_patient=False)
    try:
        catalog = Catalog(cluster, bootstrap, storage, as_bytes=as_bytes, security=security)
        if _SHOW_TABLES.fullmatch(query):
            yield ShownTables(catalog)
            return
        with DuckAnswer.to(query, catalog) as answer:
            yield answer
    finally:
        cluster.close()


def _print(answer: QueryResult | SparkResult, form: str) -> None:
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows([_plain(value, nested_as_json=True) for value in row] for row in answer.rows())
    elif form == "json":
        _print_json(answer)
    else:
        _print_table(answer)


def _print_json(answer: QueryResult | SparkResult) -> None:
    """One array, a row a line, written as rows come: an answer may be larger than memory."""
    separator = "["
    for row in answer.rows():
        record = {name: _plain(value) for name, value in zip(answer.columns, row, strict=True)}
        sys.stdout.write(f"{separator}\n{json.dumps(record, ensure_ascii=False)}")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def _print_table(answer: QueryResult | SparkResult) -> None:
    rows = answer.rows()
    shown = [{str(i): value for i, value in enumerate(row)} for row in islice(rows, SHOWN_MAX)]
    columns = [
        Column(str(i), name, _text, is_number=all(isinstance(row[str(i)], int | float | Decimal) for row in shown))
        for i, name in enumerate(answer.columns)
    ]
    print_rows(shown, columns, as_json=False, empty="No rows.", whole="--format csv, or name them in the query")
    if next(rows, None) is not None:
        print(f"Only the first {SHOWN_MAX:,} rows are shown: use --format csv or json for all", file=sys.stderr)


def _text(value: Any) -> str:
    plain = _plain(value, nested_as_json=True)
    return str(plain).replace("\n", "\\n")


def _plain(value: Any, *, nested_as_json: bool = False) -> Any:
    """What JSON can say, and says exactly."""
    if isinstance(value, dict | list | tuple):
        plain: Any = (
            {str(key): _plain(each) for key, each in value.items()}
            if isinstance(value, dict)
            else [_plain(each) for each in value]
        )
        return json.dumps(plain, ensure_ascii=False) if nested_as_json else plain
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    if isinstance(value, datetime | date):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
