"""Pipelines: state, graph, flows and batches from their events; versions of their tables."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from chronik.console import pipelines
from chronik.console.calls import Call, get
from chronik.console.errors import ConsoleError
from chronik.console.parameters import text, whole
from chronik.console.reading import Budget, Reader
from chronik.console.routes.session import TABLES, has

if TYPE_CHECKING:
    from chronik.pipeline.events import Event

EVENTS_TOPIC: Final = "__chronik_pipeline_events"
EVENTS_MAX: Final = 20_000  # the newest
EVENTS_AGE_S: Final = 2.0


async def read_events(call: Call) -> list[Event]:
    """The newest events, oldest first; empty where no pipeline ran."""
    from chronik.pipeline.events import parse

    known: dict[object, tuple[float, list[Event]]] = call.console.extras.setdefault("pipeline events", {})
    key = call.session.user
    for each in [each for each, (at, _) in known.items() if at <= time.monotonic() - EVENTS_AGE_S]:
        del known[each]
    if key in known and known[key][0] > time.monotonic() - EVENTS_AGE_S:
        return known[key][1]
    topics = (await call.topology()).topics
    if EVENTS_TOPIC not in topics:
        return []
    topic = await call.topic(EVENTS_TOPIC)
    reader = Reader(call.cluster, EVENTS_TOPIC, call.missing)
    bounds = await reader.bounds(topic.partitions)
    budget = Budget.of_page(is_scan=True)
    page, _ = await reader.backward({each: end for each, (_, end) in bounds.items()}, bounds, EVENTS_MAX, budget)
    found = [event for _, record in page.records if (event := parse(record.value)) is not None]
    known[key] = time.monotonic(), found
    return found


@get("/pipelines", limit_s=20.0)
async def list_pipelines(call: Call) -> dict[str, Any]:
    now_ms = call.console.now_ms()
    rows = []
    for name, flows in sorted(pipelines.by_pipeline(await read_events(call)).items()):
        documents = [pipelines.flow_document(flow, events, now_ms) for flow, events in flows.items()]
        lags = [each["lag_messages"] for each in documents if each["lag_messages"] is not None]
        rows.append(
            {
                "pipeline": name,
                "state": pipelines.pipeline_state(each["state"] for each in documents),
                "flows": len(documents),
                "last_event_ms": max(events[-1].time_ms for events in flows.values()),
                "lag_messages": sum(lags) if lags else None,
                "rows_dead": sum(each["rows_dead"] for each in documents),
            }
        )
    return {"pipelines": rows}


async def _flows(call: Call) -> dict[str, list[Event]]:
    name = call.path["pipeline"]
    flows = pipelines.by_pipeline(await read_events(call)).get(name)
    if flows is None:
        raise ConsoleError("PIPELINE_NOT_FOUND", f"no event names a pipeline {name!r}")
    return flows


@get("/pipelines/{pipeline}", limit_s=20.0)
async def show_pipeline(call: Call) -> dict[str, Any]:
    flows, now_ms = await _flows(call), call.console.now_ms()
    documents = [pipelines.flow_document(flow, events, now_ms) for flow, events in sorted(flows.items())]
    newest = max((events[-1] for events in flows.values()), key=lambda event: event.time_ms)
    versions = next(
        (dict(event.versions) for events in flows.values() for event in reversed(events) if event.versions), {}
    )
    return {
        "pipeline": newest.pipeline,
        "state": pipelines.pipeline_state(each["state"] for each in documents),
        "versions": versions,
        "graph": pipelines.graph(
            {flow: pipelines.described(pipelines.current_run(events)) for flow, events in sorted(flows.items())}
        ),
        "flows": documents,
    }


@get("/pipelines/{pipeline}/batches", limit_s=20.0, flow=text(chars_max=256), limit=whole(200, 1, 2_000))
async def batches(call: Call) -> dict[str, Any]:
    flows, wanted, limit = await _flows(call), call.query["flow"], call.query["limit"]
    events = [event for flow, some in flows.items() if wanted in ("", flow) for event in some]
    events.sort(key=lambda event: event.time_ms, reverse=True)
    return {
        "batches": [pipelines.batch_document(each) for each in events[:limit]],
        "is_truncated": len(events) > limit,
    }


@get("/tables/{table}/versions", limit=whole(100, 1, 1_000))
async def versions(call: Call) -> dict[str, Any]:
    name = call.path["table"]
    path = Path(call.console.settings.storage) / "tables" / name
    if "/" in name or name in (".", "..") or not await asyncio.to_thread(os.path.isdir, path / "_delta_log"):
        raise ConsoleError("TABLE_NOT_FOUND", f"there is no table {name!r} in {path.parent}")
    if not has(TABLES):
        raise ConsoleError("EXTRA_MISSING", "tables need deltalake and pyarrow", "pip install 'chronik[sql]'")
    history = await asyncio.to_thread(_history, path, call.query["limit"])
    return {"table": name, "path": str(path), "versions": history}


def _history(path: Path, limit: int) -> list[dict[str, Any]]:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        entries = DeltaTable(str(path)).history(limit)
    except (DeltaError, OSError) as fault:
        raise ConsoleError("REFUSED", f"the history of {path} cannot be read: {fault}") from fault
    rows = []
    for entry in entries:
        metrics = {**entry.get("operationMetrics", {})}
        rows.append(
            {
                "version": entry.get("version"),
                "time_ms": entry.get("timestamp"),
                "operation": entry.get("operation"),
                "rows_added": _first(metrics, "num_added_rows", "numOutputRows", "num_target_rows_inserted"),
                "rows_removed": _first(metrics, "num_deleted_rows", "numDeletedRows", "num_target_rows_deleted"),
                "details": {str(key): str(value) for key, value in metrics.items()},
            }
        )
    return rows


def _first(metrics: dict[str, Any], *names: str) -> int | None:
    for name in names:
        if metrics.get(name) is not None:
            return int(metrics[name])
    return None
