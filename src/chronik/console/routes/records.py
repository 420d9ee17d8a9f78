"""Records of a topic: pages in both directions, single records, counts over time, and the live tail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from chronik.client.admin import configs, offsets
from chronik.console.calls import Call, get
from chronik.console.commands import Name, command_of
from chronik.console.cursors import (
    PARTITIONS_MAX,
    bounded,
    bucket_edges,
    counts_between,
    cursor_text,
    has_more,
    parse_cursor,
)
from chronik.console.errors import ConsoleError
from chronik.console.filtering import WHERE_CHARS_MAX, filter_of
from chronik.console.parameters import OFFSET_MAX, choice, many, text, time_ms, whole
from chronik.console.reading import Budget, Reader
from chronik.console.shown import VALUE_BYTES_DEFAULT, header_name, shown_record
from chronik.console.streams import stream
from chronik.console.tailing import Tail
from chronik.wire.offset_specs import MAX_TIMESTAMP

if TYPE_CHECKING:
    from chronik.client.topology import Topic
    from chronik.console.reading import Filter
    from chronik.wire.records import Record

PARTITION: Final = many(whole(None, 0, 2**31 - 1), PARTITIONS_MAX)
WHERE: Final = text(chars_max=WHERE_CHARS_MAX)
ONE_BYTES: Final = 1 << 20
LOOK_UPS_MAX: Final = 5_000  # of one histogram
CURSOR_CHARS_MAX: Final = 8_192
PAGE_PARAMETERS: Final = {
    "partition": PARTITION,
    "start": text("latest", chars_max=64),
    "cursor": text(chars_max=CURSOR_CHARS_MAX),
    "direction": choice(None, "forward", "backward"),
    "limit": whole(100, 1, 1_000),
    "where": WHERE,
    "value_bytes": whole(VALUE_BYTES_DEFAULT, 0, 65_536),
}


@get("/topics/{topic}/records", limit_s=20.0, more=PAGE_PARAMETERS)
async def records(call: Call) -> dict[str, Any]:
    name = call.path["topic"]
    page, timestamp_type = await read_page(call, name, filter_of(call, name, call.query["where"]))
    size_max = call.query["value_bytes"]
    shown = [
        {**shown_record(partition, record, size_max), "timestamp_type": timestamp_type}
        for partition, record in page.pop("found")
    ]
    return {"records": shown, **page}


async def read_page(call: Call, name: str, matching: Filter | None) -> tuple[dict[str, Any], str]:
    """The page as the API tells it, with the records in `found`; and whose clock their times are of."""
    query, started_ns = call.query, call.console.runtime.clock.monotonic_ns()
    topic, timestamp_type = await asyncio.gather(call.topic(name), _timestamp_type(call, name))
    positions = parse_cursor(query["cursor"]) if query["cursor"] else None
    if positions is not None and (query.get("partition") or query["start"] != "latest"):
        raise ConsoleError("BAD_PARAMETER", "cursor excludes start and partition: it says both")
    partitions = _partitions(topic, query.get("partition", ()) if positions is None else tuple(positions))
    reader = Reader(call.cluster, name, call.missing)
    bounds = await reader.bounds(partitions)
    backward = query["direction"] == "backward"
    if positions is None:
        positions, backward = await _start(reader, query["start"], bounds, query["direction"])
    positions = bounded(positions, bounds)
    if matching is not None and not positions:
        await matching([])  # says what is wrong with the condition, whether there are records or not
    budget = Budget.of_page(is_scan=matching is not None)
    read = reader.backward if backward else reader.forward
    page, budget = await read(positions, bounds, query["limit"], budget, matching)
    elapsed_ms = (call.console.runtime.clock.monotonic_ns() - started_ns) // 1_000_000
    return {
        "found": page.records,
        "previous": cursor_text(page.previous),
        "next": cursor_text(page.next),
        "has_previous": has_more(page.previous, bounds, backward=True),
        "has_next": has_more(page.next, bounds, backward=False),
        "partitions": [
            {"partition": each, "start_offset": start, "end_offset": end}
            for each, (start, end) in sorted(bounds.items())
        ],
        "stopped_by": None if page.is_full else budget.ended_by,
        "scanned": budget.scanned,
        "elapsed_ms": elapsed_ms,
    }, timestamp_type


def _partitions(topic: Topic, wanted: tuple[int, ...]) -> list[int]:
    for each in wanted:
        if each not in topic.partitions:
            last = max(topic.partitions, default=-1)
            raise ConsoleError("PARTITION_NOT_FOUND", f"{topic.name} has no partition {each}, only 0 to {last}")
    return sorted(wanted or topic.partitions)[:PARTITIONS_MAX]


async def _start(
    reader: Reader, start: str, bounds: Mapping[int, tuple[int, int]], direction: str | None
) -> tuple[dict[int, int], bool]:
    """Positions, and whether to read backward."""
    kind, _, value = start.partition(":")
    match kind:
        case "earliest" if not value:
            positions = {each: begin for each, (begin, _) in bounds.items()}
        case "latest" if not value:
            positions = {each: end for each, (_, end) in bounds.items()}
            return positions, direction != "forward"
        case "offset" if _is_number(value):
            positions = dict.fromkeys(bounds, int(value))
        case "time" if _is_number(value):
            found = await reader.look_up(dict.fromkeys(bounds, int(value)))
            positions = {each: bounds[each][1] if offset == offsets.NONE else offset for each, offset in found.items()}
        case _:
            raise ConsoleError("BAD_PARAMETER", f"start={start[:40]}: write earliest, latest, offset:N or time:MS")
    return positions, direction == "backward"


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 20 and int(value) <= OFFSET_MAX


async def _timestamp_type(call: Call, name: str) -> str:
    found = await call.part("settings", configs.describe_topics(call.cluster, [name], ["message.timestamp.type"]))
    value = (found or {}).get(name, {}).get("message.timestamp.type")
    return "append" if value == "LogAppendTime" else "create"


# --- single records


async def _one(call: Call) -> tuple[int, Record]:
    name = call.path["topic"]
    partition, offset = _number(call, "partition"), _number(call, "offset")
    topic = await call.topic(name)
    _partitions(topic, (partition,))
    reader = Reader(call.cluster, name, call.missing)
    record = await reader.one(partition, offset)
    if record is None:
        bounds = await reader.bounds([partition])
        if partition not in bounds:
            raise ConsoleError("UNREACHABLE", f"the leader of {name}-{partition} does not answer")
        start, end = bounds[partition]
        inside = start <= offset < end
        held = f"has {start} to {end - 1}" if end > start else "is empty"
        hint = "it was compacted away, or is no record of a producer" if inside else ""
        raise ConsoleError(
            "RECORD_NOT_FOUND",
            f"{name}-{partition} has no record at offset {offset}; it {held}",
            hint,
        )
    return partition, record


def _number(call: Call, name: str) -> int:
    value = call.path[name]
    if not _is_number(value):
        raise ConsoleError("NOT_FOUND", f"{name} {value[:40]!r} is not a number")
    return int(value)


@get("/topics/{topic}/records/{partition}/{offset}", value_bytes=whole(ONE_BYTES, 0, ONE_BYTES))
async def record(call: Call) -> dict[str, Any]:
    (partition, found), timestamp_type = await asyncio.gather(_one(call), _timestamp_type(call, call.path["topic"]))
    name = call.path["topic"]
    shown = {**shown_record(partition, found, call.query["value_bytes"]), "timestamp_type": timestamp_type}
    line = command_of(
        call, "consume", Name(name), "--partition", partition, "--from", found.offset, "--count", 1, "--format", "json"
    )
    return {"record": shown, "links": {"command": line, "python": _python(call, name, partition, found.offset)}}


def _python(call: Call, topic: str, partition: int, offset: int) -> str:
    return (
        "import asyncio\n"
        "from chronik.client import Consumer, TopicPartition, connect\n\n\n"
        "async def main() -> None:\n"
        f"    at = TopicPartition({topic!r}, {partition})\n"
        f"    async with connect({call.console.settings.bootstrap!r}) as cluster, Consumer(cluster) as consumer:\n"
        f"        await consumer.assign({{at: {offset}}})\n"
        "        for fetched in await consumer.poll():\n"
        "            print(fetched.records[0])\n\n\n"
        "asyncio.run(main())\n"
    )


@get("/topics/{topic}/records/{partition}/{offset}/raw", part=text("value", chars_max=1_024))
async def raw(call: Call) -> Response:
    partition, found = await _one(call)
    part = call.query["part"]
    if part.startswith("header:"):
        wanted = part.removeprefix("header:")
        data = next((value for name, value in found.headers if header_name(name) == wanted), None)
    elif part in ("key", "value"):
        data = found.key if part == "key" else found.value
    else:
        raise ConsoleError("BAD_PARAMETER", f"part={part[:40]}: write key, value or header:NAME")
    if data is None:
        raise ConsoleError("RECORD_NOT_FOUND", f"the record has no {part[:40]}, or it is null")
    name = f"{call.path['topic']}-{partition}-{found.offset}-{part.partition(':')[0]}.bin"
    safe = "".join(each if each.isalnum() or each in "._-" else "_" for each in name)
    return Response(
        data,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{safe}"', "Content-Security-Policy": "sandbox"},
    )


@get(
    "/topics/{topic}/records/{partition}/{offset}/previous",
    limit_s=20.0,
    from_offset=whole(None, 0, OFFSET_MAX),
    value_bytes=whole(ONE_BYTES, 0, ONE_BYTES),
)
async def previous(call: Call) -> dict[str, Any]:
    partition, found = await _one(call)
    name = call.path["topic"]
    reader = Reader(call.cluster, name, call.missing)
    bounds = await reader.bounds([partition])
    start = found.offset if call.query["from_offset"] is None else min(found.offset, call.query["from_offset"])

    async def same_key(rows: Any) -> list[int]:
        return [place for place, (_, each) in enumerate(rows) if each.key == found.key]

    budget = Budget.of_page(is_scan=True)
    page, budget = await reader.backward(bounded({partition: start}, bounds), bounds, 1, budget, same_key)
    earlier = page.records[-1][1] if page.records else None
    return {
        "record": None if earlier is None else shown_record(partition, earlier, call.query["value_bytes"]),
        "searched_to_offset": page.previous.get(partition, start),
        "stopped_by": None if earlier is not None else budget.ended_by,
    }


# --- over time


@get("/topics/{topic}/histogram", from_ms=time_ms(), to_ms=time_ms(), buckets=whole(60, 1, 240), partition=PARTITION)
async def histogram(call: Call) -> dict[str, Any]:
    name, query = call.path["topic"], call.query
    topic = await call.topic(name)
    partitions = _partitions(topic, query["partition"])
    reader = Reader(call.cluster, name, call.missing)
    cleanup, bounds = await asyncio.gather(
        call.part("settings", configs.describe_topics(call.cluster, [name], ["cleanup.policy"])),
        reader.bounds(partitions),
    )
    filled = [each for each, (start, end) in bounds.items() if start < end]
    if not filled:
        return {"from_ms": None, "to_ms": None, "step_ms": None, "counts": [], "is_exact": True}
    from_ms, to_ms = query["from_ms"], query["to_ms"]
    if from_ms is None or to_ms is None:
        first_ms, last_ms = await _times(call, name, filled, bounds)
        from_ms = first_ms if from_ms is None else from_ms
        to_ms = last_ms if to_ms is None else to_ms
    if to_ms < from_ms:
        raise ConsoleError("BAD_PARAMETER", f"to_ms={to_ms} is before from_ms={from_ms}")
    buckets = max(1, min(query["buckets"], LOOK_UPS_MAX // len(filled) - 1))
    edges = bucket_edges(from_ms, to_ms, buckets)
    columns = await reader.look_up_all(edges, {each: bounds[each][1] for each in filled})
    policy = (cleanup or {}).get(name, {}).get("cleanup.policy") or ""
    return {
        "from_ms": from_ms,
        "to_ms": to_ms,
        "step_ms": edges[1] - edges[0],
        "counts": counts_between(columns.values()),
        "is_exact": "compact" not in policy,
    }


async def _times(
    call: Call, name: str, partitions: list[int], bounds: Mapping[int, tuple[int, int]]
) -> tuple[int, int]:
    """Of the first record, and of the latest."""
    from chronik.client.admin.lag import times_of
    from chronik.client.topology import TopicPartition

    starts = {TopicPartition(name, each): bounds[each][0] for each in partitions}
    firsts, lasts = await asyncio.gather(
        call.part("the first records", times_of(call.cluster, starts)),
        call.part("the last records", offsets.look_up(call.cluster, dict.fromkeys(starts, MAX_TIMESTAMP))),
    )
    first = [each for each in (firsts or {}).values() if each is not None]
    last = [each.timestamp for each in (lasts or {}).values() if isinstance(each, offsets.OffsetAt)]
    now_ms = call.console.now_ms()
    first_ms = min(first, default=now_ms)
    return first_ms, max(first_ms, max((each for each in last if each >= 0), default=now_ms))


@get(
    "/topics/{topic}/tail",
    is_stream=True,
    partition=PARTITION,
    where=WHERE,
    value_bytes=whole(VALUE_BYTES_DEFAULT, 0, 65_536),
    rate=whole(100, 1, 500),
)
async def tail(call: Call) -> Any:
    name = call.path["topic"]
    topic = await call.topic(name)
    partitions = _partitions(topic, call.query["partition"])
    matching = filter_of(call, name, call.query["where"])
    if matching is not None:
        await matching([])
    return stream(
        call, Tail(call.cluster, name, partitions, matching, call.query["rate"], call.query["value_bytes"]).events()
    )
