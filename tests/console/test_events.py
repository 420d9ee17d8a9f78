"""Which events follow from two looks at a cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.console.events import EACH_MAX, KEPT_MAX, Event, Feed, events_between
from chronik.console.rates import GroupLag
from chronik.console.snapshot import Snapshot
from tests.console.snapshots import page, partition, quorum, snapshot, survey, topology

WELL = snapshot()
FENCED = snapshot(brokers=(*WELL.brokers[:2], replace(WELL.brokers[2], is_fenced=True)))
ALARMED = {**WELL.statuses, 1: page(alarms=[{"cause": "disk-full", "subject": "/data", "text": "the disk is full"}])}


def kinds(before: Snapshot, after: Snapshot) -> list[str]:
    return [event.kind for event in events_between(before, after)]


def test_nothing_happened() -> None:
    assert kinds(WELL, snapshot()) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (WELL, snapshot(quorum=None, survey=survey()), "quorum-lost"),
        (snapshot(quorum=None, survey=survey()), WELL, "quorum-back"),
        (WELL, snapshot(quorum=quorum(leader_id=2)), "controller-changed"),
        (WELL, snapshot(statuses={1: page(), 2: page()}), "node-silent"),
        (snapshot(statuses={1: page(), 2: page()}), WELL, "node-back"),
        (WELL, FENCED, "node-fenced"),
        (FENCED, WELL, "node-unfenced"),
        (WELL, snapshot(statuses=ALARMED), "alarm"),
        (snapshot(statuses=ALARMED), WELL, "alarm-over"),
        (WELL, snapshot(topology=topology(orders=partition(), new=partition())), "topic-created"),
        (WELL, snapshot(topology=topology()), "topic-deleted"),
        (WELL, snapshot(topology=topology(orders=partition(leader_id=2))), "leader-changed"),
        (WELL, snapshot(topology=topology(orders=partition(leader_id=-1))), "partition-offline"),
        (snapshot(topology=topology(orders=partition(leader_id=-1))), WELL, "partition-online"),
        (WELL, snapshot(topology=topology(orders=partition(isr=(1, 2)))), "isr-shrunk"),
        (snapshot(topology=topology(orders=partition(isr=(1, 2)))), WELL, "isr-grown"),
        (snapshot(group_states={"g": "Stable"}), snapshot(group_states={"g": "Empty"}), "group-state"),
        (snapshot(lags={"g": GroupLag(5, None, ())}), snapshot(lags={"g": GroupLag(5_000, 9.0, ())}), "group-lagging"),
        (snapshot(lags={"g": GroupLag(5_000, 9.0, ())}), snapshot(lags={"g": GroupLag(0, 0.0, ())}), "group-caught-up"),
    ],
)
def test_what_changed_is_an_event(before: Snapshot, after: Snapshot, expected: str) -> None:
    assert kinds(before, after) == [expected]


def test_an_event_names_what_it_is_about_and_links_to_it() -> None:
    [event] = events_between(WELL, snapshot(topology=topology(orders=partition(isr=(1,)))))
    assert event.text == "orders-0: node 2, node 3 left the ISR"
    assert (event.link, event.topic, event.severity) == ("/topics/orders", "orders", "problem")


def test_a_look_that_failed_is_no_event() -> None:
    """Brokers that were not told, groups that were not listed: silence is no change."""
    assert kinds(WELL, snapshot(brokers=(), group_states={})) == []
    assert kinds(snapshot(group_states={"g": "Stable"}), snapshot(group_states={})) == []


def test_a_topic_that_was_made_anew_has_no_leader_change() -> None:
    made = topology(orders=partition(leader_id=2))
    made = replace(made, topics={"orders": made.topics["orders"]._replace(topic_id=b"another")})
    assert kinds(WELL, snapshot(topology=made)) == []


def test_many_events_of_a_kind_are_summed_up() -> None:
    """A node that dies moves thousands of leaders; the feed must still show what came before."""
    names = [f"t{number}" for number in range(500)]
    before = snapshot(topology=topology(**{name: partition() for name in names}))
    after = snapshot(topology=topology(**{name: partition(leader_id=2) for name in names}))
    found = events_between(before, after)
    assert len(found) == EACH_MAX + 1
    assert found[-1].text == "and 480 more events leader-changed"


def test_the_feed_is_bounded_and_can_be_resumed() -> None:
    feed = Feed()
    for number in range(KEPT_MAX + 10):
        feed.add(Event(number, "console-started", "x"))
    assert feed.last_id == KEPT_MAX + 10
    assert [each.id for each in feed.newest(2)] == [KEPT_MAX + 10, KEPT_MAX + 9]
    assert [each.id for each in feed.newest(2, before=13)] == [12, 11]
    assert [each.id for each in feed.after(KEPT_MAX + 8)] == [KEPT_MAX + 9, KEPT_MAX + 10]
