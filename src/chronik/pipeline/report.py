"""One run as one HTML file, from its events: throughput, lag, batches, expectations, and the graph of flows.

The file is self-contained: no scripts, fonts or links, so it can be mailed and archived.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from chronik.pipeline import charts
from chronik.pipeline.events import BATCH, STARTED, STOPPED, Event

STYLE: Final = """\
:root { color-scheme: light dark; --ink: #0f172a; --paper: #ffffff; --faint: #64748b; --line: #e2e8f0; --box: #f1f5f9 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e2e8f0; --paper: #0f172a; --faint: #94a3b8; --line: #1e293b; --box: #1e293b } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem; margin-bottom: 0 } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
.faint, .none { color: var(--faint) } svg { width: 100%; height: auto }
svg text { fill: var(--ink); font-size: 12px } svg .tick { fill: var(--faint); font-size: 11px }
.grid { stroke: var(--line) } .box { fill: var(--box); stroke: var(--line) }
table { border-collapse: collapse; width: 100% } td, th { text-align: right; padding: .3rem .6rem;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums }
td:first-child, th:first-child { text-align: left } .fault { color: #dc2626 }
.legend span { margin-right: 1.2rem }
.legend i { display: inline-block; width: 10px; height: 10px; margin-right: .4rem }
"""


def write_report(path: Path, pipeline: str, run_id: str, events: Sequence[Event]) -> None:
    path.write_text(report(pipeline, [event for event in events if event.run_id == run_id]))


def report(pipeline: str, events: Sequence[Event]) -> str:
    """HTML of one run's events, oldest first."""
    batches = [event for event in events if event.kind == BATCH]
    flows = list(dict.fromkeys(event.flow for event in events))
    failed: dict[str, float] = {}
    for event in batches:
        for name, count in event.failed.items():
            failed[f"{event.flow}: {name}"] = failed.get(f"{event.flow}: {name}", 0) + count
    rates = {
        flow: [
            (event.time_ms / 1000, event.rows_in * 1000 / max(event.duration_ms, 1))
            for event in batches
            if event.flow == flow
        ]
        for flow in flows
    }
    durations = {
        flow: [(event.time_ms / 1000, float(event.duration_ms)) for event in batches if event.flow == flow]
        for flow in flows
    }
    lags = {
        flow: [
            (event.time_ms / 1000, float(event.lag_messages))
            for event in events
            if event.flow == flow and event.lag_messages >= 0
        ]
        for flow in flows
    }
    sections = [
        ("Flows", _table(flows, events)),
        ("Throughput", charts.lines(_some(rates), "rows/s")),
        ("Lag", charts.lines(_some(lags), "messages")),
        ("Batch duration", charts.lines(_some(durations), "ms")),
        ("Failed expectations", charts.bars(failed, "rows")),
        ("Lineage", charts.graph(_edges(events))),
    ]
    body = "\n".join(f"<h2>{title}</h2>\n{text}" for title, text in sections)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(pipeline)}: run report</title>\n'
        f"<style>\n{STYLE}</style>\n<h1>{escape(pipeline)}</h1>\n{_heading(events)}\n{body}\n</html>\n"
    )


def _some(series: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    return {name: points for name, points in series.items() if points}


def _heading(events: Sequence[Event]) -> str:
    if not events:
        return '<p class="none">This run has left no events.</p>'
    begun, ended = (datetime.fromtimestamp(event.time_ms / 1000, UTC) for event in (events[0], events[-1]))
    versions = next((event.versions for event in events if event.kind == STARTED), {})
    told = ", ".join(f"{escape(name)} {escape(version)}" for name, version in versions.items())
    moments = f"{begun:%Y-%m-%d %H:%M:%S} to {ended:%H:%M:%S} UTC"
    return f'<p class="faint">run {escape(events[0].run_id)}, {moments}; {told}</p>'


def _table(flows: Sequence[str], events: Sequence[Event]) -> str:
    titles = ("flow", "batches", "rows in", "rows out", "dead", "dropped", "late", "lag", "version")
    rows = ["<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"]
    for flow in flows:
        batches = [event for event in events if event.flow == flow and event.kind == BATCH]
        last = [event for event in events if event.flow == flow][-1]
        version = max((event.table_version for event in batches), default=-1)
        numbers = (
            len(batches),
            sum(event.rows_in for event in batches),
            sum(event.rows_out for event in batches),
            sum(event.rows_dead for event in batches),
            sum(event.rows_dropped for event in batches),
            last.rows_late,
            last.lag_messages if last.lag_messages >= 0 else "-",
            version if version >= 0 else "-",
        )
        cells = "".join(f"<td>{each:,}</td>" if isinstance(each, int) else f"<td>{each}</td>" for each in numbers)
        fault = f'<br><span class="fault">{escape(last.error)}</span>' if last.kind == STOPPED and last.error else ""
        rows.append(f"<tr><td>{escape(flow)}{fault}</td>{cells}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _edges(events: Sequence[Event]) -> list[tuple[str, str]]:
    """Edges from inputs to flows and from flows to topics. A table shares its flow's name, so it is not drawn twice."""
    edges: list[tuple[str, str]] = []
    for event in events:
        edges += [(source, event.flow) for source in event.reads]
        if event.writes.startswith("topic "):
            edges.append((event.flow, event.writes))
    return list(dict.fromkeys(edges))
