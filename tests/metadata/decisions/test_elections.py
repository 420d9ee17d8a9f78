"""Eligible leader replicas (KIP-966): who may lead beside the ISR, and since when."""

from __future__ import annotations

from chronik.metadata.commands import BrokerHeartbeat, ConfigValue, FenceBroker
from chronik.metadata.image import NO_LEADER
from tests.metadata.clusters import Cluster, cluster, create, new_topic, registration

ELR = {"eligible.leader.replicas.version": 1}


def with_two_in_sync(features: dict[str, int]) -> tuple[Cluster, tuple[int, ...]]:
    on = cluster(3, features=features)
    create(on, new_topic("t", 1, 3, configs=[ConfigValue(key="min.insync.replicas", value="2")]))
    return on, on.partition("t").replicas


def fence(on: Cluster, broker_id: int) -> None:
    on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))


def test_a_replica_that_leaves_below_the_minimum_stays_eligible() -> None:
    """From then on nothing is acknowledged with acks=all, so it has all that ever was."""
    on, (first, second, third) = with_two_in_sync(ELR)
    fence(on, third)
    assert (on.partition("t").isr, on.partition("t").elr) == ((first, second), ())
    fence(on, second)
    assert (on.partition("t").isr, on.partition("t").elr) == ((first,), (second,))
    fence(on, first)
    assert on.partition("t").leader == NO_LEADER
    on.ask(BrokerHeartbeat(broker_id=third, broker_epoch=on.epoch(third)))
    assert on.partition("t").leader == NO_LEADER, "the third left while the others went on"
    on.ask(BrokerHeartbeat(broker_id=second, broker_epoch=on.epoch(second)))
    assert (on.partition("t").leader, on.partition("t").isr) == (second, (second,))


def test_a_restart_ends_eligibility() -> None:
    """What an eligible replica had may not have been on disk."""
    on, (first, second, third) = with_two_in_sync(ELR)
    for broker_id in (third, second):
        fence(on, broker_id)
    on.ask(registration(second, process=2))
    assert (on.partition("t").elr, on.partition("t").last_known_elr) == ((), (second,))
    fence(on, first)
    on.ask(BrokerHeartbeat(broker_id=second, broker_epoch=on.epoch(second)))
    assert on.partition("t").leader == NO_LEADER


def test_without_the_feature_only_the_isr_leads() -> None:
    """Replicas of a cluster that does not hold the high watermark back are not safe to elect."""
    on, (first, second, third) = with_two_in_sync({})
    for broker_id in (third, second, first):
        fence(on, broker_id)
    assert on.partition("t").elr == ()
    on.ask(BrokerHeartbeat(broker_id=second, broker_epoch=on.epoch(second)))
    assert on.partition("t").leader == NO_LEADER
