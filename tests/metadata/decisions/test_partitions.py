"""Partitions are added, and their leaders change their ISRs."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.metadata.commands.alter_partition import AlterPartition, IsrMember, NewIsr, TopicIsrs
from chronik.metadata.commands.create_partitions import CreatePartitions, ReplicaList, TopicGrowth
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.errors import MetadataRefused
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import Cluster, cluster, create, new_topic, topic_id

GROWTHS: list[tuple[str, int, list[list[int]] | None, str]] = [
    ("t", 3, None, "INVALID_PARTITIONS"),
    ("t", 2, None, "INVALID_PARTITIONS"),
    ("t", 0, None, "INVALID_PARTITIONS"),
    ("t", -1, None, "INVALID_PARTITIONS"),
    ("nope", 4, None, "UNKNOWN_TOPIC_OR_PARTITION"),
    ("t", 4, [[1], [1]], "INVALID_REPLICA_ASSIGNMENT"),
    ("t", 4, [], "INVALID_REPLICA_ASSIGNMENT"),
    ("t", 4, [[]], "INVALID_REPLICA_ASSIGNMENT"),
    ("t", 4, [[9]], "INVALID_REPLICA_ASSIGNMENT"),
    ("t", 4, [[1, 2]], "INVALID_REPLICA_ASSIGNMENT"),
    ("t", 20_001, None, "POLICY_VIOLATION"),
    ("t", 4, [[2]], "NONE"),
    ("t", 7, None, "NONE"),
]


@pytest.mark.parametrize(("name", "count", "replicas", "code"), GROWTHS)
def test_a_topic_grows_or_is_refused_with_kafkas_code(
    name: str, count: int, replicas: list[list[int]] | None, code: str
) -> None:
    """A topic never shrinks: the records of the partitions taken away would be gone."""
    on = cluster(2)
    create(on, new_topic("t", 3))
    before = on.topic("t").partitions
    assignments = None if replicas is None else [ReplicaList(broker_ids=each) for each in replicas]
    growth = TopicGrowth(name=name, partition_count=count, assignments=assignments)
    (checked,) = on.ask(CreatePartitions(topics=[growth], validate_only=True)).topics
    assert on.topic("t").partitions == before
    (reply,) = on.ask(CreatePartitions(topics=[growth])).topics
    assert ErrorCode.of(reply.error_code).name == ErrorCode.of(checked.error_code).name == code
    after = on.topic("t").partitions
    assert after[:3] == before
    assert len(after) == (count if code == "NONE" else 3)


def test_a_topic_named_twice_does_not_grow() -> None:
    """Which of the two counts was meant is anyone's guess."""
    on = cluster(1)
    create(on, new_topic("t"))
    twice = [TopicGrowth(name="t", partition_count=count) for count in (2, 3)]
    (reply,) = on.ask(CreatePartitions(topics=twice)).topics
    assert reply.error_code == ErrorCode.INVALID_REQUEST
    assert len(on.topic("t").partitions) == 1


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_topic_of_a_coordinator_keeps_its_number_of_partitions(name: str) -> None:
    """Which partition holds a group or a transactional id follows from the number. If it changed, open transactions
    would never end, producers would no longer be fenced, and committed offsets would be lost."""
    on = cluster(3)
    create(on, new_topic(name, 3, 3))
    (reply,) = on.ask(CreatePartitions(topics=[TopicGrowth(name=name, partition_count=4)])).topics
    assert reply.error_code == ErrorCode.INVALID_PARTITIONS
    assert reply.error_message is not None
    assert name in reply.error_message
    assert len(on.topic(name).partitions) == 3


def isr_change(on: Cluster, isr: list[int], **more: Any) -> AlterPartition:
    """The request of t-0's current leader; `more` makes it invalid."""
    before = on.partition("t")
    broker_id = more.pop("broker_id", before.leader)
    members = [IsrMember(broker_id=each, broker_epoch=more.pop(f"epoch_of_{each}", -1)) for each in isr]
    change = {"index": 0, "leader_epoch": before.leader_epoch, "partition_epoch": before.partition_epoch, **more}
    topics = [TopicIsrs(topic_id=change.pop("topic_id", topic_id("t")), partitions=[NewIsr(isr=members, **change)])]
    return AlterPartition(broker_id=broker_id, broker_epoch=on.epoch(broker_id), topics=topics)


def led_by_three() -> Cluster:
    on = cluster(4)
    create(on, new_topic("t", 1, 3))
    return on


def test_a_leader_shrinks_and_grows_its_isr() -> None:
    """Each change is one partition epoch, and the leader's own epoch stays: clients need not notice."""
    on = led_by_three()
    leader, *followers = on.partition("t").replicas
    for isr in ([leader], [leader, followers[1]], [leader, *followers]):
        before = on.partition("t")
        (reply,) = on.ask(isr_change(on, isr)).topics[0].partitions
        after = on.partition("t")
        assert (reply.error_code, reply.isr, reply.partition_epoch) == (0, isr, before.partition_epoch + 1)
        assert after.isr == tuple(isr)
        assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ({"leader_epoch": 1}, "NOT_CONTROLLER"),
        ({"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ({"partition_epoch": 1}, "NOT_CONTROLLER"),
        ({"index": 1}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"index": -1}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"topic_id": b"?" * 16}, "UNKNOWN_TOPIC_ID"),
    ],
)
def test_a_change_from_another_time_is_refused(more: dict[str, Any], code: str) -> None:
    """Two leaders of one partition must never both change its ISR: acknowledged records would be lost."""
    on = led_by_three()
    before = on.partition("t")
    (reply,) = on.ask(isr_change(on, [before.leader], **more)).topics[0].partitions
    assert ErrorCode.of(reply.error_code).name == code
    assert on.partition("t") == before


def test_only_the_leader_changes_the_isr_and_it_stays_in_it() -> None:
    """The high watermark is the leader's, so an ISR without it is meaningless."""
    on = led_by_three()
    leader, follower, other = on.partition("t").replicas
    (outsider,) = {1, 2, 3, 4} - {leader, follower, other}
    wrong = [
        isr_change(on, [leader, follower], broker_id=follower),
        isr_change(on, [follower, other]),
        isr_change(on, [leader, outsider]),
        isr_change(on, [leader, leader]),
        isr_change(on, []),
    ]
    for command in wrong:
        (reply,) = on.ask(command).topics[0].partitions
        assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_a_replica_that_is_not_live_cannot_come_into_the_isr() -> None:
    """A follower that has restarted may have lost records that its leader relies on; its epoch shows this (KIP-841,
    KIP-903)."""
    on = led_by_three()
    leader, follower, _ = on.partition("t").replicas
    old_epoch = on.epoch(follower) - 1 or 99
    stale = isr_change(on, [leader, follower], **{f"epoch_of_{follower}": old_epoch})
    (reply,) = on.ask(stale).topics[0].partitions
    assert reply.error_code == ErrorCode.INELIGIBLE_REPLICA
    on.ask(FenceBroker(broker_id=follower, broker_epoch=on.epoch(follower)))
    (reply,) = on.ask(isr_change(on, [leader, follower])).topics[0].partitions
    assert reply.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_of_the_past_is_not_heard() -> None:
    """The process that registered under the id before may still be sending."""
    on = led_by_three()
    command = isr_change(on, [on.partition("t").leader])
    command.broker_epoch += 1
    with pytest.raises(MetadataRefused) as refused:
        on.ask(command)
    assert refused.value.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_one_partition_changes_once_in_a_command() -> None:
    """The second change was made in an epoch that the first has ended."""
    on = led_by_three()
    command = isr_change(on, [on.partition("t").leader])
    command.topics.append(command.topics[0])
    reply = on.ask(command)
    assert [topic.partitions[0].error_code for topic in reply.topics] == [ErrorCode.INVALID_REQUEST] * 2
