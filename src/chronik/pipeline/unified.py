"""`chronik.read`: a table and the newest records of its topic as one frame. Other modules are imported when it is
called."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from chronik.pipeline.snapshot import Snapshot

T = TypeVar("T")


@overload
def read(
    name: str,
    *,
    bootstrap: str | None = None,
    storage: str | Path | None = None,
    command_config: str | Path | None = None,
    pipeline: str | Path | None = None,
    fail_on_data_loss: bool = True,
    spark: None = None,
) -> Snapshot: ...


@overload
def read(
    name: str,
    *,
    bootstrap: str | None = None,
    storage: str | Path | None = None,
    command_config: str | Path | None = None,
    pipeline: str | Path | None = None,
    fail_on_data_loss: bool = True,
    spark: SparkSession,
) -> DataFrame: ...


def read(
    name: str,
    *,
    bootstrap: str | None = None,
    storage: str | Path | None = None,
    command_config: str | Path | None = None,
    pipeline: str | Path | None = None,
    fail_on_data_loss: bool = True,
    spark: Any = None,
) -> Any:
    """The table `name` together with the records of its topic that it does not have yet, each record once.

    Without `spark`, a `Snapshot`: `.to_arrow()`, `.to_polars()`, `.to_pandas()`, `.to_duckdb()`. With a SparkSession,
    a DataFrame.

    `bootstrap` and `storage` default to CHRONIK_BOOTSTRAP and CHRONIK_STORAGE, as for commands, else to localhost:9092
    and chronik-storage. `command_config` is the properties file of a Kafka client, for a secured cluster. `pipeline` is
    the file that declares the table; it is needed when functions, SQL or expectations make its rows.

    Records that retention deleted before the table had them are the error RECORDS_MISSING, unless `fail_on_data_loss`
    is False.
    """
    from chronik.pipeline.errors import PipelineError
    from chronik.pipeline.security import NO_QUERY_SECURITY, security_in

    _require("pyarrow", "deltalake", "numpy", extra="sql" if spark is None else "spark")
    from chronik.pipeline import snapshot

    security = NO_QUERY_SECURITY if command_config is None else security_in(str(command_config))
    source = snapshot.source_of(
        name,
        bootstrap or os.environ.get("CHRONIK_BOOTSTRAP") or "localhost:9092",
        str(storage or os.environ.get("CHRONIK_STORAGE") or "chronik-storage"),
        security,
        None if pipeline is None else str(pipeline),
    )
    if spark is None:
        return _outside_of_loops(lambda: snapshot.take(source, fail_on_data_loss=fail_on_data_loss))
    if not hasattr(spark, "createDataFrame"):
        raise PipelineError("INVALID_OPTION", option="spark", value=spark, reason="it must be a SparkSession")
    from chronik.pipeline.snapshot_spark import frame_of, joint_now

    joint = _outside_of_loops(lambda: joint_now(source, fail_on_data_loss=fail_on_data_loss))
    return frame_of(spark, source, joint, fail_on_data_loss=fail_on_data_loss)


def _outside_of_loops(work: Callable[[], T]) -> T:
    """Runs `work` in a separate thread if the caller runs in an event loop, as notebooks do: loops cannot be nested."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as lane:
        return lane.submit(work).result()


def _require(*packages: str, extra: str) -> None:
    from importlib.util import find_spec

    from chronik.pipeline.errors import PipelineError

    for package in packages:
        if find_spec(package) is None:
            raise PipelineError("EXTRA_MISSING", what="chronik.read", package=package, install=f"chronik[{extra}]")
