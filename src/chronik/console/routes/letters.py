"""Dead letters: by class of error, one by one, the sum that proves that nothing was lost, and sending them again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from chronik.console import pipelines
from chronik.console.calls import Call, Change, change, get
from chronik.console.commands import command_of
from chronik.console.errors import ConsoleError
from chronik.console.parameters import bytes_of, choice, place_of, text, whole
from chronik.console.reading import Budget, Reader
from chronik.console.routes.pipelines import read_events
from chronik.console.routes.records import CURSOR_CHARS_MAX, read_page
from chronik.console.routes.topics import LETTERS_SUFFIX, read_places, send_all
from chronik.console.shown import header_name, shown_bytes, shown_record
from chronik.pipeline.letters import Letter, letter_of

if TYPE_CHECKING:
    from chronik.console.reading import Filter
    from chronik.wire.records import Record

TOPICS_MAX: Final = 100
LOOKED_AT_MAX: Final = 20_000  # of the newest letters of a topic
REPLAYED_MAX: Final = 1_000
WRITERS_OF: Final = 1_000  # the newest letters, which name the flows that write them
EXAMPLE_CHARS_MAX: Final = 500


@get("/letters", limit_s=30.0)
async def list_letters(call: Call) -> dict[str, Any]:
    names = sorted(name for name in (await call.topology()).topics if name.endswith(LETTERS_SUFFIX))
    gate = asyncio.Semaphore(4)

    async def one(name: str) -> dict[str, Any] | None:
        async with gate:
            return await _classes(call, name)

    found = await asyncio.gather(*(one(name) for name in names[:TOPICS_MAX]))
    return {"topics": [each for each in found if each], "is_truncated": len(names) > TOPICS_MAX}


async def _classes(call: Call, name: str) -> dict[str, Any] | None:
    topic = await call.topic(name)
    reader = Reader(call.cluster, name, call.missing)
    bounds = await reader.bounds(topic.partitions)
    if not bounds:
        return None
    ends = {each: end for each, (_, end) in bounds.items()}
    page, _ = await reader.backward(ends, bounds, LOOKED_AT_MAX, Budget.of_page(is_scan=True))
    letters = sum(end - start for start, end in bounds.values())
    classes: dict[tuple[str, str, str], dict[str, Any]] = {}
    for _, record in page.records:
        letter = letter_of(record)
        key = (letter.error, letter.flow, letter.pipeline) if letter else ("", "", "")
        known = classes.setdefault(
            key,
            {
                "error": key[0] or None,
                "flow": key[1] or None,
                "pipeline": key[2] or None,
                "count": 0,
                "first_ms": record.timestamp,
                "last_ms": record.timestamp,
                "example": "",
            },
        )
        known["count"] += 1
        known["first_ms"] = min(known["first_ms"], record.timestamp)
        known["last_ms"] = max(known["last_ms"], record.timestamp)
        known["example"] = letter.message[:EXAMPLE_CHARS_MAX] if letter else ""
    rates = call.console.observer.snapshot.topic_rates
    rows = sorted(classes.values(), key=lambda each: -each["count"])
    return {
        "topic": name,
        "source": name.removesuffix(LETTERS_SUFFIX),
        "letters": letters,
        "new_per_s": rates.get(("messages_in_per_s", name), 0.0),
        "first_ms": min((each["first_ms"] for each in rows), default=None),
        "last_ms": max((each["last_ms"] for each in rows), default=None),
        "classes": rows,
        "is_truncated": any(page.previous[each] > start for each, (start, _) in bounds.items()),
    }


@get(
    "/letters/{topic}",
    limit_s=20.0,
    error=text(chars_max=256),
    flow=text(chars_max=256),
    pipeline=text(chars_max=256),
    start=text("latest", chars_max=64),
    cursor=text(chars_max=CURSOR_CHARS_MAX),
    direction=choice(None, "forward", "backward"),
    limit=whole(100, 1, 1_000),
    value_bytes=whole(1_024, 0, 65_536),
)
async def show_letters(call: Call) -> dict[str, Any]:
    name, query = _letters_topic(call), call.query
    wanted = {key: query[key] for key in ("error", "flow", "pipeline") if query[key]}

    async def matching(rows: Sequence[tuple[int, Record]]) -> list[int]:
        return [
            place
            for place, (_, record) in enumerate(rows)
            if (letter := letter_of(record)) is not None
            and all(getattr(letter, key) == value for key, value in wanted.items())
        ]

    chosen: Filter | None = matching if wanted else None
    page, timestamp_type = await read_page(call, name, chosen)
    size_max = query["value_bytes"]
    return {
        "records": [
            {**_shown(partition, record, size_max), "timestamp_type": timestamp_type}
            for partition, record in page.pop("found")
        ],
        **page,
    }


def _letters_topic(call: Call) -> str:
    name = call.path["topic"]
    if not name.endswith(LETTERS_SUFFIX):
        raise ConsoleError(
            "TOPIC_NOT_FOUND", f"{name!r} is no topic of dead letters", f"their names end in {LETTERS_SUFFIX}"
        )
    return name


def _shown(partition: int, record: Record, size_max: int) -> dict[str, Any]:
    letter = letter_of(record)
    shown = shown_record(partition, record, size_max)
    if letter is None:
        return {**shown, "letter": None}
    shown["headers"] = [
        {"key": header_name(name), "value": shown_bytes(value, size_max)} for name, value in letter.headers
    ]
    return {**shown, "letter": _document(letter)}


def _document(letter: Letter) -> dict[str, Any]:
    return {
        "topic": letter.topic,
        "topic_id": letter.topic_id,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp_ms,
        "pipeline": letter.pipeline,
        "flow": letter.flow,
        "error": letter.error,
        "message": letter.message,
    }


@get("/letters/{topic}/proof", limit_s=20.0, pipeline=text(chars_max=256), flow=text(chars_max=256))
async def prove(call: Call) -> dict[str, Any]:
    name, query = _letters_topic(call), call.query
    source = name.removesuffix(LETTERS_SUFFIX)
    topic = await call.topic(name)
    reader = Reader(call.cluster, name, call.missing)
    bounds = await reader.bounds(topic.partitions)
    kept = sum(end - start for start, end in bounds.values())
    ends = {each: end for each, (_, end) in bounds.items()}
    page, _ = await reader.backward(ends, bounds, WRITERS_OF, Budget.of_page(is_scan=True))
    writers = {(letter.pipeline, letter.flow) for _, each in page.records if (letter := letter_of(each))}
    rows = []
    for pipeline, flows in sorted(pipelines.by_pipeline(await read_events(call)).items()):
        for flow, events in sorted(flows.items()):
            # A flow that reads a declaration without a table tells no topic, but its letters name it.
            is_of_it = source in pipelines.source_topics(flow, flows) or (pipeline, flow) in writers
            if is_of_it and query["pipeline"] in ("", pipeline) and query["flow"] in ("", flow):
                rows.append(pipelines.proof(flow, pipeline, source, pipelines.current_run(events), kept))
    return {"flows": rows}


@change("/letters/{topic}/replay")
async def replay(call: Call) -> Change:
    name = _letters_topic(call)
    places = [place_of(each) for each in call.body.items("records", count_max=REPLAYED_MAX)]
    edits = call.body.mapping("edits")
    call.body.done()
    if foreign := edits.keys() - {f"{partition}:{offset}" for partition, offset in places}:
        raise ConsoleError("BAD_BODY", f"edits names {min(foreign)[:40]!r}, which is not among records")
    found = await read_places(call, name, places)
    outgoing = []
    target = name.removesuffix(LETTERS_SUFFIX)
    for (partition, offset), record in zip(places, found, strict=True):
        letter = letter_of(record)
        if letter is None or letter.topic != target:
            raise ConsoleError("REFUSED", f"the record at {partition}:{offset} is no letter of topic {target!r}")
        key, value = _edited(edits.get(f"{partition}:{offset}"), letter)
        outgoing.append((key, value, letter.headers))
    line = command_of(call, "dlq", "replay", "PIPELINE.py", "--with", "FIX.py")
    plan = [{"partition": partition, "offset": offset, "to": target} for partition, offset in places]
    if call.is_dry:
        return Change(line, plan, action="dlq replay")
    await call.topic(target)
    sent = await send_all(call, target, outgoing)
    return Change(line, plan, {"sent": len(sent), "records": sent}, action="dlq replay", target=f"{name} to {target}")


def _edited(edit: Any, letter: Letter) -> tuple[bytes | None, bytes | None]:
    match edit:
        case None:
            return letter.key, letter.value
        case {**given} if given.keys() <= {"key", "value"}:
            key = bytes_of("key", given["key"]) if "key" in given else letter.key
            value = bytes_of("value", given["value"]) if "value" in given else letter.value
            return key, value
    raise ConsoleError("BAD_BODY", 'an edit is {"key": ..., "value": ...}')
