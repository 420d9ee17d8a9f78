"""Consumer groups: the list with lag, one group with members and partitions, why it lags, and moving it."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from chronik.client.admin import groups, lag, offsets, resetting
from chronik.client.consumer import AtTime, Start
from chronik.client.doctor.lag_causes import causes
from chronik.client.doctor.looking import look
from chronik.client.topology import TopicPartition
from chronik.console.calls import Call, Change, change, get
from chronik.console.commands import Name, command_of, option
from chronik.console.errors import ConsoleError
from chronik.console.parameters import PARTITION_MAX, REQUIRED, TOPIC_CHARS_MAX, choice, text, whole
from chronik.console.ring import STEP_MS
from chronik.console.seeing import visible
from chronik.runtime.units import HOUR_MS, MINUTE_MS
from chronik.runtime.wording import counted
from chronik.wire.offset_specs import EARLIEST, LATEST

PARTITIONS_MAX: Final = 10_000
LAG_WINDOW_MS: Final = 60_000
GROUP_S: Final = 3.0
_to: Final = re.compile(r"(earliest)|(latest)|time:(\d{1,14})|([+-]\d{1,18})|(\d{1,18})", re.ASCII)  # up to year 5138


def _pace(call: Call, group_id: str, records: int | None) -> dict[str, Any]:
    observer = call.console.observer
    per_s = observer.history.change_per_s(f"lag:{group_id}", LAG_WINDOW_MS, observer.snapshot.time_ms)
    clears = records is not None and per_s is not None and per_s < 0
    return {
        "lag_per_s": None if per_s is None else round(per_s, 3),
        "clears_in_ms": round(1_000 * records / -per_s) if clears and records is not None and per_s else None,
    }


@get(
    "/groups",
    search=text(chars_max=256),
    sort=choice("name", "name", "lag", "lag_ms", "members"),
    order=choice("asc", "asc", "desc"),
    offset=whole(0, 0, 10**9),
    limit=whole(200, 1, 5_000),
)
async def list_groups(call: Call) -> dict[str, Any]:
    query, snapshot = call.query, call.console.observer.snapshot
    listed = await call.part("the groups", groups.list_all(call.cluster))
    if listed is None:  # what was known last, so that a page is not empty when it is needed most
        listed = [
            groups.ListedGroup(name, "", state, "", -1)
            for name, state in snapshot.group_states.items()
            if call.session.user is None
        ]
    seen = await visible(call.console, call.session)
    matching = [each for each in listed if query["search"].lower() in each.group_id.lower()]
    rows: list[dict[str, Any]] = []
    for each in matching:
        known = snapshot.lags.get(each.group_id)
        records = known.records if known else None
        rows.append(
            {
                "group_id": each.group_id,
                "state": each.state,
                "type": each.group_type or None,
                "protocol_type": each.protocol_type,
                "coordinator_id": each.coordinator_id if each.coordinator_id >= 0 else None,
                "members": None,
                "topics": [each for each in known.topics if seen.topic(each)] if known else [],
                "lag": records,
                "lag_ms": round(known.seconds * 1_000) if known and known.seconds is not None else None,
                **_pace(call, each.group_id, records),
            }
        )
    key = {"name": "group_id", "members": "group_id"}.get(query["sort"], query["sort"])
    rows.sort(key=lambda row: (row[key] is not None, row[key] or 0 if key != "group_id" else row[key]))
    if query["order"] == "desc":
        rows.reverse()
    page = rows[query["offset"] : query["offset"] + query["limit"]]
    await _count_members(call, page)
    return {"total": len(listed), "matching": len(rows), "offset": query["offset"], "groups": page}


async def _count_members(call: Call, rows: list[dict[str, Any]]) -> None:
    """An empty group has none; the others are asked, in one request to each coordinator."""
    from chronik.client.errors import ClientError
    from chronik.wire.messages.consumer_group_describe import (
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
    )
    from chronik.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

    by_node: dict[tuple[int, bool], list[str]] = {}
    for row in rows:
        if row["state"] in ("Empty", "Dead"):
            row["members"] = 0
        elif row["coordinator_id"] is not None:
            by_node.setdefault((row["coordinator_id"], row["type"] == groups.CONSUMER), []).append(row["group_id"])

    async def of(node_id: int, names: list[str], *, is_new: bool) -> dict[str, int]:
        try:
            async with asyncio.timeout(2.0):
                connection = await call.cluster.to_node(node_id)
                if is_new:
                    request = ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=False)
                    told = await connection.ask(request, ConsumerGroupDescribeResponse)
                    return {each.group_id: len(each.members) for each in told.groups if not each.error_code}
                answer = await connection.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
                return {each.group_id: len(each.members) for each in answer.groups if not each.error_code}
        except (ClientError, TimeoutError):
            return {}

    found: dict[str, int] = {}
    for counts in await asyncio.gather(
        *(of(node_id, names, is_new=is_new) for (node_id, is_new), names in by_node.items())
    ):
        found |= counts
    for row in rows:
        if row["members"] is None:
            row["members"] = found.get(row["group_id"])


@get("/groups/{group}")
async def show_group(call: Call) -> dict[str, Any]:
    name = call.path["group"]
    group, committed = await asyncio.gather(
        call.part("members", groups.describe(call.cluster, name), limit_s=GROUP_S),
        call.part("offsets", offsets.committed(call.cluster, name), limit_s=GROUP_S),
    )
    if group is None and committed is None:
        raise ConsoleError("UNREACHABLE", f"the coordinator of group {name!r} does not answer")
    readers = {at: member for member in (group.members if group else ()) for at in member.partitions}
    places = sorted((committed or {}).keys() | readers.keys())
    wanted = {at: each.offset if (each := (committed or {}).get(at)) else None for at in places[:PARTITIONS_MAX]}
    lags = await call.part("lag", lag.of(call.cluster, wanted, starts_at_earliest=False), limit_s=GROUP_S) or {}
    rows: list[dict[str, Any]] = []
    by_member: dict[str, int | None] = {}
    for at in wanted:
        reader, known, stored = readers.get(at), lags.get(at), (committed or {}).get(at)
        records = known.lag if known else None
        if reader is not None:
            before = by_member.get(reader.member_id, 0)
            by_member[reader.member_id] = None if before is None or records is None else before + records
        rows.append(
            {
                "topic": at.topic,
                "partition": at.partition,
                "member_id": reader.member_id if reader else None,
                "committed": stored.offset if stored else None,
                "metadata": stored.metadata if stored else "",
                "start_offset": known.start_offset if known else None,
                "end_offset": known.end_offset if known else None,
                "lag": records,
                "lag_ms": known.lag_ms if known else None,
            }
        )
    known_lags = [row["lag"] for row in rows if row["lag"] is not None]
    total = sum(known_lags) if known_lags or not rows else None
    return {
        "group_id": name,
        "state": group.state if group else call.console.observer.snapshot.group_states.get(name),
        "type": group.group_type if group else None,
        "protocol": group.assignor if group else None,
        "coordinator_id": group.coordinator_id if group else None,
        "lag": total,
        "lag_ms": max((row["lag_ms"] for row in rows if row["lag_ms"] is not None), default=None),
        **_pace(call, name, total),
        "members": [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "instance_id": each.instance_id,
                "partitions": [{"topic": at.topic, "partition": at.partition} for at in each.partitions],
                "lag": by_member.get(each.member_id, 0),
            }
            for each in (group.members if group else ())
        ],
        "partitions": rows,
        "is_truncated": len(places) > PARTITIONS_MAX,
    }


@get("/groups/{group}/history", hours=whole(24, 1, 24), step=choice("1m", "1m", "2s"))
async def history(call: Call) -> dict[str, Any]:
    name, observer = call.path["group"], call.console.observer
    if call.session.user is not None:
        await groups.describe(call.cluster, name)  # the brokers say whether this user may see it
    step_ms = STEP_MS if call.query["step"] == "2s" else MINUTE_MS
    until_ms = observer.snapshot.time_ms
    since_ms = until_ms - call.query["hours"] * HOUR_MS
    start_ms, records = observer.history.read(f"lag:{name}", step_ms, since_ms, until_ms)
    _, seconds = observer.history.read(f"lag_seconds:{name}", step_ms, since_ms, until_ms)
    return {"step_ms": step_ms, "start_ms": start_ms, "lag": records, "lag_seconds": seconds}


@get("/groups/{group}/why", limit_s=45.0, seconds=whole(6, 1, 30))
async def why(call: Call) -> dict[str, Any]:
    name = call.path["group"]
    async with asyncio.timeout(GROUP_S):
        before = await look(call.cluster, name)
    after = before
    if before.lag:
        await asyncio.sleep(call.query["seconds"])
        async with asyncio.timeout(GROUP_S):
            after = await look(call.cluster, name)
    found = causes(name, before, after)
    return {
        "group_id": name,
        "lag": after.lag,
        "lag_without_offset": after.lag_without_offset,
        "verdict": "behind" if after.lag else "caught-up",
        "state": after.state,
        "members": len(after.members),
        "causes": [{"name": each.name, "text": each.text, "action": each.action} for each in found],
        "command": command_of(call, "group", "explain", Name(name)),
    }


# --- changes


def parse_to(given: str) -> tuple[Start | None, int]:
    """A place, or None and a shift. Raises BAD_BODY."""
    match = _to.fullmatch(given)
    if match is None:
        raise ConsoleError("BAD_BODY", f"to={given[:40]!r}: write earliest, latest, an offset, time:MS, +N or -N")
    earliest, latest, time_ms, shift, offset = match.groups()
    if earliest:
        return EARLIEST, 0
    if latest:
        return LATEST, 0
    if time_ms:
        return AtTime(int(time_ms)), 0
    return (None, int(shift)) if shift else (int(offset), 0)


@change("/groups/{group}/reset")
async def reset(call: Call) -> Change:
    name, body = call.path["group"], call.body
    given = body.text("to", REQUIRED)
    to, shift = parse_to(given)
    topics = body.names("topics")
    chosen = [_partition(each) for each in body.items("partitions", count_max=PARTITIONS_MAX)]
    body.done()
    await _require_no_members(call, name)
    committed = {at: each.offset for at, each in (await offsets.committed(call.cluster, name)).items()}
    partitions = list(chosen)
    for topic in topics:
        partitions += [TopicPartition(topic, index) for index in (await call.topic(topic)).partitions]
    if not topics and not chosen:
        partitions = sorted(committed)
    if not partitions:
        raise ConsoleError("REFUSED", f"group {name!r} has no offsets to move", "name topics to give it some")
    missing = [at for at in partitions if at not in committed] if to is None else []
    if missing:
        raise ConsoleError("REFUSED", f"group {name!r} has no offset for {missing[0]} to shift from")
    plan = await resetting.plan(call.cluster, committed, list(dict.fromkeys(partitions)), to=to, shift=shift)
    ends = await offsets.look_up(call.cluster, {row.at: LATEST for row in plan})
    rows = [
        {
            "topic": row.at.topic,
            "partition": row.at.partition,
            "before": row.old_offset,
            "after": row.new_offset,
            "lag_after": max(0, end.offset - row.new_offset)
            if isinstance(end := ends.get(row.at), offsets.OffsetAt)
            else None,
        }
        for row in plan
    ]
    if not call.is_dry:
        moved = {row.at: offsets.Committed(row.new_offset, -1, "") for row in plan if row.moves}
        await offsets.commit(call.cluster, name, moved)
    return Change(_reset_line(call, name, given, topics, chosen), rows, {"moved": rows}, action="group reset")


async def _require_no_members(call: Call, name: str) -> None:
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    try:
        group = await groups.describe(call.cluster, name)
    except Refused as fault:
        if fault.kafka_error is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if group.members:
        who = ", ".join(sorted({member.client_id for member in group.members}))
        raise ConsoleError(
            "REFUSED",
            f"group {name!r} has {counted(len(group.members), 'member')} ({who})",
            "stop them first, or they would overwrite the new offsets",
        )


def _partition(given: Any) -> TopicPartition:
    match given:
        case {"topic": str(topic), "partition": int(partition)} if (
            0 <= partition <= PARTITION_MAX and len(topic) <= TOPIC_CHARS_MAX
        ):
            return TopicPartition(topic, partition)
    raise ConsoleError("BAD_BODY", 'a partition is named as {"topic": "orders", "partition": 0}')


def _reset_line(call: Call, name: str, to: str, topics: list[str], chosen: list[TopicPartition]) -> str:
    words = ["--shift", to] if to[0] in "+-" else ["--to", _place(to)]
    named = [*topics, *dict.fromkeys(at.topic for at in chosen)]
    indexes = dict.fromkeys(at.partition for at in chosen)
    return command_of(
        call,
        "group",
        "reset",
        Name(name),
        *words,
        *option("--topic", named),
        *option("--partition", indexes),
        "--execute",
    )


def _place(to: str) -> str:
    from datetime import UTC, datetime

    if not to.startswith("time:"):
        return to
    moment = datetime.fromtimestamp(int(to.removeprefix("time:")) / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@change("/groups/{group}/delete")
async def delete(call: Call) -> Change:
    name = call.path["group"]
    call.body.done()
    await groups.describe(call.cluster, name)
    if not call.is_dry:
        answer = (await groups.delete(call.cluster, [name]))[name]
        if answer is not None:
            raise answer
    return Change(command_of(call, "group", "delete", Name(name), "--yes"), action="group delete")
