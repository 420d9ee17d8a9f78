"""Topics: the list, one topic with its partitions, its settings and its groups, and changes of all of these."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from chronik.client.admin import configs, groups, nodes, offsets, reassignments, topics
from chronik.client.admin.configs import ConfigResource, ResourceKind, Source
from chronik.client.errors import ClientError, Refused
from chronik.client.producer import Producer
from chronik.client.topology import NO_LEADER, Topic, TopicPartition
from chronik.console.calls import Call, Change, change, get
from chronik.console.commands import Name, command_of, option, quote
from chronik.console.errors import ConsoleError
from chronik.console.parameters import REQUIRED, TOPIC_CHARS_MAX, bytes_of, choice, place_of, text, whole
from chronik.console.reading import Reader

if TYPE_CHECKING:
    from chronik.client.admin.nodes import LogDirectory
    from chronik.wire.records import Record

GROUPS_MAX: Final = 500
RESENT_MAX: Final = 1_000
LETTERS_SUFFIX: Final = ".dlq"
SOURCES: Final = {
    Source.TOPIC: "topic",
    Source.BROKER: "broker",
    Source.ALL_BROKERS: "cluster",
    Source.FILE: "file",
    Source.DEFAULT: "default",
}
SORTS: Final = ("name", "partitions", "records", "size_bytes", "messages_in_per_s")


@get(
    "/topics",
    search=text(chars_max=256),
    internal=choice("0", "0", "1"),
    sort=choice("name", *SORTS),
    order=choice("asc", "asc", "desc"),
    offset=whole(0, 0, 10**9),
    limit=whole(200, 1, 10_000),
)
async def list_topics(call: Call) -> dict[str, Any]:
    query, wanted = call.query, call.query["search"].lower()
    known = (await call.topology()).topics
    listed = [each for each in known.values() if query["internal"] == "1" or not each.is_internal]
    matching = [each for each in listed if wanted in each.name.lower()]
    observer = call.console.observer
    rates = observer.snapshot.topic_rates

    def value(topic: Topic) -> Any:
        match query["sort"]:
            case "partitions":
                return len(topic.partitions)
            case "records":
                return observer.records.get(topic.name, -1)
            case "size_bytes":
                return observer.sizes.get(topic.name, -1)
            case "messages_in_per_s":
                return rates.get(("messages_in_per_s", topic.name), 0.0)
        return topic.name

    matching.sort(key=lambda each: (value(each), each.name), reverse=query["order"] == "desc")
    start = query["offset"]
    return {
        "total": len(listed),
        "matching": len(matching),
        "offset": start,
        "topics": [_row(call, each) for each in matching[start : start + query["limit"]]],
    }


def _row(call: Call, topic: Topic) -> dict[str, Any]:
    observer = call.console.observer
    partitions = topic.partitions.values()
    rates = observer.snapshot.topic_rates
    has_rates = bool(observer.snapshot.values.get("messages_in_per_s") is not None)
    return {
        "name": topic.name,
        "topic_id": base64.urlsafe_b64encode(topic.topic_id).rstrip(b"=").decode(),
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(each.replicas) for each in partitions), default=0),
        "offline": sum(each.leader_id == NO_LEADER for each in partitions),
        "under_replicated": sum(len(each.isr) < len(each.replicas) for each in partitions),
        "records": observer.records.get(topic.name),
        "size_bytes": observer.sizes.get(topic.name, 0 if observer.is_surveyed else None),
        "messages_in_per_s": rates.get(("messages_in_per_s", topic.name), 0.0) if has_rates else None,
    }


@get("/topics/{topic}")
async def show_topic(call: Call) -> dict[str, Any]:
    name = call.path["topic"]
    topic = await call.topic(name)
    reader = Reader(call.cluster, name, call.missing)
    bounds, directories, moves = await asyncio.gather(
        reader.bounds(topic.partitions),
        call.part("sizes", nodes.log_directories(call.cluster)),
        call.part("moves", reassignments.under_way(call.cluster)),
    )
    sizes = _sizes(name, directories or [])
    rates = call.console.observer.snapshot.topic_rates
    known = (await call.topology()).topics
    letters = f"{name}{LETTERS_SUFFIX}"
    row = _row(call, topic)
    return {
        "name": name,
        "topic_id": row["topic_id"],
        "is_internal": topic.is_internal,
        "replication_factor": row["replication_factor"],
        "records": sum(end - start for start, end in bounds.values()) if len(bounds) == len(topic.partitions) else None,
        "size_bytes": sum(sum(each.values()) for each in sizes.values()) if directories is not None else None,
        **{
            series: rates.get((series, name), 0.0) if row["messages_in_per_s"] is not None else None
            for series in ("messages_in_per_s", "bytes_in_per_s", "bytes_out_per_s")
        },
        "partitions": [
            {
                "partition": index,
                "leader_id": None if each.leader_id == NO_LEADER else each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": each.replicas,
                "isr": each.isr,
                "offline": each.offline,
                "start_offset": bounds[index][0] if index in bounds else None,
                "end_offset": bounds[index][1] if index in bounds else None,
                "sizes_bytes": sizes.get(index, {}),
                "move": _move(moves, TopicPartition(name, index)),
            }
            for index, each in topic.partitions.items()
        ],
        "letters_topic": letters if letters in known else None,
    }


def _sizes(name: str, directories: list[LogDirectory]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for directory in directories:
        for at, size in directory.sizes_bytes.items():
            if at.topic == name:
                found.setdefault(at.partition, {})[str(directory.node_id)] = size
    return found


def _move(moves: Mapping[TopicPartition, reassignments.Move] | None, at: TopicPartition) -> dict[str, Any] | None:
    found = (moves or {}).get(at)
    return None if found is None else {"adding": found.adding, "removing": found.removing}


@get("/topics/{topic}/configs")
async def show_configs(call: Call) -> dict[str, Any]:
    name = call.path["topic"]
    await call.topic(name)
    found = await call.part("settings", configs.describe(call.cluster, ConfigResource(ResourceKind.TOPIC, name)))
    types = _types()
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "value": each.value,
            "source": SOURCES.get(each.source, "default"),
            "type": types.get(each.name, "string"),
            "is_sensitive": each.is_sensitive,
            "is_read_only": each.is_read_only,
            "documentation": each.documentation or "",
        }
        for each in found or ()
    ]
    rows.sort(key=lambda row: (row["source"] != "topic", row["name"]))
    return {"configs": rows}


def _types() -> dict[str, str]:
    from chronik.catalogue.topic_keys import TOPIC_CONFIGS

    return {name: definition.type.name.lower() for name, definition in TOPIC_CONFIGS.items()}


@get("/topics/{topic}/groups", limit_s=20.0)
async def show_groups(call: Call) -> dict[str, Any]:
    name = call.path["topic"]
    await call.topic(name)
    listed = await call.part("the groups", groups.list_all(call.cluster)) or []
    gate = asyncio.Semaphore(16)
    lags = call.console.observer.snapshot.lags

    async def one(listed_group: groups.ListedGroup) -> dict[str, Any] | None:
        async with gate:
            group_id = listed_group.group_id
            try:
                async with asyncio.timeout(2.0):
                    group = await groups.describe(call.cluster, group_id)
                    committed = await offsets.committed(call.cluster, group_id)
            except (ClientError, TimeoutError):
                return None
            reads = {at for member in group.members for at in member.partitions if at.topic == name}
            here = {at: each.offset for at, each in committed.items() if at.topic == name}
            if not reads and not here:
                return None
            lag = lags.get(group_id)
            return {
                "group_id": group_id,
                "state": group.state,
                "members": len(group.members),
                "lag": lag.records if lag and set(lag.topics) <= {name} else await _lag(call, here),
                "lag_ms": round(lag.seconds * 1_000) if lag and lag.seconds is not None else None,
            }

    found = await asyncio.gather(*(one(each) for each in listed[:GROUPS_MAX]))
    return {"groups": [each for each in found if each], "is_truncated": len(listed) > GROUPS_MAX}


async def _lag(call: Call, committed: Mapping[TopicPartition, int]) -> int | None:
    from chronik.client.admin import lag

    try:
        async with asyncio.timeout(2.0):
            found = await lag.of(call.cluster, dict(committed), with_time=False)
    except (ClientError, TimeoutError):
        return None
    return sum(each.lag or 0 for each in found.values())


# --- changes


@change("/topics")
async def create(call: Call) -> Change:
    body = call.body
    name = body.text("name", REQUIRED)
    if len(name) > TOPIC_CHARS_MAX:
        raise ConsoleError("BAD_BODY", f"names of topics have at most {TOPIC_CHARS_MAX} characters")
    count = body.whole("partitions", topics.DEFAULT, low=1, high=100_000)
    factor = body.whole("replication_factor", topics.DEFAULT, low=1, high=1_000)
    given = body.texts("configs")
    body.done()
    line = command_of(
        call,
        "topic",
        "create",
        Name(name),
        *(["--partitions", count] if count > 0 else []),
        *(["--replication-factor", factor] if factor > 0 else []),
        *option("--config", (f"{key}={value}" for key, value in given.items())),
    )
    new = topics.NewTopic(name, count, factor, given)
    answer = (await topics.create(call.cluster, [new], validate_only=call.is_dry))[name]
    if isinstance(answer, Refused):
        raise answer
    return Change(line, result={"topic": name}, action="topic create", target=name)


@change("/topics/{topic}/delete")
async def delete(call: Call) -> Change:
    name = call.path["topic"]
    call.body.done()
    await call.topic(name)
    line = command_of(call, "topic", "delete", Name(name), "--yes")
    if not call.is_dry:
        answer = (await topics.delete(call.cluster, [name]))[name]
        if answer is not None:
            raise answer
    return Change(line, action="topic delete")


@change("/topics/{topic}/partitions")
async def grow(call: Call) -> Change:
    name, count = call.path["topic"], call.body.whole("count", REQUIRED, low=1, high=100_000)
    call.body.done()
    before = len((await call.topic(name)).partitions)
    await topics.grow(call.cluster, name, count, validate_only=call.is_dry)
    line = command_of(call, "topic", "alter", Name(name), "--partitions", count)
    return Change(line, [{"partitions_before": before, "partitions_after": count}], action="topic alter")


@change("/topics/{topic}/configs")
async def alter_configs(call: Call) -> Change:
    name, given, unset = call.path["topic"], call.body.texts("set"), call.body.names("unset")
    call.body.done()
    if not given and not unset:
        raise ConsoleError("BAD_BODY", "name settings in set or unset")
    await call.topic(name)
    resource = ConfigResource(ResourceKind.TOPIC, name)
    before = {each.name: each.value for each in await configs.describe(call.cluster, resource)}
    await configs.alter(call.cluster, resource, set_to=given, unset=unset, validate_only=call.is_dry)
    plan = [{"name": key, "before": before.get(key), "after": given.get(key)} for key in [*given, *unset]]
    line = command_of(
        call,
        "topic",
        "alter",
        Name(name),
        *option("--config", (f"{key}={value}" for key, value in given.items())),
        *option("--unset", unset),
    )
    return Change(line, plan, action="topic alter")


@change("/topics/{topic}/records")
async def produce(call: Call) -> Change:
    name, body = call.path["topic"], call.body
    partition = body.whole("partition", None, high=2**31 - 1)
    key, value = body.bytes("key"), body.bytes("value")
    headers = tuple(_header(each) for each in body.items("headers", count_max=1_000))
    body.done()
    topic = await call.topic(name)
    if partition is not None and partition not in topic.partitions:
        raise ConsoleError("PARTITION_NOT_FOUND", f"{name} has no partition {partition}")
    line = _produce_line(call, name, partition, key, value, headers)
    if call.is_dry:
        return Change(line, action="produce")
    async with Producer(call.cluster) as producer:
        sent = await producer.send(name, value, key=key, partition=partition, headers=headers)
        at = await sent
    return Change(line, result={"partition": at.partition, "offset": at.offset}, action="produce")


def _header(given: Any) -> tuple[str, bytes | None]:
    match given:
        case {"key": str(name), **rest} if rest.keys() <= {"value"}:
            return name, bytes_of("value of a header", rest.get("value"))
    raise ConsoleError("BAD_BODY", 'a header is {"key": "...", "value": ...}')


def _produce_line(
    call: Call,
    name: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> str:
    """A pipe of one line of JSON, which can say everything that a record holds."""
    import json

    document: dict[str, Any] = {}
    for field, data in (("key", key), ("value", value)):
        document |= _field(field, data)
    if headers:
        document["headers"] = [{"key": each, **_field("value", data)} for each, data in headers]
    if partition is not None:
        document["partition"] = partition
    keeps = ["--keep-partitions"] if partition is not None else []
    line = command_of(call, "produce", Name(name), "--input", "json", *keeps)
    return f"printf '%s\\n' {quote(json.dumps(document, ensure_ascii=False))} | {line}"


def _field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


@change("/topics/{topic}/resend")
async def resend(call: Call) -> Change:
    name, body = call.path["topic"], call.body
    places = [place_of(each) for each in body.items("records", count_max=RESENT_MAX)]
    target = body.text("to", name)
    body.done()
    found = await read_places(call, name, places)
    await call.topic(target)
    first = places[0] if places else (0, 0)
    line = (
        command_of(
            call, "consume", Name(name), "--partition", first[0], "--from", first[1], "--count", 1, "--format", "json"
        )
        + " | "
        + command_of(call, "produce", Name(target), "--input", "json")
    )
    plan = [{"partition": partition, "offset": offset, "to": target} for partition, offset in places]
    if call.is_dry:
        return Change(line, plan, action="resend")
    sent = await send_all(call, target, [(each.key, each.value, each.headers) for each in found])
    return Change(line, plan, {"sent": len(sent), "records": sent}, action="resend", target=f"{name} to {target}")


async def read_places(call: Call, name: str, places: list[tuple[int, int]]) -> list[Record]:
    """Raises RECORD_NOT_FOUND before anything is sent."""
    topic = await call.topic(name)
    reader = Reader(call.cluster, name, call.missing)
    found = []
    for partition, offset in places:
        if partition not in topic.partitions:
            raise ConsoleError("PARTITION_NOT_FOUND", f"{name} has no partition {partition}")
        record = await reader.one(partition, offset)
        if record is None:
            raise ConsoleError("RECORD_NOT_FOUND", f"{name}-{partition} has no record at offset {offset}")
        found.append(record)
    return found


async def send_all(
    call: Call, topic: str, records: list[tuple[bytes | None, bytes | None, Any]]
) -> list[dict[str, int]]:
    async with Producer(call.cluster) as producer:
        deliveries = [await producer.send(topic, value, key=key, headers=headers) for key, value, headers in records]
        positions = [await each for each in deliveries]
    return [{"partition": at.partition, "offset": at.offset} for at in positions]
