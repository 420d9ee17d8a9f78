"""A node's counters: correct numbers, counted once per request, that never decrease."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from chronik.broker.metrics import Censuses, Histogram, Metrics
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_topics import CreatedTopic, CreateTopics, CreateTopicsReply
from chronik.metadata.commands.delete_topics import DeleteTopics, DeleteTopicsReply, TopicName
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.delta import Changes
from tests.metadata.clusters import cluster, create, new_topic

US, SECOND = 1_000, 1_000_000_000


def test_a_duration_lands_in_the_slot_whose_bound_is_the_next_power_of_two() -> None:
    """A bound that is off by one octave halves or doubles every latency that operators see."""
    for duration_us, slot in ((0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (127, 7), (128, 8), (2**31, 32), (2**60, 32)):
        histogram = Histogram()
        histogram.took(duration_us * US)
        assert histogram.slots.index(1) == slot, duration_us
        assert (histogram.count, histogram.sum_ns) == (1, duration_us * US)


def test_histograms_agree_with_counting_one_by_one() -> None:
    random = Random(7)
    durations_ns = [random.randrange(1 << random.randrange(1, 40)) for _ in range(2_000)]
    histogram = Histogram()
    for duration_ns in durations_ns:
        histogram.took(duration_ns)
    for octave in range(32):
        assert sum(histogram.slots[: octave + 1]) == sum(d // US < 2**octave for d in durations_ns)
    assert histogram.sum_ns == sum(durations_ns)


def test_metadata_writes_are_counted_and_signs_of_life_are_not() -> None:
    """A heartbeat every two seconds that writes nothing would make any write look quick."""
    metrics = Metrics()
    metrics.wrote_metadata(BrokerHeartbeat(broker_id=1, broker_epoch=1), None, 5, 5)
    assert metrics.metadata_writes.count == metrics.metadata_writes_failed == 0
    metrics.wrote_metadata(DeleteTopics(topics=[]), DeleteTopicsReply(topics=[]), 5, 5)
    metrics.wrote_metadata(DeleteTopics(topics=[]), None, 7, 7)
    assert (metrics.metadata_writes.count, metrics.metadata_writes.sum_ns, metrics.metadata_writes_failed) == (2, 12, 1)


def test_topic_creation_throughput_is_of_the_last_minute() -> None:
    """Topics that were refused, or only tried, were not created."""
    metrics = Metrics()
    reply = CreateTopicsReply(
        topics=[CreatedTopic(name="a"), CreatedTopic(name="b"), CreatedTopic(name="bad", error_code=17)]
    )
    metrics.wrote_metadata(CreateTopics(topics=[], validate_only=True), reply, 1, 0)
    assert metrics.topics_created == 0
    for second in (0, 0, 30):
        metrics.wrote_metadata(CreateTopics(topics=[]), reply, 1, second * SECOND)
    assert metrics.topics_created == 6
    at_seconds = {second: round(60 * metrics.topics_created_per_second(second * SECOND)) for second in (30, 59, 60, 90)}
    assert at_seconds == {30: 6, 59: 6, 60: 2, 90: 0}


def test_isr_changes_are_counted_by_the_leader_alone() -> None:
    on = cluster(3)
    create(on, new_topic("t", 1, 3))
    before = on.topic("t")
    leader, *_ = before.partitions[0].replicas
    shrunk = before._replace(partitions=(before.partitions[0]._replace(isr=(leader,)),))
    metrics = Metrics()
    metrics.follow(leader, Changes(topics_changed=((before, shrunk),)))
    assert (metrics.isr_shrinks, metrics.isr_expands) == (1, 0)
    metrics.follow(leader, Changes(topics_changed=((shrunk, before),)))
    assert (metrics.isr_shrinks, metrics.isr_expands) == (1, 1)
    metrics.follow(leader + 1, Changes(topics_changed=((shrunk, before),)))
    assert (metrics.isr_shrinks, metrics.isr_expands) == (1, 1)


def test_totals_keep_what_deleted_topics_had() -> None:
    """A counter that goes back looks like a restart to Prometheus, and rates over it are wrong."""
    on = cluster(1)
    create(on, new_topic("kept"), new_topic("deleted"))
    metrics = Metrics()
    metrics.topics["kept"].bytes_in += 5
    metrics.topics["deleted"].bytes_in += 7
    on.ask(DeleteTopics(topics=[TopicName(name="deleted")]))
    metrics.forget_deleted(on.image)
    assert list(metrics.topics) == ["kept"]
    assert metrics.total().bytes_in == 12


def test_topics_that_are_deleted_leave_nothing_behind_though_nobody_reads_the_numbers() -> None:
    """A node without a scraper must not grow with every topic that ever was."""
    on = cluster(1)
    metrics = Metrics()
    for number in range(100):
        create(on, new_topic(f"t{number}"))
        topic = on.topic(f"t{number}")
        metrics.topics[topic.name].bytes_in += 1
        metrics.follow(1, Changes(topics_removed=(topic,)))
    assert not metrics.topics
    assert metrics.total().bytes_in == 100


def test_the_census_counts_partitions_by_what_is_wrong_with_them() -> None:
    on = cluster(3)
    create(on, new_topic("t", 6, 3), new_topic("single", 3, 1))
    censuses = Censuses()
    census = asyncio.run(censuses.take(on.image, 1))
    led_before = census.led
    assert (census.partitions, census.offline, census.under_replicated, census.imbalanced) == (9, 0, 0, 0)
    assert (census.live_brokers, census.fenced_brokers) == (3, 0)
    on.ask(FenceBroker(broker_id=2, broker_epoch=on.epoch(2)))
    census = asyncio.run(censuses.take(on.image, 1))
    assert asyncio.run(censuses.take(on.image, 1)) is census
    # Of `single` broker 2 had one partition alone; of `t` it led two and was in sync in all.
    assert (census.partitions, census.offline, census.imbalanced) == (9, 1, 3)
    assert (census.live_brokers, census.fenced_brokers) == (2, 1)
    assert census.led > led_before - 1
    assert census.under_replicated == sum(
        partition.leader == 1 for partition in on.topic("t").partitions
    )  # every partition of `t` lacks broker 2


@pytest.mark.parametrize(
    ("durations_us", "percent", "expected_ms"),
    [
        ([], 50, None),
        ([3], 50, 0.004),
        ([3], 99, 0.004),
        ([3] * 99 + [5000], 99, 0.004),
        ([3] * 98 + [5000] * 2, 99, 8.192),
    ],
)
def test_a_percentile_is_the_bound_that_this_share_did_not_exceed(
    durations_us: list[int], percent: int, expected_ms: float | None
) -> None:
    """An average hides the slow sync that a producer waits for."""
    histogram = Histogram()
    for duration_us in durations_us:
        histogram.took(duration_us * 1000)
    assert histogram.percentile_ms(percent) == expected_ms
