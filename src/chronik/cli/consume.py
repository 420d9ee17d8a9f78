"""`chronik consume`: reads records and prints them, once to the end or as they come.

Without --follow a read ends: where the topic ended when it began, or at --to. As a member of a group it commits what it
has printed, after it has printed it. As a member of a share group it accepts what it has printed, and ends when the
group has had nothing for it for a while.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from chronik.cli.choosing import Choice, Pattern, condition_of, pattern_in
from chronik.cli.errors import CommandFailed, Misused
from chronik.cli.merging import TimeMerge
from chronik.cli.moments import parse_place
from chronik.cli.naming import existing_partitions
from chronik.cli.records import RecordPrinter
from chronik.cli.session import DEFAULTS, Options, StatusLine, progress, run, watched
from chronik.cli.templates import Template
from chronik.runtime.wording import counted

if TYPE_CHECKING:
    from chronik.client.consumer import Consumer, Start
    from chronik.client.fetch_answers import Fetched
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition
    from chronik.wire.records import Record

POLL_MS = 500
JOINING_PATIENCE = 4
SHARE_IDLE_MS = 5_000  # without --follow: other members may hold what is left
_LAST = re.compile(r"-(\d+)")


def consume(
    *topics: str,
    from_: Annotated[str | None, Parameter(name=["--from", "-f"])] = None,
    to: str | None = None,
    partition: Annotated[tuple[int, ...], Parameter(name=["--partition", "-p"])] = (),
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    share_group: str | None = None,
    follow: Annotated[bool, Parameter(name=["--follow", "-F"])] = False,
    count: Annotated[int | None, Parameter(name=["--count", "-n"])] = None,
    keys: bool = False,
    headers: bool = False,
    offsets: bool = False,
    timestamps: bool = False,
    template: str | None = None,
    grep: str | None = None,
    where: str | None = None,
    match: str | None = None,
    by_time: bool = False,
    isolation: Literal["committed", "uncommitted", "read_committed", "read_uncommitted"] = "committed",
    options: Options = DEFAULTS,
) -> int:
    """Read records from topics, from any position; stop at the end or follow.

    Values are printed unchanged, one per line; --keys, --headers, --offsets and --timestamps put columns in front.
    With --format json each line is a whole record, in which a value that is a JSON object or array stands as JSON. On a
    terminal JSON is indented, and control characters are shown as escapes.

    --where takes a condition in SQL on the columns key, value, _topic, _partition, _offset, _timestamp and _headers. It
    runs in this process, without access to files and network, and needs the extra `sql`.

    For example:
      chronik consume orders --from earliest
      chronik consume orders --from -10
      chronik consume orders --follow --keys
      chronik consume orders --from 2026-03-01T12:00:00+01:00 --to "5m ago" --format json
      chronik consume orders --from 1500 --partition 2 --count 10 --offsets
      chronik consume orders --group billing --follow
      chronik consume images --share-group thumbnails --count 10
      chronik consume orders --grep "city.*Bern" --count 5
      chronik consume orders --where "value->>'$.city' = 'Bern' AND _partition < 3"
      chronik consume --match "orders-.*" --by-time --template "{timestamp} {topic} {value.city}"

    Parameters
    ----------
    topics
        The topics to read; or use --match.
    from_
        earliest, latest, an offset, -N for the last N of each partition, a time with a time zone, or 2h ago; default:
        earliest, with --follow latest, in a group its committed offsets.
    to
        Stop before this position: latest (default), an offset, a time, or 5m ago.
    partition
        Only this partition; repeatable.
    group
        Read as a member of this group, and commit printed records.
    share_group
        Read as a member of this share group, whose members share partitions; accept printed records. Without --follow
        it ends when nothing has come for 5 seconds.
    follow
        Wait for new records at the end, until Ctrl-C.
    count
        Stop after N records; default: no limit.
    keys
        Print the key before the value.
    headers
        Print headers as name=value.
    offsets
        Print partition and offset.
    timestamps
        Print the time of each record.
    template
        Print records in this form: {topic} {partition} {offset} {timestamp} {timestamp_ms} {key} {value} {headers}, and
        {value.NAME} for a field of JSON; \\n, \\t, {{ and }} stand for a line break, a tab and braces.
    grep
        Only records whose key or value contains a match of this regular expression.
    where
        Only records for which this condition in SQL holds.
    match
        Read all topics whose whole name matches this regular expression, as they are when the command starts.
    by_time
        Order records of all partitions by time; not with --follow or --group.
    isolation
        committed (default) skips records of open and aborted transactions; uncommitted shows them. Kafka's names
        read_committed and read_uncommitted mean the same.
    """
    if bool(topics) == (match is not None):
        raise Misused("name at least one topic, or use --match: chronik consume TOPIC")
    if by_time and (follow or group is not None):
        raise Misused("--by-time excludes --follow and --group: it needs an end, up to which all records are known")
    if template is not None and (options.wants_json or keys or headers or offsets or timestamps):
        raise Misused("--template excludes --format json, --keys, --headers, --offsets and --timestamps: choose one")
    if follow and to is not None:
        raise Misused("--follow and --to exclude each other: choose one")
    if count is not None and count < 1:
        raise Misused(f"--count {count}: use 1 or more")
    if group is not None and (partition or (from_ is not None and from_ not in ("earliest", "latest"))):
        raise Misused(
            "a group continues at its offsets: --from earliest or latest is for partitions without an offset; "
            "move a group with `chronik group reset`"
        )
    if share_group is not None and (group is not None or from_ is not None or to is not None or partition or by_time):
        raise Misused(
            "--share-group excludes --group, --from, --to, --partition and --by-time: the group decides what is read; "
            "set where it begins with `chronik config set group NAME share.auto.offset.reset=earliest`"
        )
    now_ms = time.time_ns() // 1_000_000
    last = _LAST.fullmatch(from_ or "")
    begin = None if from_ is None or last else parse_place(from_, "--from", now_ms)
    stop = None if to is None else parse_place(to, "--to", now_ms)
    printer = RecordPrinter(
        as_json=options.wants_json,
        keys=keys,
        headers=headers,
        offsets=offsets,
        timestamps=timestamps,
        template=None if template is None else Template(template),
    )
    chosen_topics = None if match is None else pattern_in(f"^(?:{match})$", "--match")
    choice = Choice(
        None if grep is None else pattern_in(grep, "--grep"), None if where is None else condition_of(where)
    )

    async def work(cluster: ClusterClient) -> None:
        from chronik.client.consumer import Consumer
        from chronik.client.fetch_answers import FetchOptions
        from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
        from chronik.wire.offset_specs import EARLIEST, LATEST

        if share_group is not None:
            names = (
                topics if chosen_topics is None else await watched(cluster, _matching(cluster, chosen_topics, match))
            )
            for topic in names:
                await watched(cluster, existing_partitions(cluster, topic, ()))
            with progress("waiting for records") as shown:
                idle_ms = None if follow else SHARE_IDLE_MS
                await _share(cluster, share_group, names, printer, choice, count, idle_ms, shown)
            return say_if_nothing()
        default = LATEST if follow else EARLIEST
        start: Start = default if begin is None else begin
        end = None if follow else LATEST if stop is None else stop
        names = topics if chosen_topics is None else await watched(cluster, _matching(cluster, chosen_topics, match))
        partitions = [
            at for topic in names for at in await watched(cluster, existing_partitions(cluster, topic, partition))
        ]
        fetching = FetchOptions(
            isolation_level=READ_COMMITTED if isolation.removeprefix("read_") == "committed" else READ_UNCOMMITTED
        )
        reset = start if isinstance(start, int) else default
        begins: dict[TopicPartition, Start] = dict.fromkeys(partitions, start)
        if last:
            begins = await _before_ends(cluster, partitions, int(last[1]), fetching.isolation_level)
        async with Consumer(
            cluster, group_id=group, reset=reset if group else None, auto_commit_ms=None, options=fetching
        ) as consumer:
            ends = await _ends(cluster, partitions, end, fetching.isolation_level)
            if group is None:
                await consumer.assign(begins)
            else:
                consumer.subscribe(names)
            with progress("waiting for records") as shown:
                if by_time:
                    assert ends is not None
                    await _read_by_time(consumer, printer, choice, ends, count, shown)
                else:
                    await _read(consumer, printer, choice, ends, count, shown)
        return say_if_nothing()

    def say_if_nothing() -> None:
        if not printer.printed_count and not options.wants_json:
            looked = f"None of {counted(choice.seen_count, 'record')} matches." if choice.seen_count else "No records."
            print(looked, file=sys.stderr)

    return run(options, work, is_patient=True)


async def _read(
    consumer: Consumer,
    printer: RecordPrinter,
    choice: Choice,
    ends: Mapping[TopicPartition, int] | None,
    count: int | None,
    shown: StatusLine,
) -> None:
    """Prints until the ends are reached or enough was printed; without ends, until interrupted."""
    left = count
    while True:
        if ends is not None and consumer.assignment and _is_at_end(consumer, ends):
            return
        for fetched in await consumer.poll(POLL_MS):
            read = _before_end(fetched, ends)
            records = choice.of(fetched.at, read)
            if left is not None and len(records) >= left:
                records = records[:left]
                # What comes after the last record that was printed has not been read.
                read = [record for record in read if record.offset <= records[-1].offset]
            if records or not choice.chooses:
                shown.stop()
            else:
                shown.say(f"looked at {counted(choice.seen_count, 'record')}")
            printer.print(fetched.at, records)
            # Not the consumer's position, which is behind what was fetched: only what was looked at counts as read.
            if read and consumer.group_id is not None:
                sys.stdout.flush()
                await consumer.commit({fetched.at: read[-1].offset + 1})
            if left is not None:
                left -= len(records)
                if left == 0:
                    return
        sys.stdout.flush()


async def _share(
    cluster: ClusterClient,
    group_id: str,
    topics: Sequence[str],
    printer: RecordPrinter,
    choice: Choice,
    count: int | None,
    idle_ms: int | None,
    shown: StatusLine,
) -> None:
    """Accepts what was looked at, after it was printed; what comes after the last one wanted is for other members."""
    from chronik.client.share_consumer import ShareConsumer
    from chronik.client.share_session import Acknowledge

    left, idle_for_ms = count, 0
    async with ShareConsumer(cluster, group_id=group_id, accepts=False) as consumer:
        consumer.subscribe(topics)
        while left is None or left > 0:
            polled = await consumer.poll(POLL_MS)
            for each in polled:
                if left == 0:
                    consumer.acknowledge(each, Acknowledge.RELEASE)
                    continue
                records = choice.of(each.at, [each.record])
                if records or not choice.chooses:
                    shown.stop()
                else:
                    shown.say(f"looked at {counted(choice.seen_count, 'record')}")
                printer.print(each.at, records)
                consumer.acknowledge(each)
                if left is not None:
                    left -= len(records)
            sys.stdout.flush()
            if polled:
                idle_for_ms = 0
                await consumer.commit()
            else:  # a group may take a while to give a new member its partitions
                idle_for_ms += POLL_MS if consumer.assignment else POLL_MS // JOINING_PATIENCE
            if idle_ms is not None and idle_for_ms >= idle_ms:
                return


async def _read_by_time(
    consumer: Consumer,
    printer: RecordPrinter,
    choice: Choice,
    ends: Mapping[TopicPartition, int],
    count: int | None,
    shown: StatusLine,
) -> None:
    """Prints in the order of time. Partitions that are far ahead of the others are read on when their turn comes."""
    merge = TimeMerge()
    left = count
    while True:
        positions = consumer.positions()
        unfinished = [at for at, offset in positions.items() if offset < ends.get(at, 0)]
        for at, record in merge.take(unfinished):
            shown.stop()
            printer.print(at, [record])
            if left is not None:
                left -= 1
                if left == 0:
                    return
        sys.stdout.flush()
        if not unfinished:
            return
        full = set(merge.full())
        consumer.pause([at for at in positions if at in full or at not in unfinished])
        consumer.pause([at for at in unfinished if at not in full], is_paused=False)
        for fetched in await consumer.poll(POLL_MS):
            merge.add(fetched.at, choice.of(fetched.at, _before_end(fetched, ends)))


def _before_end(fetched: Fetched, ends: Mapping[TopicPartition, int] | None) -> list[Record]:
    if ends is None or fetched.at not in ends:
        return fetched.records
    return [record for record in fetched.records if record.offset < ends[fetched.at]]


def _is_at_end(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    positions = consumer.positions()
    done = [at for at, offset in positions.items() if offset >= ends.get(at, 0)]
    consumer.pause(done)
    return len(done) == len(positions)


async def _matching(cluster: ClusterClient, pattern: Pattern, text: str | None) -> tuple[str, ...]:
    topology = await cluster.retrying(lambda: cluster.refresh(None))
    found = tuple(name for name, topic in sorted(topology.topics.items()) if not topic.is_internal and pattern(name))
    if not found:
        raise CommandFailed(f"no topic matches {text!r}; `chronik topic list` shows all")
    return found


async def _before_ends(
    cluster: ClusterClient, partitions: list[TopicPartition], count: int, isolation_level: int
) -> dict[TopicPartition, Start]:
    """This many offsets before the end of each partition, or its start."""
    from chronik.wire.offset_specs import EARLIEST, LATEST

    starts = await _ends(cluster, partitions, EARLIEST, isolation_level) or {}
    ends = await _ends(cluster, partitions, LATEST, isolation_level) or {}
    return {at: max(starts[at], ends[at] - count) for at in partitions}


async def _ends(
    cluster: ClusterClient, partitions: list[TopicPartition], end: Start | None, isolation_level: int
) -> dict[TopicPartition, int] | None:
    """Before which offset to stop in each partition."""
    if end is None:
        return None
    from chronik.client.consumer import Consumer
    from chronik.client.fetch_answers import FetchOptions

    async with Consumer(cluster, options=FetchOptions(isolation_level=isolation_level)) as finder:
        await finder.assign(dict.fromkeys(partitions, end))
        return finder.positions()
