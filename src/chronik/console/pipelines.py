"""Pipelines as their events tell them: states, flows, sums, and the graph of what reads what. Pure.

An event names what its flow reads as `topic NAME`, or as the name of another declaration, and what it writes as
`topic NAME` or `table PATH`. A table has the name of the flow that writes it, which is the last part of its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from chronik.pipeline.events import Event

SILENT_MS: Final = 300_000
COUNTERS: Final = ("rows_in", "rows_out", "rows_dead", "rows_dropped", "rows_late")


TOPIC, TABLE, FLOW = "topic", "table", "flow"


class Place(NamedTuple):
    """What a flow reads or writes. A flow without events of its own stores nothing, so it is no table."""

    kind: str
    name: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.name}"


def place_of(text: str) -> Place:
    kind, _, name = text.partition(" ")
    if name and kind == TABLE:
        return Place(TABLE, PurePath(name).name)
    return Place(TOPIC, name) if name and kind == TOPIC else Place(FLOW, text)


def described(events: Sequence[Event]) -> Event:
    """The newest of a run that says what the flow reads and writes."""
    return next((each for each in reversed(events) if each.reads or each.writes), events[-1])


def source_topics(flow: str, flows: Mapping[str, Sequence[Event]]) -> set[str]:
    """The topics that a flow's rows come from, by way of other flows."""
    found: set[str] = set()
    seen, ahead = {flow}, [flow]
    while ahead:
        events = flows.get(ahead.pop())
        for place in map(place_of, described(current_run(events)).reads if events else ()):
            if place.kind == TOPIC:
                found.add(place.name)
            elif place.name not in seen:
                seen.add(place.name)
                ahead.append(place.name)
    return found


def by_pipeline(events: Iterable[Event]) -> dict[str, dict[str, list[Event]]]:
    """Events by pipeline and flow, oldest first."""
    found: dict[str, dict[str, list[Event]]] = {}
    for event in events:
        found.setdefault(event.pipeline, {}).setdefault(event.flow, []).append(event)
    return found


def current_run(events: Sequence[Event]) -> list[Event]:
    """Those of the run that the newest event belongs to."""
    return [each for each in events if each.run_id == events[-1].run_id]


def flow_state(events: Sequence[Event], now_ms: int) -> str:
    last = events[-1]
    if last.kind == "stopped":
        return "failed" if last.error else "stopped"
    return "silent" if now_ms - last.time_ms > SILENT_MS else "running"


def pipeline_state(states: Iterable[str]) -> str:
    """What is worst of its flows; a pipeline runs as long as one of them does."""
    known = set(states)
    return next((each for each in ("failed", "running", "silent", "stopped") if each in known), "stopped")


def flow_document(name: str, events: Sequence[Event], now_ms: int) -> dict[str, Any]:
    run = current_run(events)
    batches = [each for each in run if each.kind == "batch"]
    last = batches[-1] if batches else None
    failed: dict[str, int] = {}
    for each in batches:
        for expectation, count in each.failed.items():
            failed[expectation] = failed.get(expectation, 0) + count
    told = described(run)
    target = place_of(told.writes) if told.writes else None
    return {
        "flow": name,
        "state": flow_state(events, now_ms),
        "reads": [place_of(each).name for each in told.reads],
        "writes": target.name if target else "",
        "writes_to": target.kind if target else None,
        "batches": len(batches),
        **{counter: sum(getattr(each, counter) for each in batches) for counter in COUNTERS},
        "failed": failed,
        "lag_messages": _known(last.lag_messages) if last else None,
        "lag_ms": _known(last.lag_ms) if last else None,
        "last_batch_ms": last.time_ms if last else None,
        "duration_ms": last.duration_ms if last else None,
        "table_version": _known(last.table_version) if last else None,
        "error": run[-1].error,
    }


def _known(value: int) -> int | None:
    return None if value < 0 else value


def batch_document(event: Event) -> dict[str, Any]:
    return {
        "flow": event.flow,
        "run_id": event.run_id,
        "batch_id": _known(event.batch_id),
        "kind": event.kind,
        "time_ms": event.time_ms,
        **{counter: getattr(event, counter) for counter in COUNTERS},
        "failed": dict(event.failed),
        "duration_ms": event.duration_ms,
        "lag_messages": _known(event.lag_messages),
        "lag_ms": _known(event.lag_ms),
        "table_version": _known(event.table_version),
        "error": event.error,
    }


def graph(flows: Mapping[str, Event]) -> dict[str, Any]:
    """Nodes with levels, from what is read to what is written. `flows` has the event that describes each flow; one that
    reads another reads the table of that one."""
    targets = {flow: place_of(event.writes) for flow, event in flows.items() if event.writes}
    nodes: dict[Place, None] = {}
    edges: list[tuple[str, str]] = []
    for flow, event in flows.items():
        own = Place(FLOW, flow)
        nodes[own] = None
        for each in map(place_of, event.reads):
            read = targets.get(each.name, each) if each.kind == FLOW else each
            nodes.setdefault(read)
            edges.append((read.id, own.id))
        if flow in targets:
            nodes.setdefault(targets[flow])
            edges.append((own.id, targets[flow].id))
    levels = _levels([each.id for each in nodes], edges)
    return {
        "nodes": [{"id": each.id, "kind": each.kind, "name": each.name, "level": levels[each.id]} for each in nodes],
        "edges": [{"from": start, "to": end} for start, end in edges],
    }


def _levels(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest way to each node; a circle, which a flow that reads its own table makes, ends the counting."""
    levels = dict.fromkeys(nodes, 0)
    for _ in range(len(nodes)):
        has_changed = False
        for start, end in edges:
            if levels[end] <= levels[start] < len(nodes):
                levels[end] = levels[start] + 1
                has_changed = True
        if not has_changed:
            break
    return levels


def proof(flow: str, pipeline: str, source: str, run: Sequence[Event], letters: int) -> dict[str, Any]:
    """That every row that came in is in the table, among the letters, or was dropped on purpose."""
    batches = [each for each in run if each.kind == "batch"]
    sums = {counter: sum(getattr(each, counter) for each in batches) for counter in COUNTERS}
    out = sums["rows_out"] + sums["rows_dead"] + sums["rows_dropped"] + sums["rows_late"]
    difference = sums["rows_in"] - out
    parts = [f"{sums['rows_out']:,} rows", f"{sums['rows_dead']:,} letters"]
    parts += [f"{sums['rows_dropped']:,} dropped"] if sums["rows_dropped"] else []
    parts += [f"{sums['rows_late']:,} late"] if sums["rows_late"] else []
    sign = "=" if not difference else "≠"
    return {
        "pipeline": pipeline,
        "flow": flow,
        "source": source,
        "input": sums["rows_in"],
        "rows_out": sums["rows_out"],
        "letters": sums["rows_dead"],
        "letters_kept": letters,
        "dropped": sums["rows_dropped"],
        "late": sums["rows_late"],
        "difference": difference,
        "is_proved": difference == 0 and bool(batches),
        "text": f"{sums['rows_in']:,} records in {sign} {' + '.join(parts)}",
    }
