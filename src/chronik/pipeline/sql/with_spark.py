"""Runs the query in Spark, for data that one process cannot handle. The SQL dialect and column names are Spark's.

Topics become views over format("chronik"), tables views over their files. The query is analyzed repeatedly:
each name that Spark does not know is registered, then the query is tried again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException

from chronik.pipeline.flows import table_path
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.pipeline.session import spark_session
from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.table_frames import table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES_MAX: Final = 100  # per query; stops if a name stays unknown although it was registered


class SparkResult:
    """Like `running.QueryResult`: column names, then rows."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self.columns = list(frame.columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        for row in self._frame.toLocalIterator():
            yield tuple(row)


def ask_spark(
    text: str, bootstrap: str, storage: str, *, master: str | None, security: QuerySecurity = NO_QUERY_SECURITY
) -> SparkResult:
    spark = spark_session("sql", master)
    for _ in range(NAMES_MAX):
        try:
            return SparkResult(spark.sql(text))
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
                raise SqlError("SQL_FAILED", reason=str(error).partition("\n")[0]) from error
            name = (error.getMessageParameters() or {}).get("relationName", "").strip("`").replace("``", "`")
            _view(spark, name, bootstrap, storage, security).createTempView(f"`{name.replace('`', '``')}`")
    raise SqlError("SQL_FAILED", reason=f"it names more than {NAMES_MAX} topics and tables")


def _view(spark: SparkSession, name: str, bootstrap: str, storage: str, security: QuerySecurity) -> DataFrame:
    table = table_path(storage, name)
    if os.path.isdir(os.path.join(table, "_delta_log")):
        return table_frame(spark, table)
    topics = _topics(bootstrap, security)
    if name not in topics:
        tables = os.path.dirname(table)
        known = [*topics, *(os.listdir(tables) if os.path.isdir(tables) else [])]
        near = get_close_matches(name, known, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SqlError("SQL_NAME_UNKNOWN", name=name, hint=hint, reason="")
    reader = spark.read.format("chronik").options(**security.options)
    reader = reader.option("kafka.bootstrap.servers", bootstrap).option("subscribe", name)
    return reader.load().selectExpr(
        "cast(key as string) AS key",
        "cast(value as string) AS value",
        "partition AS _partition",
        "offset AS _offset",
        "timestamp AS _timestamp",
    )


def _topics(bootstrap: str, security: QuerySecurity) -> list[str]:
    from chronik.pipeline.cluster import BlockingCluster

    cluster = BlockingCluster(bootstrap, client_id="chronik-sql", security=security)
    try:
        return list(cluster.topics(None))
    finally:
        cluster.close()
