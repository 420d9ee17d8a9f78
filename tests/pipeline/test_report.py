"""The report of a run: one self-contained file."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from chronik.pipeline import charts
from chronik.pipeline.events import BATCH, STARTED, STOPPED, Event, parse
from chronik.pipeline.report import report, write_report


def event(kind: str, flow: str, time_ms: int, **more: object) -> Event:
    return Event(kind, "shop", flow, "run1", time_ms, **more)  # type: ignore[arg-type]


EVENTS = [
    event(STARTED, "raw", 0, reads=("topic orders",), writes="table /t/raw", versions={"chronik": "0.1.0"}),
    event(BATCH, "raw", 1000, batch_id=0, rows_in=100, rows_out=98, rows_dead=2, duration_ms=500, lag_messages=40),
    event(BATCH, "raw", 2000, batch_id=1, rows_in=40, rows_out=40, duration_ms=400, lag_messages=0, table_version=1),
    event(BATCH, "out", 2500, rows_in=7, failed={"<paid>": 3}, reads=("raw",), writes="topic paid"),
    event(STOPPED, "raw", 3000, lag_messages=0, error="it <broke>"),
]


class Balanced(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser


def test_a_report_has_every_plot_and_no_address() -> None:
    """It is read without a network, and by people who did not run the pipeline."""
    html = report("shop", EVENTS)
    found = parsed(html)
    assert found.seen["svg"] == 5
    assert found.seen["polyline"] == 2 + 1 + 2  # throughput and durations of two flows, lag of the one that has it
    assert re.findall(r"(?:https?:)?//[a-z]", html) == []
    assert "<script" not in html
    assert "it &lt;broke&gt;" in html
    assert "out: &lt;paid&gt;" in html
    assert "<td>140</td><td>138</td><td>2</td>" in html


def test_only_the_run_that_was_asked_for_is_told(tmp_path: Path) -> None:
    """The topic has all runs of all pipelines."""
    other = Event(BATCH, "shop", "raw", "run2", 5000, rows_in=5)
    write_report(tmp_path / "a.html", "shop", "run2", [*EVENTS, other])
    assert "<td>5</td>" in (tmp_path / "a.html").read_text()
    assert "it &lt;broke&gt;" not in (tmp_path / "a.html").read_text()
    write_report(tmp_path / "a.html", "shop", "none", EVENTS)
    assert "left no events" in (tmp_path / "a.html").read_text()


def test_lineage_stands_right_of_what_it_reads() -> None:
    """Arrows that go back would be read as cycles; a real cycle must not hang the drawing."""
    drawn = charts.graph([("topic a", "b"), ("b", "c"), ("topic a", "c")])
    lefts = [float(x) for x in re.findall(r'<rect class="box" x="([0-9.]+)"', drawn)]
    assert lefts == sorted(lefts)
    assert len(set(lefts)) == 3
    parsed(charts.graph([("a", "b"), ("b", "a")]))


def test_the_highest_point_reaches_the_top_and_zero_the_bottom() -> None:
    """A plot that is off by a factor is worse than none."""
    drawn = charts.lines({"a": [(0, 0), (10, 50), (20, 100)]}, "rows/s")
    points = [tuple(map(float, pair.split(","))) for pair in re.findall(r'points="([^"]+)"', drawn)[0].split()]
    bottom, top = charts.HEIGHT - charts.BOTTOM, charts.TOP
    assert [y for _, y in points] == [bottom, (bottom + top) / 2, top]
    assert [x for x, _ in points] == [charts.LEFT, (charts.LEFT + charts.WIDTH - charts.RIGHT) / 2, 840]
    assert ">100</text>" in drawn


def test_events_survive_their_records_and_rubbish_is_none() -> None:
    """Any client may write to a topic, and a later release may add fields."""
    import json
    from dataclasses import asdict

    for each in EVENTS:
        assert parse(json.dumps(asdict(each) | {"later": 1}).encode()) == each
    for rubbish in (None, b"", b"[]", b"{}", b"\xff"):
        assert parse(rubbish) is None
