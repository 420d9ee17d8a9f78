"""The cluster at a glance: health, rates, what needs attention, what happened."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from chronik.console.attention import Seen, attention
from chronik.console.calls import Call, get
from chronik.console.parameters import choice, many, text, time_ms, whole
from chronik.console.ring import STEP_MS
from chronik.console.seeing import Visible, visible
from chronik.console.snapshot import health_of
from chronik.console.streams import event, stream
from chronik.runtime.units import MINUTE_MS

if TYPE_CHECKING:
    from chronik.console.app import Console
    from chronik.console.snapshot import Health, Snapshot

RATES: Final = (
    "messages_in_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
    "requests_per_s",
    "produce_p99_ms",
    "fetch_p99_ms",
)
NODE_RATES: Final = RATES[:3]
EVENTS_SHOWN: Final = 50
OF_ALL: Final = ("unreachable", "no-controller")  # what needs no permission to be told
_about: Final = re.compile(r"[a-z0-9_]+(?:/(?P<topic>.+)|:(?P<group>.+)|@[0-9]+)?", re.DOTALL)


def overview(console: Console, seen: Visible) -> dict[str, Any]:
    observer = console.observer
    snapshot = observer.snapshot
    health, items = observer.health, observer.attention
    if seen.topics is not None:
        topics = {name: each for name, each in snapshot.topology.topics.items() if name in seen.topics}
        health = health_of(type(snapshot.topology)(topics=topics))
        items = attention(Seen(snapshot, health, observer.lag_per_s))  # which names some of the partitions
        items = [each for each in items if seen.item(each.topic, each.group) or each.id in OF_ALL]
    cluster = _cluster(snapshot, health, sees_cluster=seen.cluster)
    cluster["verdict"] = _verdict(snapshot, has_problems=any(each.severity == "problem" for each in items))
    return {
        "now_ms": snapshot.time_ms,
        "cluster": cluster,
        "rates": {name: snapshot.values.get(name) if seen.cluster else None for name in RATES},
        "nodes": [_node(snapshot, node_id) for node_id in snapshot.node_ids if seen.cluster],
        "attention": [each.document(observer.since.get(each.id, snapshot.time_ms)) for each in items],
        "missing": [each.document() for each in snapshot.missing],
    }


def _verdict(snapshot: Snapshot, *, has_problems: bool) -> str:
    if not snapshot.is_reached:
        return "unreachable"
    if snapshot.survey is not None:
        return "no-quorum"
    return "attention" if has_problems or snapshot.quorum is None else "healthy"


def _cluster(snapshot: Snapshot, health: Health, *, sees_cluster: bool) -> dict[str, Any]:
    quorum, survey = snapshot.quorum, snapshot.survey
    voters = list(quorum.voters if quorum else survey.voters if survey else ())
    answering = survey.answering if survey else [each for each in voters if each in snapshot.statuses]
    not_ready = next(
        (why for at in snapshot.statuses.values() if (why := at.page.get("not_ready_because"))),
        str(survey) if survey else None,
    )
    has_topics = snapshot.topology_ms > 0
    return {
        "cluster_id": snapshot.cluster_id,
        "controller_id": quorum.leader_id if quorum and quorum.leader_id >= 0 else None,
        "term": quorum.term if quorum else survey.term if survey else None,
        "has_quorum": snapshot.has_quorum,
        "not_ready_because": not_ready if survey is not None else None,
        "nodes": len(snapshot.node_ids),
        "nodes_answering": len(snapshot.statuses),
        "voters": len(voters),
        "voters_answering": len(answering),
        "votes_needed": len(voters) // 2 + 1 if voters else None,
        "topics": health.topics if has_topics else None,
        "partitions": health.partitions if has_topics else None,
        "offline_partitions": health.offline_count if has_topics else None,
        "under_replicated": health.under_replicated_count if has_topics else None,
        "under_min_isr": _whole(snapshot.values.get("under_min_isr") if sees_cluster else None),
    }


def _node(snapshot: Snapshot, node_id: int) -> dict[str, Any]:
    values: Mapping[str, float] = snapshot.node_values.get(node_id, {})
    page = snapshot.page(node_id)
    machine = page.get("machine") or {}
    fenced = {each.node_id: each.is_fenced for each in snapshot.brokers}
    return {
        "node_id": node_id,
        "is_answering": node_id in snapshot.statuses,
        "is_controller": snapshot.quorum is not None and snapshot.quorum.leader_id == node_id,
        "is_fenced": fenced.get(node_id),
        "role": (page.get("quorum") or {}).get("role"),
        "disk_free_bytes": machine.get("disk_free_bytes"),
        "disk_total_bytes": machine.get("disk_total_bytes"),
        **{name: values.get(name) for name in NODE_RATES},
    }


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _events(console: Console, seen: Visible, count: int, before: int | None = None) -> list[dict[str, Any]]:
    newest = console.observer.feed.newest(console.observer.feed.last_id, before)
    found = [each for each in newest if seen.item(each.event.topic, each.event.group)]
    return [each.document() for each in found[:count]]


@get("/overview")
async def show_overview(call: Call) -> dict[str, Any]:
    seen = await visible(call.console, call.session)
    observer = call.console.observer
    if not observer.looks:  # the first look takes a moment; an empty page would look like an empty cluster
        async with observer.ticked:
            await observer.ticked.wait_for(lambda: observer.looks > 0)
    return {**overview(call.console, seen), "events": _events(call.console, seen, EVENTS_SHOWN)}


@get("/events", before=whole(None, 1, 2**62), limit=whole(100, 1, 1_000))
async def events(call: Call) -> dict[str, Any]:
    seen = await visible(call.console, call.session)
    return {"events": _events(call.console, seen, call.query["limit"], call.query["before"])}


@get("/metrics", series=many(text(chars_max=512), 32), step=choice("2s", "2s", "1m"), since_ms=time_ms())
async def metrics(call: Call) -> dict[str, Any]:
    observer, seen = call.console.observer, await visible(call.console, call.session)
    step_ms = MINUTE_MS if call.query["step"] == "1m" else STEP_MS
    until_ms = observer.snapshot.time_ms
    start_ms, found = until_ms, {}
    for name in call.query["series"]:
        about = _about.fullmatch(name)
        allowed = about is not None and seen.item(about["topic"], about["group"])
        start_ms, found[name] = observer.history.read(
            name if allowed else "", step_ms, call.query["since_ms"] or 0, until_ms
        )
    return {"step_ms": step_ms, "start_ms": start_ms, "series": found}


@get("/stream", is_stream=True)
async def ticks(call: Call) -> Any:
    last = call.request.headers.get("last-event-id", "")
    feed = call.console.observer.feed
    return stream(call, _ticks(call, int(last) if last.isdigit() and len(last) < 16 else feed.last_id))


async def _ticks(call: Call, last_id: int) -> AsyncGenerator[bytes, None]:
    observer = call.console.observer
    while True:
        seen = await visible(call.console, call.session)
        snapshot, looks = observer.snapshot, observer.looks
        if looks:
            yield event("overview", overview(call.console, seen))
            values = dict(snapshot.values) if seen.cluster else {}
            for node_id, of_node in snapshot.node_values.items() if seen.cluster else ():
                values |= {f"{name}@{node_id}": value for name, value in of_node.items()}
            yield event("metrics", {"time_ms": snapshot.time_ms, "values": values})
            for each in observer.feed.after(last_id):
                last_id = each.id
                if seen.item(each.event.topic, each.event.group):
                    yield event("event", each.document(), each.id)
        async with observer.ticked:
            await observer.ticked.wait_for(lambda: observer.looks > looks)  # noqa: B023 - used before it changes


@get("/search", q=text(chars_max=256), limit=whole(20, 1, 200))
async def search(call: Call) -> dict[str, Any]:
    wanted, limit = call.query["q"].lower(), call.query["limit"]
    snapshot, seen = call.console.observer.snapshot, await visible(call.console, call.session)
    named = [
        ("topic", name, f"/topics/{quote(name, safe='')}") for name in snapshot.topology.topics if seen.topic(name)
    ]
    known_groups = snapshot.group_states.keys() | snapshot.lags.keys()
    named += [("group", name, f"/groups/{quote(name, safe='')}") for name in known_groups if seen.group(name)]
    named += [("node", f"node {node_id}", "/nodes") for node_id in snapshot.node_ids if seen.cluster]
    found = sorted(
        (each for each in named if wanted in each[1].lower()),
        key=lambda each: (not each[1].lower().startswith(wanted), each[1]),
    )
    return {
        "found": [{"kind": kind, "name": name, "link": link} for kind, name, link in found[:limit]],
        "is_truncated": len(found) > limit,
    }
