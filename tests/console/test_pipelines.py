"""Pipelines from their events: states, sums, graph, and the proof that nothing was lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chronik.console import pipelines
from chronik.pipeline.events import Event, parse

NOW = 10_000_000


def event(kind: str = "batch", time_ms: int = NOW, **more: Any) -> Event:
    return Event(kind, "shop", more.pop("flow", "clean"), more.pop("run_id", "r2"), time_ms, **more)


STARTED = event("started", reads=("topic orders",), writes="table /t/clean_orders")


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([STARTED], "running"),
        ([event("started", NOW - pipelines.SILENT_MS - 1)], "silent"),
        ([STARTED, event("stopped")], "stopped"),
        ([STARTED, event("stopped", error="boom")], "failed"),
        ([event("stopped", run_id="r1"), STARTED], "running"),
    ],
)
def test_states(events: list[Event], state: str) -> None:
    assert pipelines.flow_state(events, NOW) == state


def test_sums_are_of_the_current_run() -> None:
    old = event(run_id="r1", rows_in=1_000)
    run = [
        STARTED,
        event(rows_in=10, rows_out=8, rows_dead=2, failed={"a": 1}),
        event(rows_in=5, rows_out=5, failed={"a": 2}),
    ]
    document = pipelines.flow_document("clean", [old, *run], NOW)
    assert (document["batches"], document["rows_in"], document["rows_out"], document["rows_dead"]) == (2, 15, 13, 2)
    assert document["failed"] == {"a": 3}
    assert (document["reads"], document["writes"]) == (["orders"], "clean_orders")
    assert document["lag_messages"] is None


# As a run of two flows and one that writes to a topic recorded them.
RECORDED = [
    (
        '{"kind":"started","pipeline":"shop","flow":"raw_orders","run_id":"7b3f","time_ms":1763543642374,"batch_id":-1,'
        '"rows_in":0,"rows_out":0,"rows_dead":0,"rows_dropped":0,"rows_late":0,"failed":{},"duration_ms":0,'
        '"lag_messages":-1,"lag_ms":-1,"table_version":-1,"reads":["topic shop-orders"],'
        '"writes":"table /tmp/shop/storage/tables/raw_orders","versions":{"chronik":"0.9.0"},"error":""}'
    ),
    (
        '{"kind":"batch","pipeline":"shop","flow":"raw_orders","run_id":"7b3f","time_ms":1763543643374,"batch_id":0,'
        '"rows_in":100,"rows_out":98,"rows_dead":2,"rows_dropped":0,"rows_late":0,"failed":{},"duration_ms":512,'
        '"lag_messages":0,"lag_ms":0,"table_version":0,"reads":["topic shop-orders"],'
        '"writes":"table /tmp/shop/storage/tables/raw_orders","versions":{},"error":""}'
    ),
    (
        '{"kind":"batch","pipeline":"shop","flow":"orders","run_id":"7b3f","time_ms":1763543644374,"batch_id":0,'
        '"rows_in":98,"rows_out":95,"rows_dead":3,"rows_dropped":0,"rows_late":0,"failed":{"paid":3},"duration_ms":498,'
        '"lag_messages":0,"lag_ms":0,"table_version":0,"reads":["raw_orders"],'
        '"writes":"table /tmp/shop/storage/tables/orders","versions":{},"error":""}'
    ),
    (
        '{"kind":"batch","pipeline":"shop","flow":"paid","run_id":"7b3f","time_ms":1763543645374,"batch_id":0,'
        '"rows_in":95,"rows_out":95,"rows_dead":0,"rows_dropped":0,"rows_late":0,"failed":{},"duration_ms":44,'
        '"lag_messages":0,"lag_ms":0,"table_version":-1,"reads":["orders"],"writes":"topic shop-paid","versions":{},'
        '"error":""}'
    ),
]


@pytest.fixture
def recorded() -> dict[str, list[Event]]:
    """By flow."""
    events = [event for each in RECORDED if (event := parse(each.encode())) is not None]
    assert len(events) == len(RECORDED)
    return pipelines.by_pipeline(events)["shop"]


def test_a_flow_is_shown_with_names_and_not_with_kinds_and_paths(recorded: dict[str, list[Event]]) -> None:
    raw, paid = (pipelines.flow_document(flow, recorded[flow], NOW) for flow in ("raw_orders", "paid"))
    assert (raw["reads"], raw["writes"], raw["writes_to"]) == (["shop-orders"], "raw_orders", "table")
    assert (paid["reads"], paid["writes"], paid["writes_to"]) == (["orders"], "shop-paid", "topic")


def test_the_graph_leads_from_topics_through_tables(recorded: dict[str, list[Event]]) -> None:
    found = pipelines.graph({flow: pipelines.described(events) for flow, events in recorded.items()})
    assert {node["id"]: node["level"] for node in found["nodes"]} == {
        "topic:shop-orders": 0,
        "flow:raw_orders": 1,
        "table:raw_orders": 2,
        "flow:orders": 3,
        "table:orders": 4,
        "flow:paid": 5,
        "topic:shop-paid": 6,
    }


def test_the_letters_of_a_topic_are_of_every_flow_behind_it(recorded: dict[str, list[Event]]) -> None:
    assert {flow: pipelines.source_topics(flow, recorded) for flow in recorded} == {
        flow: {"shop-orders"} for flow in recorded
    }


def test_flows_that_read_each_other_hang_nothing() -> None:
    flows = {flow: event(flow=flow, reads=(other,), writes=f"table /t/{flow}") for flow, other in ("ab", "ba")}
    found = pipelines.graph(flows)
    assert {node["id"] for node in found["nodes"]} == {"flow:a", "table:a", "flow:b", "table:b"}
    assert pipelines.source_topics("a", {flow: [each] for flow, each in flows.items()}) == set()


def test_a_declaration_without_a_table_is_a_flow_that_tells_nothing() -> None:
    found = pipelines.graph({"orders": event(flow="orders", reads=("raw",), writes="table /t/orders")})
    assert found["edges"][0] == {"from": "flow:raw", "to": "flow:orders"}


@pytest.mark.parametrize(
    ("out", "difference", "text"),
    [
        (988, 0, "1,000 records in = 988 rows + 10 letters + 2 dropped"),
        (987, 1, "1,000 records in ≠ 987 rows + 10 letters + 2 dropped"),
    ],
)
def test_the_proof_adds_up_or_says_by_how_much_not(out: int, difference: int, text: str) -> None:
    run = [STARTED, event(rows_in=1_000, rows_out=out, rows_dead=10, rows_dropped=2)]
    found = pipelines.proof("clean", "shop", "orders", run, 10)
    assert (found["difference"], found["text"], found["is_proved"]) == (difference, text, difference == 0)
    assert found["source"] == "orders"


def test_no_batches_prove_nothing() -> None:
    assert not pipelines.proof("clean", "shop", "orders", [STARTED], 0)["is_proved"]


@pytest.mark.parametrize(
    "change",
    [
        {"rows_in": "many"},
        {"lag_ms": 0.5},
        {"failed": ["a"]},
        {"reads": [1]},
        {"flow": None},
        {"time_ms": True},
        {"rows_in": 10**40},
    ],
)
def test_what_a_stranger_wrote_among_the_events_is_no_event(change: dict[str, Any]) -> None:
    """Any client may write to their topic. A page must not fail because of it."""
    document = {**json.loads(RECORDED[1]), **change}
    assert parse(json.dumps(document).encode()) is None
    assert parse(b"[" * 100_000) is None
    assert parse(RECORDED[1].replace('"lag_ms":0', '"lag_ms":NaN').encode()) is None
