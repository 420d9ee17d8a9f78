"""Replicas that cannot write records, for example on a full disk: which replica leads then, and on which the cluster
relies."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.report_lost_replicas import PartitionId
from chronik.metadata.commands.withdraw_replicas import WithdrawReplicas
from chronik.metadata.errors import MetadataRefused
from tests.metadata.clusters import Cluster
from tests.metadata.decisions.test_lost_replicas import fence, revive, with_topic


def withdraw(on: Cluster, broker_id: int, *, index: int = 0, epoch: int | None = None) -> None:
    partition = PartitionId(topic_id=on.topic("t").topic_id, index=index)
    epoch = on.epoch(broker_id) if epoch is None else epoch
    on.ask(WithdrawReplicas(broker_id=broker_id, broker_epoch=epoch, partitions=[partition, partition]))


def test_a_leader_hands_over_to_a_replica_in_sync() -> None:
    on, (first, second, third) = with_topic()
    before = on.partition("t")
    withdraw(on, first)
    now = on.partition("t")
    assert (now.leader, now.isr, now.elr) == (second, (second, third), ())
    assert now.leader_epoch == before.leader_epoch + 1


def test_a_follower_leaves_and_its_leader_goes_on() -> None:
    on, (first, second, third) = with_topic()
    before = on.partition("t")
    withdraw(on, third)
    now = on.partition("t")
    assert (now.leader, now.isr) == (first, (first, second))
    assert now.leader_epoch == before.leader_epoch, "no client has to look for another leader"


def test_below_the_minimum_it_stays_eligible() -> None:
    """It holds all that was acknowledged, and leads if the last one in sync goes."""
    on, (first, second, third) = with_topic()
    withdraw(on, first)
    withdraw(on, second)
    assert (on.partition("t").leader, on.partition("t").isr) == (third, (third,))
    assert on.partition("t").elr == (second,)
    fence(on, third)
    assert on.partition("t").leader == second


def test_the_last_live_one_stays_and_serves_readers() -> None:
    on, (first, second, third) = with_topic()
    withdraw(on, first)
    withdraw(on, second)
    before = on.partition("t")
    withdraw(on, third)
    assert on.partition("t") == before
    fence(on, third)
    withdraw(on, second)
    assert on.partition("t").leader == second
    revive(on, third)


def test_it_is_withdrawn_once() -> None:
    on, (_, _, third) = with_topic()
    withdraw(on, third)
    before = on.partition("t")
    withdraw(on, third)
    withdraw(on, third, index=7)
    assert on.partition("t") == before


def test_a_process_of_the_past_withdraws_nothing() -> None:
    on, (_, _, third) = with_topic()
    before = on.partition("t")
    with pytest.raises(MetadataRefused, match="epoch"):
        withdraw(on, third, epoch=on.epoch(third) - 1)
    assert on.partition("t") == before
