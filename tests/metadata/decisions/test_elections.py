"""Eligible leader replicas (KIP-966): which replicas may lead besides the ISR, and from when; elections of many
partitions."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.metadata.commands.alter_configs import SET, AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_topics import ConfigValue, PartitionReplicas
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.image import NO_LEADER, ResourceType
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
    assert on.partition("t").elr == (first,), "the member of the ISR that is down has everything too"


@pytest.mark.parametrize(("kind", "name"), [(ResourceType.TOPIC, "t"), (ResourceType.BROKER, "")])
def test_another_minimum_ends_eligibility(kind: ResourceType, name: str) -> None:
    """By the new one the leader may have gone on alone; setting the old one again does not take that back."""
    on, (first, second, third) = with_two_in_sync(ELR)
    for broker_id in (third, second):
        fence(on, broker_id)
    before = on.partition("t")
    assert before.elr == (second,)
    for value in ("1", "2"):
        change = ConfigChange(key="min.insync.replicas", operation=SET, value=value)
        resource = ResourceChange(resource_type=kind, resource_name=name, configs=[change])
        on.ask(AlterConfigs(resources=[resource], incremental=True))
    now = on.partition("t")
    assert (now.elr, now.isr, now.leader, now.leader_epoch) == ((), (first,), first, before.leader_epoch)
    fence(on, first)
    on.ask(BrokerHeartbeat(broker_id=second, broker_epoch=on.epoch(second)))
    assert on.partition("t").leader == NO_LEADER


def test_other_configs_leave_it_alone() -> None:
    on, (_, second, third) = with_two_in_sync(ELR)
    for broker_id in (third, second):
        fence(on, broker_id)
    change = ConfigChange(key="retention.ms", operation=SET, value="5")
    resource = ResourceChange(resource_type=ResourceType.TOPIC, resource_name="t", configs=[change])
    on.ask(AlterConfigs(resources=[resource], incremental=True))
    assert on.partition("t").elr == (second,)


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


ORDERS = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [3, 1]]
OWN_CONFIGS = [
    [],
    [ConfigValue(key="unclean.leader.election.enable", value="true")],
    [ConfigValue(key="min.insync.replicas", value="2")],
]
steps = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(["fence", "come back", "restart", "restart elsewhere"])), max_size=8
)


def do(on: Cluster, process: int, broker_id: int, step: str) -> None:
    if step != "come back":
        fence(on, broker_id)
    if step.startswith("restart"):
        directory = b"d" if step == "restart" else bytes([process])
        on.ask(registration(broker_id, process=process, directory=directory * 16))
    if step != "fence":
        on.ask(BrokerHeartbeat(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))


@given(st.sampled_from([{}, ELR]), steps)
def test_a_topic_among_many_fares_as_it_would_alone(features: dict[str, int], steps: list[tuple[int, str]]) -> None:
    """Brokers come and go for all partitions together: what becomes of one must not be told of another."""
    shapes = [(order, own) for order in ORDERS for own in OWN_CONFIGS]

    def made(chosen: Iterable[int]) -> Cluster:
        on = cluster(3, features=features)
        for at in chosen:
            order, own = shapes[at]
            replicas = [PartitionReplicas(index=0, broker_ids=order)]
            create(on, new_topic(f"t{at}", -1, -1, assignments=replicas, configs=own))
        for number, (broker_id, step) in enumerate(steps):
            do(on, number + 2, broker_id, step)
        return on

    together = made(range(len(shapes)))
    for at in range(len(shapes)):
        assert together.partition(f"t{at}") == made([at]).partition(f"t{at}"), shapes[at]
