"""Replicas move to other brokers, moves are called off, leaders are elected when asked; no copy is lost by it."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.alter_configs import AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.commands.alter_reassignments import AlterReassignments, ReassignedTopic, Reassignment
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_partitions import CreatePartitions, TopicGrowth
from chronik.metadata.commands.create_topics import PartitionReplicas
from chronik.metadata.commands.elect_leaders import PREFERRED, UNCLEAN, ElectionTopic, ElectLeaders
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.image import NO_LEADER, Partition
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import Cluster, cluster, create, new_topic
from tests.metadata.decisions.test_partitions import isr_change


def on_brokers(*replicas: int, brokers: int = 5) -> Cluster:
    on = cluster(brokers)
    topic = new_topic("t", -1, -1, assignments=[PartitionReplicas(index=0, broker_ids=list(replicas))])
    create(on, topic)
    return on


def reassign(on: Cluster, replicas: list[int] | None, *, allows_other_factor: bool = True) -> str:
    command = AlterReassignments(
        topics=[ReassignedTopic(name="t", partitions=[Reassignment(index=0, replicas=replicas)])],
        allows_other_factor=allows_other_factor,
    )
    (reply,) = on.ask(command).topics[0].partitions
    return ErrorCode.of(reply.error_code).name


def fence(on: Cluster, broker_id: int) -> None:
    on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))


def elect(on: Cluster, kind: int, names: list[str] | None = None) -> dict[str, str]:
    topics = None if names is None else [ElectionTopic(name=name, partitions=[0]) for name in names]
    reply = on.ask(ElectLeaders(election_type=kind, topics=topics))
    return {topic.name: ErrorCode.of(each.error_code).name for topic in reply.topics for each in topic.partitions}


def test_a_move_adds_first_and_removes_when_all_are_in_sync() -> None:
    """At every moment there are as many copies as before: a broker lost in between loses nothing."""
    on = on_brokers(1, 2, 3)
    assert reassign(on, [4, 5, 3]) == "NONE"
    assert on.partition("t") == Partition(1, 0, 1, (4, 5, 3, 1, 2), (1, 2, 3), adding=(4, 5), removing=(1, 2))
    on.ask(isr_change(on, [1, 2, 3, 4]))
    assert on.partition("t").is_reassigning, "5 is not there yet"
    on.ask(isr_change(on, [1, 2, 3, 4, 5]))
    after = on.partition("t")
    assert (after.replicas, set(after.isr), after.is_reassigning) == ((4, 5, 3), {3, 4, 5}, False)
    assert (after.leader, after.leader_epoch) == (4, 1)


def test_a_leader_that_stays_leads_on_in_a_new_epoch() -> None:
    """The one that left may still be fetching: the epoch tells it that it is no replica any more."""
    on = on_brokers(1, 2)
    assert reassign(on, [1, 3]) == "NONE"
    assert on.partition("t").leader_epoch == 0
    on.ask(isr_change(on, [1, 2, 3]))
    after = on.partition("t")
    assert (after.leader, after.leader_epoch, after.replicas, after.isr) == (1, 1, (1, 3), (1, 3))


def test_what_only_takes_away_or_reorders_is_done_at_once() -> None:
    on = on_brokers(1, 2, 3)
    assert reassign(on, [3, 2, 1]) == "NONE"
    assert on.partition("t").replicas == (3, 2, 1)
    assert (on.partition("t").leader, on.partition("t").leader_epoch) == (1, 0)
    assert reassign(on, [2]) == "NONE"
    after = on.partition("t")
    assert (after.replicas, after.isr, after.leader, after.is_reassigning) == ((2,), (2,), 2, False)
    epoch = after.partition_epoch
    assert reassign(on, [2]) == "NONE"
    assert on.partition("t").partition_epoch == epoch, "nothing was to be done"


def test_the_last_in_sync_replica_is_not_taken_away() -> None:
    """It has records that no other replica has."""
    on = on_brokers(1, 2)
    on.ask(isr_change(on, [1]))
    assert reassign(on, [2]) == "NONE"
    during = on.partition("t")
    assert (during.replicas, during.isr, during.removing) == ((2, 1), (1,), (1,))
    on.ask(isr_change(on, [1, 2]))
    assert (on.partition("t").replicas, on.partition("t").leader) == ((2,), 2)


def test_a_move_that_is_called_off_leaves_what_was() -> None:
    on = on_brokers(1, 2, 3)
    before = on.partition("t")
    reassign(on, [4, 5, 3])
    on.ask(isr_change(on, [1, 2, 3, 4]))
    assert reassign(on, None) == "NONE"
    after = on.partition("t")
    assert set(after.replicas) == set(before.replicas)
    assert (after.isr, after.leader, after.is_reassigning) == ((1, 2, 3), 1, False)
    assert after.leader_epoch == 1, "whoever was to come must stop fetching"
    assert reassign(on, None) == "NO_REASSIGNMENT_IN_PROGRESS"


def test_a_move_is_not_called_off_when_only_newcomers_are_in_sync() -> None:
    on = on_brokers(1)
    reassign(on, [4, 5])
    on.ask(isr_change(on, [1, 4]))
    fence(on, 1)
    assert on.partition("t").leader == 4
    assert reassign(on, None) == "INVALID_REPLICA_ASSIGNMENT"
    unclean = ConfigChange(key="unclean.leader.election.enable", value="true")
    on.ask(
        AlterConfigs(
            resources=[ResourceChange(resource_type=2, resource_name="t", configs=[unclean])], incremental=True
        )
    )
    assert reassign(on, None) == "NONE"
    assert (on.partition("t").replicas, on.partition("t").isr, on.partition("t").leader) == ((1,), (1,), NO_LEADER)
    on.ask(BrokerHeartbeat(broker_id=1, broker_epoch=on.epoch(1)))
    assert on.partition("t").leader == 1


def test_a_second_move_forgets_the_newcomers_of_the_first() -> None:
    """Called off afterwards, there is the state before both."""
    on = on_brokers(1, 2)
    reassign(on, [3, 4])
    on.ask(isr_change(on, [1, 2, 3]))
    assert reassign(on, [1, 4]) == "NONE"
    during = on.partition("t")
    assert (during.replicas, during.isr, during.adding, during.removing) == ((1, 4, 2), (1, 2), (4,), (2,))
    assert reassign(on, None) == "NONE"
    assert (set(on.partition("t").replicas), on.partition("t").isr) == ({1, 2}, (1, 2))


def test_a_newcomer_that_alone_is_in_sync_stays_until_another_is() -> None:
    on = on_brokers(1)
    reassign(on, [4, 5])
    on.ask(isr_change(on, [1, 4]))
    fence(on, 1)
    assert reassign(on, [5]) == "NONE"
    during = on.partition("t")
    assert (during.leader, during.isr, during.adding, set(during.removing)) == (4, (4,), (5,), {1, 4})
    on.ask(isr_change(on, [4, 5]))
    assert (on.partition("t").replicas, on.partition("t").isr, on.partition("t").leader) == ((5,), (5,), 5)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ([], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 1], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 9], "INVALID_REPLICA_ASSIGNMENT"),
        ([1, 2, 3], "INVALID_REPLICATION_FACTOR"),
        ([3, 4], "NONE"),
        (None, "NO_REASSIGNMENT_IN_PROGRESS"),
    ],
)
def test_what_cannot_be_is_refused(target: list[int] | None, code: str) -> None:
    on = on_brokers(1, 2)
    assert reassign(on, target, allows_other_factor=False) == code


def test_the_factor_is_that_without_newcomers() -> None:
    on = on_brokers(1, 2)
    reassign(on, [3, 4])
    assert reassign(on, [3, 4, 5], allows_other_factor=False) == "INVALID_REPLICATION_FACTOR"
    assert reassign(on, [3, 5], allows_other_factor=False) == "NONE"


def test_unknown_and_repeated_partitions_are_answered_one_by_one() -> None:
    on = on_brokers(1, 2)
    both = [
        Reassignment(index=0, replicas=[3]),
        Reassignment(index=0, replicas=[4]),
        Reassignment(index=7, replicas=[1]),
    ]
    reply = on.ask(
        AlterReassignments(
            topics=[ReassignedTopic(name="t", partitions=both), ReassignedTopic(name="no", partitions=both[2:])]
        )
    )
    codes = [[ErrorCode.of(each.error_code).name for each in topic.partitions] for topic in reply.topics]
    unknown = "UNKNOWN_TOPIC_OR_PARTITION"
    assert codes == [["INVALID_REQUEST", "INVALID_REQUEST", unknown], [unknown]]
    assert on.partition("t").replicas == (1, 2)


def test_a_topic_that_grows_during_a_move_gets_the_replicas_it_will_have() -> None:
    on = on_brokers(1, 2)
    reassign(on, [3, 4])
    on.ask(CreatePartitions(topics=[TopicGrowth(name="t", partition_count=2)]))
    assert len(on.partition("t", 1).replicas) == 2


def test_a_broker_lost_during_a_move_does_not_end_it() -> None:
    on = on_brokers(1, 2)
    reassign(on, [3, 4])
    on.ask(isr_change(on, [1, 2, 3]))
    fence(on, 4)
    fence(on, 1)
    during = on.partition("t")
    assert (during.adding, during.removing, during.isr, during.leader) == ((3, 4), (1, 2), (2, 3), 3)


def test_the_preferred_leader_is_elected_where_it_is_in_sync() -> None:
    """After a broker is back its leaderships come back to it, one request for all of them."""
    on = on_brokers(1, 2)
    create(on, new_topic("other", 1, 1))
    assert elect(on, PREFERRED, ["t"]) == {"t": "ELECTION_NOT_NEEDED"}
    fence(on, 1)
    assert on.partition("t").leader == 2
    assert elect(on, PREFERRED, ["t", "no"]) == {
        "t": "PREFERRED_LEADER_NOT_AVAILABLE",
        "no": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    on.ask(BrokerHeartbeat(broker_id=1, broker_epoch=on.epoch(1)))
    assert elect(on, PREFERRED) == {"t": "PREFERRED_LEADER_NOT_AVAILABLE"}, "it has to catch up first"
    on.ask(isr_change(on, [2, 1]))
    before = on.partition("t")
    assert elect(on, PREFERRED) == {"t": "NONE"}
    after = on.partition("t")
    assert (after.leader, after.leader_epoch, after.isr) == (1, before.leader_epoch + 1, before.isr)
    assert elect(on, PREFERRED) == {}, "where nothing is to be done, nothing is said"


def test_an_unclean_election_takes_whoever_lives_and_only_where_nobody_leads() -> None:
    """An operator requests it, knowing that records are lost; no configuration has to allow it."""
    on = on_brokers(1, 2, 3)
    assert elect(on, UNCLEAN, ["t"]) == {"t": "ELECTION_NOT_NEEDED"}
    on.ask(isr_change(on, [1]))
    fence(on, 1)
    assert on.partition("t").leader == NO_LEADER
    assert elect(on, PREFERRED, ["t"]) == {"t": "PREFERRED_LEADER_NOT_AVAILABLE"}
    assert elect(on, UNCLEAN, ["t"]) == {"t": "NONE"}
    assert (on.partition("t").leader, on.partition("t").isr) == (2, (2,))
    for broker_id in (2, 3):
        fence(on, broker_id)
    assert elect(on, UNCLEAN, ["t"]) == {"t": "ELIGIBLE_LEADERS_NOT_AVAILABLE"}


def test_an_unknown_election_is_refused() -> None:
    with pytest.raises(MetadataRefused) as refused:
        elect(on_brokers(1), 2, ["t"])
    assert refused.value.error_code == ErrorCode.INVALID_REQUEST
