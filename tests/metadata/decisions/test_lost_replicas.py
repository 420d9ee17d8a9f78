"""Replicas that lost acknowledged records: which replica leads then, and on which replicas the cluster relies."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_topics import ConfigValue
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.report_lost_replicas import PartitionId, ReportLostReplicas
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.image import NO_LEADER
from tests.metadata.clusters import Cluster, cluster, create, new_topic

ELR = {"eligible.leader.replicas.version": 1}


def with_topic(*, replicas: int = 3, unclean: bool = False) -> tuple[Cluster, tuple[int, ...]]:
    on = cluster(3, features=ELR)
    configs = [
        ConfigValue(key="min.insync.replicas", value="2"),
        ConfigValue(key="unclean.leader.election.enable", value=str(unclean).lower()),
    ]
    create(on, new_topic("t", 1, replicas, configs=configs))
    return on, on.partition("t").replicas


def report(on: Cluster, broker_id: int, *, index: int = 0, epoch: int | None = None) -> list[tuple[bytes, int]]:
    """The partitions whose last copy it is."""
    partition = PartitionId(topic_id=on.topic("t").topic_id, index=index)
    epoch = on.epoch(broker_id) if epoch is None else epoch
    # Twice, as a repeated report may name it.
    command = ReportLostReplicas(broker_id=broker_id, broker_epoch=epoch, partitions=[partition, partition])
    return [(each.topic_id, each.index) for each in on.ask(command).last_copies]


def fence(on: Cluster, broker_id: int) -> None:
    on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))


def revive(on: Cluster, broker_id: int) -> None:
    on.ask(BrokerHeartbeat(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))


def test_a_lost_leader_is_replaced_at_once() -> None:
    on, (first, second, third) = with_topic()
    before = on.partition("t")
    assert report(on, first) == []
    now = on.partition("t")
    assert (now.leader, now.isr, now.elr) == (second, (second, third), ())
    assert now.leader_epoch == before.leader_epoch + 1


def test_a_lost_follower_leaves_and_what_it_said_before_counts_no_longer() -> None:
    """Otherwise its leader would add it again because of an offset that it reported before the loss."""
    on, (first, second, third) = with_topic()
    before = on.partition("t")
    report(on, third)
    now = on.partition("t")
    assert (now.leader, now.isr, now.elr) == (first, (first, second), ())
    assert now.leader_epoch == before.leader_epoch + 1
    assert now.partition_epoch == before.partition_epoch + 1


def test_a_lost_replica_is_not_eligible_either() -> None:
    on, (first, second, third) = with_topic()
    for broker_id in (third, second):
        fence(on, broker_id)
    assert (on.partition("t").isr, on.partition("t").elr) == ((first,), (second,))
    report(on, second)
    assert (on.partition("t").isr, on.partition("t").elr) == ((first,), ())


@pytest.mark.parametrize("third_is_live", [False, True])
def test_where_unclean_elections_are_allowed_a_lost_leader_leads_until_another_is_back(third_is_live: bool) -> None:
    """With unclean elections allowed, no partition should be offline. The third replica may lack much more than the
    lost one, so it is not elected. Nothing is truncated before the second one, which has everything, is back."""
    on, (first, second, third) = with_topic(unclean=True)
    for broker_id in (third, second):
        fence(on, broker_id)
    if third_is_live:
        revive(on, third)
    before = on.partition("t")
    assert (before.isr, before.elr) == ((first,), (second,))
    assert report(on, first) == [(on.topic("t").topic_id, 0)]
    assert on.partition("t") == before
    revive(on, second)
    assert report(on, first) == []
    now = on.partition("t")
    assert (now.leader, now.isr, now.elr) == (second, (second,), ())


def test_a_lost_leader_waits_for_an_eligible_replica_that_is_down() -> None:
    on, (first, second, third) = with_topic()
    for broker_id in (third, second):
        fence(on, broker_id)
    assert report(on, first) == []
    now = on.partition("t")
    assert (now.leader, now.isr, now.elr) == (NO_LEADER, (), (second,))


@pytest.mark.parametrize("replicas", [1, 3])
def test_the_last_copy_stays_and_its_broker_is_told(replicas: int) -> None:
    on, (first, *others) = with_topic(replicas=replicas)
    for broker_id in others:
        report(on, broker_id)
    before = on.partition("t")
    assert before.isr == (first,)
    assert report(on, first) == [(on.topic("t").topic_id, 0)]
    assert on.partition("t") == before


def test_what_a_replica_outside_the_isr_said_counts_no_longer_either() -> None:
    """Its leader may be about to take it in, by an offset that it is going to give up."""
    on, (_, _, third) = with_topic()
    report(on, third)
    before = on.partition("t")
    assert third not in before.isr + before.elr
    assert report(on, third) == []
    now = on.partition("t")
    assert now == before._replace(leader_epoch=before.leader_epoch + 1, partition_epoch=before.partition_epoch + 1)


def test_what_is_gone_or_elsewhere_changes_nothing() -> None:
    on, (first, *_) = with_topic(replicas=1)
    (elsewhere,) = {1, 2} - {first} if first != 3 else {1}
    before = on.partition("t")
    assert report(on, elsewhere) == []
    assert report(on, first, index=7) == []
    assert on.partition("t") == before


def test_a_process_of_the_past_reports_nothing() -> None:
    on, (first, _, _) = with_topic()
    with pytest.raises(MetadataRefused, match="epoch"):
        report(on, first, epoch=on.epoch(first) - 1)
