"""The progress of a pipeline, from its cluster and its tables. Starts no Spark and does not disturb a run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chronik.pipeline.events import BATCH, STARTED, STOPPED, Event, read_events
from chronik.pipeline.flows import Flow, flows_of
from chronik.pipeline.live_cluster import LiveCluster
from chronik.pipeline.registry import load


def standing_of(file: str | Path, storage: str, cluster: LiveCluster) -> Iterator[dict[str, Any]]:
    """A row for each flow; rows and dead letters are those of its last run."""
    pipeline = load(file)
    known = cluster.topics()
    events = read_events(cluster, pipeline.name)
    for flow in flows_of(pipeline, str(Path(storage).expanduser().absolute())):
        mine = [event for event in events if event.flow == flow.name]
        lag = None
        if not flow.is_view and mine and flow.source_topic in known:
            lag = cluster.lag_of(flow.group, flow.source_topic)
        yield {
            "flow": flow.name,
            "kind": flow.kind,
            "version": version_of(flow),
            "lag_messages": lag.messages if lag is not None else None,
            "lag_ms": lag.ms if lag is not None else None,
            **_last_run(mine),
        }


def _last_run(events: list[Event]) -> dict[str, Any]:
    run_id = events[-1].run_id if events else ""
    batches = [event for event in events if event.run_id == run_id and event.kind == BATCH]
    return {
        "state": _state(events),
        "rows_in": sum(event.rows_in for event in batches),
        "rows_out": sum(event.rows_out for event in batches),
        "rows_dead": sum(event.rows_dead for event in batches),
        "last_batch_ms": batches[-1].time_ms if batches else None,
        "error": events[-1].error or None if events else None,
    }


def _state(events: list[Event]) -> str:
    """Derived from events: a run that was killed has not reported its stop."""
    if not events:
        return "never ran"
    last = events[-1]
    if last.kind == STOPPED:
        return "failed" if last.error else "stopped"
    return "started" if last.kind == STARTED else "running"


def version_of(flow: Flow) -> int | None:
    if not flow.table:
        return None
    from chronik.pipeline.tables.place import Place

    found = Place.of(flow.table).find()
    return None if found is None else int(found.version())
