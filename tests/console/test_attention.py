"""What needs attention, and what does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.console.attention import Item, Seen, Standing, attention, states_agree
from chronik.console.rates import GroupLag
from chronik.console.snapshot import Snapshot, health_of
from tests.console.snapshots import page, partition, quorum, snapshot, survey, topology


def items(shown: Snapshot, lag_per_s: dict[str, float | None] | None = None) -> list[Item]:
    return attention(Seen(shown, health_of(shown.topology), lag_per_s or {}))


def test_a_healthy_cluster_needs_none() -> None:
    assert items(snapshot(lags={"g": GroupLag(5, 1.0, ("orders",))}, group_states={"g": "Stable"})) == []


def disk(free: int) -> dict[str, Any]:
    return {"machine": {"disk_free_bytes": free, "disk_total_bytes": 100}}


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (Snapshot(time_ms=0), "unreachable"),
        (snapshot(quorum=None, survey=survey()), "no-controller"),
        (snapshot(quorum=quorum(silent=3)), "voter-silent:3"),
        (snapshot(brokers=(replace(snapshot().brokers[2], is_fenced=True),)), "node-fenced:3"),
        (snapshot(statuses={1: page(), 2: page(state_hash="bb")}), "states-differ"),
        (snapshot(topology=topology(orders=partition(leader_id=-1))), "offline-partitions"),
        (snapshot(values={"under_min_isr": 2.0}), "under-min-isr"),
        (snapshot(topology=topology(orders=partition(isr=(1, 2)))), "under-replicated"),
        (snapshot(statuses={1: page(alarms=[{"cause": "disk-full", "text": "full"}])}), "alarm:1:disk-full:"),
        (snapshot(statuses={1: page(**disk(9))}), "disk:1"),
        (snapshot(lags={"g": GroupLag(5_000, 90.0, ())}, group_states={"g": "Stable"}), "group-lag:g"),
        (snapshot(topic_rates={("messages_in_per_s", "orders.dlq"): 0.5}), "letters:orders.dlq"),
    ],
)
def test_each_trouble_has_an_item_with_cause_and_link(shown: Snapshot, expected: str) -> None:
    [item] = items(shown)
    assert item.id == expected
    assert item.what
    assert item.cause
    assert item.link.startswith("/")


def test_states_are_compared_at_the_same_version_only() -> None:
    """A follower is always a moment behind."""
    assert states_agree(snapshot(statuses={1: page(version=5), 2: page(version=6, state_hash="bb")})) is None
    assert states_agree(snapshot(statuses={1: page(), 2: page()})) is True


@pytest.mark.parametrize(
    ("state", "rate", "severity", "words"),
    [
        ("Stable", 50.0, "problem", "its lag grows by 50 records per second"),
        ("Stable", -100.0, "advice", "it catches up, in about 50.0s"),
        ("Stable", 0.0, "problem", "its lag does not change"),
        ("Stable", None, "problem", "it reads more slowly than producers write, or has stopped"),
        ("Empty", 0.0, "advice", "it has no members, so nothing reads for it"),
    ],
)
def test_a_lag_says_where_it_is_going(state: str, rate: float | None, severity: str, words: str) -> None:
    [item] = items(snapshot(lags={"g": GroupLag(5_000, None, ())}, group_states={"g": state}), {"g": rate})
    assert (item.severity, item.cause) == (severity, words)


def test_problems_come_before_advice_and_the_larger_lag_first() -> None:
    lags = {"a": GroupLag(2_000, None, ()), "b": GroupLag(9_000, None, ()), "c": GroupLag(99_000, None, ())}
    found = items(snapshot(lags=lags, group_states={"c": "Empty"}), {"a": 1.0, "b": 1.0})
    assert [each.group for each in found] == ["b", "a", "c"]


def test_names_in_commands_are_quoted() -> None:
    [item] = items(snapshot(lags={"a; rm -rf /": GroupLag(9_000, None, ())}))
    assert item.command == "chronik group explain 'a; rm -rf /'"
    assert item.link == "/groups/a%3B%20rm%20-rf%20%2F/why"


def test_an_item_keeps_the_time_at_which_it_appeared() -> None:
    standing = Standing()
    [item] = items(snapshot(quorum=quorum(silent=3)))
    assert standing.note([item], 10) == {item.id: 10}
    assert standing.note([item], 20) == {item.id: 10}
    assert standing.note([], 30) == {}
    assert standing.note([item], 40) == {item.id: 40}
