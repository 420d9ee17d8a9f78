"""`chronik contract`: would a schema fit what a topic stores?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.naming import did_you_mean
from chronik.cli.output import Column, human_count, print_json, print_rows
from chronik.cli.session import DEFAULTS, DONE, REFUSED, Options, progress
from chronik.cli.sparking import fails_clearly, security_of
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.pipeline.contracts.checking import Broken, Report

app = App(
    name="contract",
    help="""\
Check a schema against the records that a topic stores.

For example:
  chronik contract check orders --schema orders.schema.json
  chronik contract check orders --schema shop/pipeline.py --last 100000""",
)

RULE_COLUMNS = (
    Column("rule", "RULE"),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("first", "FIRST"),
    Column("time", "TIME"),
)


@app.command
@fails_clearly
def check(
    topic: str,
    *,
    schema: Path,
    name: str | None = None,
    last: int | None = None,
    max_records: Annotated[int | None, Parameter(name="--max-records")] = None,
    sample: int = 1,
    options: Options = DEFAULTS,
) -> int:
    """Count the stored records that a schema refuses, by rule, and show the first. Exit code 1 if there are any.

    The schema is a JSON Schema (.json), or a pipeline file (.py, .yaml): then a record is refused if the declared
    bronze of the topic would send it to the dead letters. Committed records are read; tombstones have no value, so a
    JSON Schema does not refuse them. A record may break several rules of a JSON Schema, and then counts in each.

    For example:
      chronik contract check orders --schema orders.schema.json
      chronik contract check orders --schema shop/pipeline.py --last 100000
      chronik contract check orders --schema new.json --sample 100 --format json

    Parameters
    ----------
    topic
        The topic.
    schema
        File of a JSON Schema, or of a pipeline.
    name
        The bronze to check, when the pipeline declares several of this topic.
    last
        Read the newest N of each partition; default: all.
    max_records
        Read at most N, the newest of each partition; default: no limit.
    sample
        Judge one of N records; default: 1, which is all.
    """
    for option, value in (("--last", last), ("--max-records", max_records), ("--sample", sample)):
        if value is not None and value < 1:
            raise Misused(f"{option} is {value}: give a number from 1 on")
    _require("duckdb", "jsonschema", "numpy", "pyarrow", "yaml")
    from chronik.pipeline.contracts.checking import check as check_records
    from chronik.pipeline.contracts.checking import contract_in, ranges_of

    contract, bronze = contract_in(str(schema), topic, name)
    starts, ends = _extent(topic, options)
    ranges = ranges_of(starts, ends, last=last, records_max=max_records)
    total, done = sum(end - start for start, end in ranges.values()), 0
    with progress(f"checking {topic}") as line:
        from chronik.cli.bars import Count, bar_text

        def report_progress(count: int) -> None:
            nonlocal done
            done += count
            line.say(bar_text(f"checking {topic}", Count(done, total, human_count(done))))

        report = check_records(
            contract,
            bronze,
            options.bootstrap,
            topic,
            ranges,
            sample=sample,
            security=security_of(options),
            progress=report_progress,
        )
    _print(topic, schema, report, sample, as_json=options.wants_json)
    return REFUSED if report.broken else DONE


def _extent(topic: str, options: Options) -> tuple[dict[int, int], dict[int, int]]:
    from chronik.client.topology import TopicPartition
    from chronik.pipeline.cluster import BlockingCluster
    from chronik.wire.isolation import READ_COMMITTED
    from chronik.wire.offset_specs import EARLIEST, LATEST

    cluster = BlockingCluster(
        options.bootstrap, client_id="chronik-contract", security=security_of(options), is_patient=False
    )
    try:
        known = cluster.topics(None)
        if topic not in known:
            near = did_you_mean(topic, known)
            raise CommandFailed(f"topic {topic!r} does not exist: UNKNOWN_TOPIC_OR_PARTITION{near}")
        at = [TopicPartition(topic, index) for index in known[topic].partitions]
        starts = cluster.offsets(dict.fromkeys(at, EARLIEST), READ_COMMITTED)
        ends = cluster.offsets(dict.fromkeys(at, LATEST), READ_COMMITTED)
        return {each.partition: starts[each] or 0 for each in at}, {each.partition: ends[each] or 0 for each in at}
    finally:
        cluster.close()


def _print(topic: str, schema: Path, report: Report, sample: int, *, as_json: bool) -> None:
    rules = [
        {"rule": rule, "records": count, **_place(topic, report.first_of[rule])}
        for rule, count in sorted(report.by_rule.items(), key=lambda each: (-each[1], each[0]))
    ]
    if as_json:
        first = None if report.first is None else {**_place(topic, report.first), "rules": list(report.first.rules)}
        told = {"topic": topic, "schema": str(schema), "records": report.records, "sample": sample}
        print_json(
            {**told, "broken": report.broken, "judged_one_by_one": report.one_by_one, "first": first, "rules": rules}
        )
        return
    of_all = f" (one of {sample:,})" if sample > 1 else ""
    if not report.broken:
        print(f"{schema} refuses none of {counted(report.records, 'record')}{of_all} of {topic}.")
        return
    assert report.first is not None
    place = _place(topic, report.first)
    print(f"{schema} refuses {report.broken:,} of {counted(report.records, 'record')}{of_all} of {topic}.")
    print(f"The first is {place['first']}, {place['time']}: {', '.join(report.first.rules)}")
    where = f"--partition {report.first.partition} --from {report.first.offset}"
    print(f"To see it: chronik consume {topic} {where} --count 1\n")
    print_rows(rules, RULE_COLUMNS, as_json=False)


def _place(topic: str, broken: Broken) -> dict[str, Any]:
    return {
        "first": f"{topic}-{broken.partition}@{broken.offset}",
        "partition": broken.partition,
        "offset": broken.offset,
        "time": broken.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _require(*packages: str) -> None:
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise CommandFailed(
                f"`chronik contract` needs {package}, which is not installed: pip install 'chronik[sql]'"
            )
