"""`chronik produce`: lines, files or JSON become records of a topic."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.lines import read_lines, read_whole
from chronik.cli.moments import parse_time
from chronik.cli.naming import existing_topic, parse_settings
from chronik.cli.output import Column, human_count, print_rows
from chronik.cli.session import DEFAULTS, Options, progress, run

if TYPE_CHECKING:
    from chronik.client.batching import Delivery, RecordPosition
    from chronik.client.routing import Cluster

ACKS = {"all": -1, "1": 1, "0": 0}
WINDOW = 10_000  # records whose receipts are kept at a time

COLUMNS = (
    Column("partition", "PARTITION", is_number=True),
    Column("records", "RECORDS", human_count, is_number=True),
    Column("first_offset", "FIRST", human_count, is_number=True),
    Column("last_offset", "LAST", human_count, is_number=True),
)


class Input(NamedTuple):
    """One record as the user gave it."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


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
    input_format: Annotated[Literal["text", "json"], Parameter(name=["--input", "-i"])] = "text",
    keep_partitions: bool = False,
    null_as: str | None = None,
    acks: Literal["all", "1", "0"] = "all",
    compression: Annotated[
        Literal["none", "gzip", "snappy", "lz4", "zstd"], Parameter(name=["--compression", "-z"])
    ] = "none",
    create: bool = False,
    options: Options = DEFAULTS,
) -> int:
    """Write records to a topic: each line of stdin, or of the files named, is one.

    Records are acknowledged by all in-sync replicas unless --acks says otherwise, and written once even if the
    network fails in between. What was written where is printed at the end.

    For example:
      echo hello | chronik produce orders
      chronik produce orders --key-separator : < keyed.txt
      chronik produce images photo.jpg --whole-files --header type=jpeg
      chronik consume orders --format json | chronik produce copy --input json

    Parameters
    ----------
    topic
        The topic to write to.
    files
        Files to read; stdin when there are none.
    key_separator
        The first of these in a line ends the key; a line without it has no key.
    key
        The key of every record; records with equal keys go to the same partition.
    header
        A header of every record, as name=value; may be given several times.
    partition
        The partition to write to, whatever the key.
    timestamp
        The time of every record, as 2026-03-01T12:00:00+01:00; now when left out.
    whole_files
        Each file is one record, whatever is in it.
    input_format
        text, or json: one object a line with value, key, headers and timestamp_ms, as `consume` prints them.
    keep_partitions
        With json, write each record to the partition that it says; otherwise its key decides.
    null_as
        A value that is exactly this becomes null: a tombstone for a compacted topic.
    acks
        Who has to have a record before it counts: all in-sync replicas, 1 the leader, 0 nobody.
    compression
        How batches are compressed.
    create
        Let the cluster create the topic if it does not exist and the broker allows it.
    """
    if whole_files and not files:
        raise Misused("--whole-files needs files to read")
    if key is not None and key_separator is not None:
        raise Misused("--key gives all records one key, --key-separator each its own: choose one")
    if keep_partitions and (input_format != "json" or partition is not None):
        raise Misused("--keep-partitions goes with --input json and without --partition")
    if key_separator == "":
        raise Misused("--key-separator must not be empty")
    headers = tuple((name, value.encode()) for name, value in parse_settings(header, "--header").items())
    stamp = None if timestamp is None else parse_time(timestamp, "--timestamp")
    null = None if null_as is None else null_as.encode()

    async def inputs() -> AsyncIterator[Input]:
        lines = read_whole(files) if whole_files else read_lines(files)
        number = 0
        async for line in lines:
            number += 1
            if input_format == "json":
                record = parse_json(line, number)
            elif key_separator is not None and not whole_files:
                before, found, after = line.partition(key_separator.encode())
                record = Input(after, before) if found else Input(line)
            else:
                record = Input(line, None if key is None else key.encode())
            yield record._replace(
                value=None if null is not None and record.value == null else record.value,
                headers=record.headers + headers,
                partition=record.partition if keep_partitions else partition,
                timestamp=record.timestamp if stamp is None else stamp,
            )

    async def work(cluster: Cluster) -> None:
        from chronik.client.producer import Producer
        from chronik.wire.compression import Codec

        if not create:
            await existing_topic(cluster, topic)
        summary = Summary()
        with progress(f"writing to {topic}") as shown:
            async with Producer(
                cluster, acks=ACKS[acks], codec=Codec[compression.upper()], creates_topics=create
            ) as producer:
                pending: list[Delivery] = []
                async for record in inputs():
                    pending.append(
                        await producer.send(
                            topic,
                            record.value,
                            key=record.key,
                            partition=record.partition,
                            timestamp=record.timestamp,
                            headers=record.headers,
                        )
                    )
                    if len(pending) >= WINDOW:
                        await summary.settle(pending)
                        shown.say(f"writing to {topic}: {summary.record_count:,} records")
                await producer.flush()
                await summary.settle(pending)
        print_rows(summary.rows(topic), COLUMNS, as_json=options.wants_json, empty="there was nothing to write")

    return run(options, work)


class Summary:
    """How many records went where."""

    def __init__(self) -> None:
        self.record_count = 0
        self._partitions: dict[int, tuple[int, int, int]] = {}  # count, first and last offset

    async def settle(self, pending: list[Delivery]) -> None:
        for delivery in pending:
            self._add(await delivery)
        pending.clear()

    def _add(self, position: RecordPosition) -> None:
        self.record_count += 1
        count, first, last = self._partitions.get(position.partition, (0, position.offset, position.offset))
        self._partitions[position.partition] = (
            count + 1,
            min(first, position.offset),
            max(last, position.offset),
        )

    def rows(self, topic: str) -> list[dict[str, Any]]:
        return [
            {
                "topic": topic,
                "partition": partition,
                "records": count,
                "first_offset": None if first < 0 else first,
                "last_offset": None if last < 0 else last,
            }
            for partition, (count, first, last) in sorted(self._partitions.items())
        ]


def parse_json(line: bytes, number: int) -> Input:
    """One line of `--input json`; texts are UTF-8, bytes that are none stand under key_base64 and value_base64."""
    try:
        told = json.loads(line)
        if not isinstance(told, dict):
            raise TypeError("not an object")
        return Input(
            _bytes_of(told, "value"),
            _bytes_of(told, "key"),
            tuple((str(each["key"]), _bytes_of(each, "value")) for each in told.get("headers") or ()),
            told.get("partition") if isinstance(told.get("partition"), int) else None,
            told.get("timestamp_ms") if isinstance(told.get("timestamp_ms"), int) else None,
        )
    except (ValueError, TypeError, KeyError) as error:
        raise CommandFailed(
            f'line {number} is no record in JSON ({error}): write an object such as {{"value": "hello", "key": "k"}}'
        ) from error


def _bytes_of(told: dict[str, Any], name: str) -> bytes | None:
    if (encoded := told.get(f"{name}_base64")) is not None:
        return base64.b64decode(encoded, validate=True)
    value = told.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
