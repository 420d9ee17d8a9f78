"""From pages of /metrics to rates and percentiles."""

from __future__ import annotations

import math

import pytest

from chronik.console.prometheus import Sample, parse
from chronik.console.rates import (
    LAG,
    LAG_SECONDS,
    WANTED,
    Scrape,
    cluster_values,
    group_lags,
    node_values,
    percentile,
    topic_values,
)

MESSAGES = "kafka_server_brokertopicmetrics_messagesin_total"


def scrape(time_ms: int, *lines: str) -> Scrape:
    return Scrape(time_ms, parse("\n".join(lines), WANTED))


def test_labels_are_read_as_they_were_written() -> None:
    text = 'lag{group="a \\"b\\" \\\\ c\\nd",topic="t}{,"} 7\n# HELP lag words\nother 1\nlag 2 1700000000000\nlag{} x'
    assert parse(text, {"lag"}) == {"lag": [Sample({"group": 'a "b" \\ c\nd', "topic": "t}{,"}, 7.0), Sample({}, 2.0)]}


def test_rates_are_differences_over_the_time_between() -> None:
    before = scrape(1_000, f"{MESSAGES} 100", f'{MESSAGES}{{topic="orders"}} 60')
    after = scrape(3_000, f"{MESSAGES} 140", f'{MESSAGES}{{topic="orders"}} 90', f'{MESSAGES}{{topic="new"}} 10')
    assert node_values(before, after)["messages_in_per_s"] == 20.0
    assert topic_values(before, after) == {("messages_in_per_s", "orders"): 15.0, ("messages_in_per_s", "new"): 5.0}


def test_a_node_that_was_restarted_has_no_rate_for_a_moment() -> None:
    """Its counters began again: a negative rate, or one from nothing, would be shown as a drop or a peak."""
    values = node_values(scrape(0, f"{MESSAGES} 100"), scrape(2_000, f"{MESSAGES} 5"))
    assert "messages_in_per_s" not in values


def test_the_first_scrape_has_levels_and_no_rates() -> None:
    values = node_values(None, scrape(0, f"{MESSAGES} 100", "kafka_server_replicamanager_leadercount 7"))
    assert values == {"partitions_led": 7.0}


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ([], None),
        ([(1.0, 0.0), (math.inf, 0.0)], None),
        ([(1.0, 100.0), (math.inf, 100.0)], 0.99),
        ([(1.0, 50.0), (2.0, 100.0), (math.inf, 100.0)], 1.98),
        ([(1.0, 0.0), (2.0, 0.0), (math.inf, 10.0)], 2.0),
    ],
)
def test_percentiles(buckets: list[tuple[float, float]], expected: float | None) -> None:
    assert percentile(buckets, 0.99) == (None if expected is None else pytest.approx(expected))


def test_a_cluster_is_the_sum_or_the_worst_of_its_nodes() -> None:
    nodes = [
        {"messages_in_per_s": 2.0, "produce_p99_ms": 5.0, "partitions_led": 3.0},
        {"messages_in_per_s": 3.0, "produce_p99_ms": 9.0},
    ]
    assert cluster_values(nodes) == {"messages_in_per_s": 5.0, "produce_p99_ms": 9.0}


def test_lag_of_a_group_is_summed_over_partitions_and_its_age_is_the_worst() -> None:
    told = scrape(
        5,
        f'{LAG}{{group="g",topic="a",partition="0"}} 3',
        f'{LAG}{{group="g",topic="b",partition="0"}} 4',
        f'{LAG_SECONDS}{{group="g",topic="a",partition="0"}} 2.5',
        f'{LAG_SECONDS}{{group="g",topic="b",partition="0"}} 1',
    )
    older = scrape(1, f'{LAG}{{group="g",topic="a",partition="0"}} 999')
    found = group_lags([told, older])
    assert (found["g"].records, found["g"].seconds, found["g"].topics) == (7, 2.5, ("a", "b"))
