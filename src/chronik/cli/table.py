"""`chronik table`: topics that are kept as tables."""

from __future__ import annotations

import time

from cyclopts import App

from chronik.cli.output import Column, human_count, human_duration, print_rows
from chronik.cli.sparking import STORAGE, Storage, cluster_of, fails_clearly
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show_blocking

app = App(
    name="table",
    help="""\
Show topics that are kept as tables.

A topic is kept as a table when its config chronik.table.enable is true and somebody runs `chronik materialize`.

For example:
  chronik topic alter orders --config chronik.table.enable=true --config chronik.table.decode=json
  chronik materialize --storage /mnt/lake
  chronik table list""",
)

COLUMNS = (
    Column("topic", "TOPIC"),
    Column("state", "STATE"),
    Column("mode", "MODE"),
    Column("version", "VERSION", human_count, is_number=True),
    Column("lag_messages", "LAG", human_count, is_number=True),
    Column("lag_ms", "LAG TIME", human_duration, is_number=True),
    Column("rows_dead", "DEAD", human_count, is_number=True),
    Column("table", "TABLE"),
    Column("error", "ERROR"),
)


@app.command(name="list")
@fails_clearly
def list_tables(*, storage: Storage = STORAGE, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """List topics that are kept as tables: state, version, lag, dead letters. Starts no Spark.

    PENDING: not started, or `chronik materialize` is not running. BACKFILL: lag above chronik.table.target.lag.ms.
    SUSPENDED: stopped at a record that cannot be decoded, because of chronik.table.on.error=suspend. FAILED: stopped by
    another error; it is retried.

    For example:
      chronik table list
      chronik table list --format json | jq '.[] | select(.state == "FAILED")'

    Parameters
    ----------
    storage
        Folder of tables that were not materialized yet; default: chronik-storage.
    """
    from chronik.pipeline.supervisor import tables_listed

    def work() -> None:
        rows = list(tables_listed(cluster_of(options), storage.absolute(), time.time_ns() // 1_000_000))
        print_rows(
            rows,
            COLUMNS,
            as_json=options.wants_json,
            empty="No topic is kept as a table: chronik topic alter NAME --config chronik.table.enable=true",
        )

    return show_blocking(options, work)
