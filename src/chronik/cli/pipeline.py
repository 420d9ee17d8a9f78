"""`chronik pipeline`: create, check, run and monitor a Spark pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.output import Column, Row, human_count, human_duration, print_json, print_rows, time_text
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, complain
from chronik.cli.sparking import STORAGE, Storage, cluster_of, fails_clearly, flow_named, planned
from chronik.cli.watching import WATCH_DEFAULTS, WatchOptions, show_blocking

if TYPE_CHECKING:
    from chronik.pipeline.replaying import Replayed

app = App(
    name="pipeline",
    help="""\
Create, check, run and monitor a Spark pipeline.

A pipeline is one Python or YAML file. Its tables and checkpoints are in one folder, --storage.

For example:
  chronik pipeline init shop
  chronik pipeline dry-run shop/pipeline.py
  chronik pipeline run shop/pipeline.py
  chronik pipeline status shop/pipeline.py""",
)

INTERVAL_MS: Final = 1000
Master = Annotated[str | None, Parameter(env_var="SPARK_MASTER")]

STATUS_COLUMNS = (
    Column("flow", "FLOW"),
    Column("kind", "KIND"),
    Column("state", "STATE"),
    Column("version", "VERSION", human_count, is_number=True),
    Column("lag_messages", "LAG", human_count, is_number=True),
    Column("lag_ms", "LAG TIME", human_duration, is_number=True),
    Column("rows_in", "ROWS IN", human_count, is_number=True),
    Column("rows_out", "ROWS OUT", human_count, is_number=True),
    Column("rows_dead", "DEAD", human_count, is_number=True),
    Column("last_batch", "LAST BATCH"),
)
RUN_COLUMNS = (
    Column("flow", "FLOW"),
    Column("kind", "KIND"),
    Column("rows_in", "ROWS IN", human_count, is_number=True),
    Column("rows_out", "ROWS OUT", human_count, is_number=True),
    Column("rows_dead", "DEAD", human_count, is_number=True),
    Column("rows_dropped", "DROPPED", human_count, is_number=True),
    Column("rows_late", "LATE", human_count, is_number=True),
    Column("batches", "BATCHES", human_count, is_number=True),
    Column("lag_messages", "LAG", human_count, is_number=True),
    Column("fault", "FAULT"),
)
REPLAYED_COLUMNS = (
    Column("flow", "FLOW"),
    Column("letters", "RECORDS", human_count, is_number=True),
    Column("added", "ADDED", human_count, is_number=True),
    Column("still_dead", "STILL DEAD", human_count, is_number=True),
    Column("table_version", "VERSION", human_count, is_number=True),
)


@app.command
@fails_clearly
def init(folder: Path, *, options: Options = DEFAULTS) -> int:
    """Write a pipeline that runs, with rows to test it on, into a new folder.

    For example:
      chronik pipeline init shop && chronik pipeline test shop/pipeline.py

    Parameters
    ----------
    folder
        A folder that does not exist yet; its name is the pipeline's.
    """
    from chronik.pipeline.template import write_template

    written = write_template(folder)
    if options.wants_json:
        print_json({"files": [str(path) for path in written]})
    else:
        print("\n".join(f"wrote {path}" for path in written))
    return DONE


@app.command(name="dry-run")
@fails_clearly
def dry_run(file: Path, *, storage: Storage = STORAGE, master: Master = None, options: Options = DEFAULTS) -> int:
    """Check everything that can be known before a record is read, and print the plan.

    Reads no record and writes nothing that stays. Exits with 1 when something is wrong.

    For example:
      chronik pipeline dry-run shop/pipeline.py
      chronik pipeline dry-run shop/pipeline.py --format json | jq '.errors[].condition'

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master: local[2] (default), spark://..., yarn, k8s://..., or sc://... for Connect.
    """
    with planned(file, storage, master, options) as (_, plan):
        if options.wants_json:
            print_json(plan.document())
        else:
            print("\n".join(plan.lines()))
        return REFUSED if plan.errors else DONE


@app.command
@fails_clearly
def run(
    file: Path,
    *,
    once: bool = False,
    interval_ms: int = INTERVAL_MS,
    offsets_per_batch_max: int | None = None,
    only: str | None = None,
    report: Path | None = None,
    storage: Storage = STORAGE,
    master: Master = None,
    options: Options = DEFAULTS,
) -> int:
    """Run a pipeline until Ctrl-C, or `chronik pipeline stop`.

    The batch in progress is finished before it stops; the next run continues after it.

    For example:
      chronik pipeline run shop/pipeline.py
      chronik pipeline run shop/pipeline.py --once --report run.html
      chronik pipeline run shop/pipeline.py --master spark://host:7077 --storage /mnt/lake

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    once
        Read what is there now, then stop.
    interval_ms
        Shortest time between two batches; default: 1000.
    offsets_per_batch_max
        Most records of a batch, over all partitions; default: no limit.
    only
        Run this flow and no other.
    report
        Write a report of the run to this file, as HTML.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master: local[2] (default), spark://..., yarn, k8s://..., or sc://... for Connect.
    """
    with planned(file, storage, master, options) as (spark, plan):
        from chronik.pipeline import progress
        from chronik.pipeline.running import Pace, Run
        from chronik.pipeline.stopping import StopMark

        if plan.errors:
            for error in plan.errors:
                complain(error.sentence)
            return REFUSED
        if only is not None:
            flow_named(plan, only)
        cluster = cluster_of(options, plan.pipeline.command_config)
        pace = Pace(None if once else interval_ms, offsets_per_batch_max)
        mark = StopMark(storage, plan.pipeline.name)
        mark.clear()
        line = progress.Line(sys.stderr)
        with Run(spark, plan, cluster, pace, only=only) as running:
            running.start()
            try:
                while running.goes_on() and not mark.is_set():
                    running.tick()
                    line.show(running.standings.values())
            except KeyboardInterrupt:
                line.say("stopping after the current batch")
            running.stop()
            line.end()
            try:
                running.finish()
            finally:
                rows = [progress.row(standing) for standing in running.standings.values()]
                print_rows(rows, RUN_COLUMNS, as_json=options.wants_json)
                if report is not None:
                    from chronik.pipeline.events import read_events
                    from chronik.pipeline.report import write_report

                    write_report(report, plan.pipeline.name, running.run_id, read_events(cluster, plan.pipeline.name))
    return DONE


@app.command
@fails_clearly
def status(file: Path, *, storage: Storage = STORAGE, options: WatchOptions = WATCH_DEFAULTS) -> int:
    """Show each flow's table version, lag, rows of the last run and dead letters. Does not start Spark.

    For example:
      chronik pipeline status shop/pipeline.py
      chronik pipeline status shop/pipeline.py --format json | jq '.[] | select(.lag_messages > 1000)'

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    """
    from chronik.pipeline.registry import load
    from chronik.pipeline.standing import standing_of

    def work() -> None:
        rows: list[Row] = []
        for told in standing_of(file, str(storage), cluster_of(options, load(file).command_config)):
            last_ms = told["last_batch_ms"]
            rows.append(told | {"last_batch": None if last_ms is None else time_text(last_ms)})
        print_rows(rows, STATUS_COLUMNS, as_json=options.wants_json)

    return show_blocking(options, work)


@app.command(name="test")
@fails_clearly
def check_functions(file: Path, *, options: Options = DEFAULTS) -> int:
    """Run a pipeline's functions on the rows in `fixtures/` beside it, and compare with `expected/`.

    fixtures/TOPIC.jsonl has a record in each line: {"key": "1", "value": {...}}, where a value that is text is sent as
    it is and null is a tombstone. expected/TABLE.jsonl has the rows of a table, in any order, with the columns to
    compare. A table without such a file is printed. Needs no broker.

    For example:
      chronik pipeline test shop/pipeline.py

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    """
    from chronik.pipeline.session import spark_session

    spark = spark_session("test")
    from chronik.pipeline.fixtures import run_fixtures

    results = run_fixtures(spark, file)
    if options.wants_json:
        print_json([result.document() for result in results])
    else:
        for result in results:
            print("\n".join(result.lines()))
    return DONE if all(result.is_right for result in results) else REFUSED


@app.command
@fails_clearly
def backfill(
    file: Path,
    flow: str,
    *,
    since: str | None = None,
    storage: Storage = STORAGE,
    master: Master = None,
    options: Options = DEFAULTS,
) -> int:
    """Send what a flow has read through it again, for records that its table lacks.

    A record that the table has already changes nothing, so it may be repeated, and may run beside `run`. Records that
    the flow has not read yet are left to it.

    For example:
      chronik pipeline backfill shop/pipeline.py orders --since 2026-11-01T00:00:00Z

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    flow
        The bronze or silver to fill.
    since
        A time: only records that are not older. As `chronik consume --from` takes it.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master; default: local[2].
    """
    since_ms = _since_ms(since)
    with planned(file, storage, master, options) as (spark, plan):
        from chronik.pipeline import replaying

        chosen = flow_named(plan, flow)
        if not chosen.dlq_topic:
            raise Misused(f"{flow} is a {chosen.kind}: only a bronze or a silver can be filled record by record")
        reach = cluster_of(options, plan.pipeline.command_config).options
        told = replaying.backfill(spark, plan, chosen, reach, since_ms)
        print_replayed([told], options)
    return DONE


@app.command
@fails_clearly
def replay(
    file: Path,
    flow: str | None = None,
    *,
    fix: Annotated[Path | None, Parameter(name="--with")] = None,
    storage: Storage = STORAGE,
    master: Master = None,
    options: Options = DEFAULTS,
) -> int:
    """Send dead letters through the pipeline again; the same as `chronik dlq replay`.

    For example:
      chronik pipeline replay shop/pipeline.py
      chronik pipeline replay shop/pipeline.py orders --with fix.py

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    flow
        Only letters of this flow.
    fix
        A file with `def fix(letter)`, which returns the letter, changed or not, or None to leave it dead.
    storage
        Folder of tables and checkpoints; default: chronik-storage.
    master
        Spark master; default: local[2].
    """
    return replay_letters(file, flow, fix, storage, master, options)


def replay_letters(
    file: Path, flow: str | None, fix: Path | None, storage: Path, master: str | None, options: Options
) -> int:
    with planned(file, storage, master, options) as (spark, plan):
        from chronik.pipeline import replaying

        if plan.errors:
            raise plan.errors[0]
        flows = [flow_named(plan, flow)] if flow else [each.flow for each in plan.flows if each.flow.dlq_topic]
        known = plan.topics
        function = None if fix is None else replaying.load_fix(fix)
        reach = cluster_of(options, plan.pipeline.command_config).options
        told = [replaying.replay(spark, plan, each, reach, function) for each in flows if each.dlq_topic in known]
        print_replayed(told, options)
    return DONE


@app.command
@fails_clearly
def stop(file: Path, *, storage: Storage = STORAGE, options: Options = DEFAULTS) -> int:
    """Stop a running pipeline after its current batch, wherever it runs.

    For example:
      chronik pipeline stop shop/pipeline.py

    Parameters
    ----------
    file
        The pipeline: .py or .yaml.
    storage
        Folder of tables and checkpoints, as given to `run`; default: chronik-storage.
    """
    from chronik.pipeline.registry import load
    from chronik.pipeline.stopping import StopMark

    pipeline = load(file)
    StopMark(storage, pipeline.name).set()
    if options.wants_json:
        print_json({"pipeline": pipeline.name, "stopping": True})
    else:
        print(f"{pipeline.name} stops after its current batch")
    return DONE


def print_replayed(told: list[Replayed], options: Options) -> None:
    rows: list[dict[str, Any]] = [
        {
            "flow": each.flow,
            "letters": each.letters,
            "added": each.added,
            "still_dead": each.still_dead,
            "table_version": each.table_version,
        }
        for each in told
    ]
    print_rows(rows, REPLAYED_COLUMNS, as_json=options.wants_json, empty="There are no dead letters.")


def _since_ms(since: str | None) -> int | None:
    if since is None:
        return None
    import time

    from chronik.cli.moments import parse_place
    from chronik.client.consumer import AtTime

    place = parse_place(since, "--since", time.time_ns() // 1_000_000)
    if not isinstance(place, AtTime):
        raise CommandFailed(f"--since {since!r}: give a time")
    return place.timestamp_ms
