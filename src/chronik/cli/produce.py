"""`chronik produce`: lines, files, JSON or CSV become records of a topic.

A line that is not a record ends the command. Records before it are written, and the message says how many: with
--transactional-id those of transactions that were committed before.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.inputs import BadLine, Input, csv_records, json_records, jsonl_records, text_records
from chronik.cli.lines import open_sources, open_whole
from chronik.cli.moments import parse_time
from chronik.cli.naming import existing_topic, parse_settings
from chronik.cli.output import Column, human_count, print_rows
from chronik.cli.retention import RetentionCheck
from chronik.cli.session import DEFAULTS, Options, complain, progress, run, watched
from chronik.cli.stalling import stalls_reported
from chronik.cli.writing import opened
from chronik.runtime.wording import counted, was_or_were

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

ACKS = {"all": -1, "1": 1, "0": 0}

InputFormat = Literal["text", "json", "jsonl", "csv"]

COLUMNS = (
    Column("partition", "PARTITION", is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("first_offset", "FIRST", human_count, is_number=True),
    Column("last_offset", "LAST", human_count, is_number=True),
)


def produce(
    topic: str,
    /,
    *files: Path,
    key_separator: Annotated[str | None, Parameter(name=["--key-separator", "-K"])] = None,
    key: Annotated[str | None, Parameter(name=["--key", "-k"])] = None,
    header: Annotated[tuple[str, ...], Parameter(name=["--header", "-H"])] = (),
    partition: Annotated[int | None, Parameter(name=["--partition", "-p"])] = None,
    timestamp: str | None = None,
    whole_files: bool = False,
    input_format: Annotated[InputFormat, Parameter(name=["--input", "-i"])] = "text",
    key_field: str | None = None,
    keep_partitions: bool = False,
    null_as: str | None = None,
    acks: Literal["all", "1", "0"] = "all",
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], Parameter(name=["--compression", "-z"])
    ] = "none",
    create: bool = False,
    transactional_id: str | None = None,
    batch: int | None = None,
    transaction_timeout_s: Annotated[int, Parameter(name="--transaction-timeout")] = 60,
    timeout_s: Annotated[int, Parameter(name="--timeout")] = 120,
    options: Options = DEFAULTS,
) -> int:
    """Write records to a topic, one per line of stdin or of the given files.

    All in-sync replicas acknowledge each record unless --acks says otherwise. A record is written once even if the
    network fails. The command prints how many records went to which partition.

    For example:
      echo hello | chronik produce orders
      chronik produce orders --key-separator : < keyed.txt
      chronik produce images photo.jpg --whole-files --header type=jpeg
      chronik produce orders orders.jsonl --input jsonl --key-field order_id
      chronik produce orders orders.csv --input csv --key-field order_id
      chronik consume orders --format json | chronik produce copy --input json
      chronik produce orders orders.txt --transactional-id import-1

    Parameters
    ----------
    topic
        The topic to write to.
    files
        Files to read; stdin when there are none.
    key_separator
        Separates the key from the value at its first occurrence; a line without it has no key.
    key
        Key of every record; records with equal keys go to the same partition.
    header
        Header of every record, as name=value; repeatable.
    partition
        Partition to write to, whatever the key.
    timestamp
        Time of every record, for example "2h ago" or 2026-03-01T12:00:00+01:00; default: now. The broker deletes
        records older than the topic's retention.ms.
    whole_files
        Make each file one record.
    input_format
        text: a line is a value (default). json: a line is a record with value, key, headers and timestamp_ms, as
        `consume --format json` prints it. jsonl: a line is a value in JSON. csv: a row becomes a JSON object; the first
        row of each file names its fields.
    key_field
        With jsonl or csv: the field whose value becomes the key.
    keep_partitions
        With json: write each record to the partition it names; default: the key decides.
    null_as
        Write a value equal to this text as null, a tombstone in a compacted topic.
    acks
        When a record counts as written: all = every in-sync replica (default), 1 = leader, 0 = do not wait.
    compression
        Compression of batches; default: none.
    create
        Create the topic if it does not exist and the broker allows it.
    transactional_id
        Write in a transaction: consumers of committed records see all records or none. It aborts a transaction that
        another producer with this id left open. Ctrl-C and errors abort.
    batch
        With --transactional-id: commit after every N records; default: one transaction.
    transaction_timeout_s
        With --transactional-id: the broker aborts a transaction open for longer than this many seconds; default: 60.
    timeout_s
        Give up on a record that is not acknowledged after this many seconds; default: 120.
    """
    if timeout_s < 1:
        raise Misused(f"--timeout {timeout_s}: use 1 second or more")
    if transactional_id is None and batch is not None:
        raise Misused("--batch needs --transactional-id")
    if transactional_id == "" or (batch is not None and batch < 1):
        raise Misused("--transactional-id must not be empty, and --batch must be 1 or more")
    if transactional_id is not None and acks != "all":
        raise Misused(f"--transactional-id excludes --acks {acks}: a transaction needs all in-sync replicas")
    if whole_files and not files:
        raise Misused("--whole-files needs files to read")
    if key is not None and key_separator is not None:
        raise Misused("--key and --key-separator exclude each other: choose one")
    if keep_partitions and (input_format != "json" or partition is not None):
        raise Misused("--keep-partitions needs --input json, and excludes --partition")
    if key_separator == "":
        raise Misused("--key-separator must not be empty")
    if key_separator is not None and input_format != "text":
        raise Misused("--key-separator needs --input text")
    if key_field is not None and (input_format not in ("jsonl", "csv") or key is not None):
        raise Misused("--key-field needs --input jsonl or csv, and excludes --key")
    if key is not None and input_format == "json":
        raise Misused("--input json excludes --key: each record has its own key")
    if whole_files and input_format in ("jsonl", "csv"):
        raise Misused(f"--whole-files and --input {input_format} exclude each other: choose one")
    headers = tuple((name, value.encode()) for name, value in parse_settings(header, "--header").items())
    stamp = None if timestamp is None else parse_time(timestamp, "--timestamp", time.time_ns() // 1_000_000)
    null = None if null_as is None else null_as.encode()
    same_key = None if key is None else key.encode()
    separator = None if key_separator is None or whole_files else key_separator.encode()

    def parsed(source: str, lines: AsyncIterator[bytes]) -> AsyncIterator[Input]:
        match input_format:
            case "json":
                return json_records(lines, source)
            case "jsonl":
                return jsonl_records(lines, source, key=same_key, key_field=key_field)
            case "csv":
                return csv_records(lines, source, key=same_key, key_field=key_field)
            case "text":
                return text_records(lines, key=same_key, separator=separator)

    async def inputs() -> AsyncIterator[Input]:
        for source, lines in open_whole(files) if whole_files else open_sources(files):
            async for record in parsed(source, lines):
                yield record._replace(
                    value=None if null is not None and record.value == null else record.value,
                    headers=record.headers + headers,
                    partition=record.partition if keep_partitions else partition,
                    timestamp=record.timestamp if stamp is None else stamp,
                )

    async def work(cluster: ClusterClient) -> None:
        from chronik.wire.compression import Codec

        if not create:
            await watched(cluster, existing_topic(cluster, topic, hint="; --create creates it"))
        retention = RetentionCheck(cluster, topic)
        refused: BadLine | CommandFailed | None = None
        writing = opened(
            cluster,
            transactional_id,
            transaction_records=batch,
            transaction_timeout_ms=transaction_timeout_s * 1000,
            acks=ACKS[acks],
            codec=Codec[compression.upper()],
            creates_topics=create,
            delivery_timeout_ms=timeout_s * 1000,
        )
        with progress(f"writing to {topic}") as shown:
            async with writing as writer, stalls_reported(writer.producer, timeout_s):
                try:
                    async for record in inputs():
                        if await writer.write(topic, record):
                            shown.say(f"writing to {topic}: {writer.summary.record_count:,} records")
                        if warning := await retention.warning(record.timestamp):
                            complain(warning)
                except (BadLine, CommandFailed) as fault:  # what was written before it counts, and is told
                    refused = fault
                await writer.finish(is_complete=refused is None)
        summary = writer.summary
        if refused is None or summary.record_count:
            print_rows(summary.rows(topic), COLUMNS, as_json=options.wants_json, empty="No input: nothing was written.")
        if refused is not None:
            raise _stopped(refused, summary.record_count)

    return run(options, work, is_patient=True)


def _stopped(fault: BadLine | CommandFailed, written: int) -> CommandFailed | Misused:
    """For a bad line, exit code 2 promises that nothing was written: a script may correct its input and start again."""
    if written:
        return CommandFailed(f"{fault}. {counted(written, 'record')} before it {was_or_were(written)} written")
    message = f"{fault}. Nothing was written"
    return Misused(message) if isinstance(fault, BadLine) else CommandFailed(message)
