"""Brokers come, fall silent, and go, and leaderships follow."""

from __future__ import annotations

import pytest

from chronik.catalogue.topic_keys import TOPIC_CONFIGS
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.create_topics import ConfigValue
from chronik.metadata.commands.elect_leaders import ElectLeaders
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.image import NO_LEADER
from tests.metadata.clusters import SESSION_NS, Cluster, cluster, create, new_topic, registration


def heartbeat(on: Cluster, broker_id: int, **wants: bool) -> BrokerHeartbeat:
    return BrokerHeartbeat(broker_id=broker_id, broker_epoch=on.epoch(broker_id), **wants)


def refused_with(on: Cluster, command: object) -> str:
    with pytest.raises(MetadataRefused) as refused:
        on.ask(command)  # type: ignore[arg-type]
    return refused.value.error_code.name


def test_a_new_broker_is_fenced_until_it_asks_not_to_be() -> None:
    """It must have caught up with the metadata before clients are sent to it."""
    on = cluster(1)
    epoch = on.ask(registration(2)).broker_epoch
    assert on.image.brokers[2].fenced
    assert [broker.broker_id for broker in on.image.live_brokers] == [1]
    reply = on.ask(BrokerHeartbeat(broker_id=2, broker_epoch=epoch))
    assert not reply.is_fenced
    assert [broker.broker_id for broker in on.image.live_brokers] == [1, 2]
    endpoint = on.image.brokers[2].endpoint("PLAINTEXT")
    assert endpoint is not None
    assert (endpoint.host, endpoint.port) == ("host-2", 9092)


def test_every_registration_has_a_higher_epoch_than_all_before() -> None:
    """Also when the broker with the highest one is gone, or its old process could pass for the new one."""
    on = cluster(2)
    assert (on.epoch(1), on.epoch(2)) == (1, 2)
    on.ask(UnregisterBroker(broker_id=2))
    assert on.ask(registration(2, process=2)).broker_epoch == 3


def test_registering_again_from_the_same_process_changes_nothing() -> None:
    """The answer may have been lost on its way."""
    on = cluster(1)
    records = len(on.records)
    assert on.ask(registration(1)).broker_epoch == on.epoch(1)
    assert len(on.records) == records


def test_a_second_process_under_a_live_brokers_id_is_refused_unless_it_holds_the_same_disk() -> None:
    """Two machines with one node.id by mistake would take each other's partitions. A restart holds the disk's lock."""
    on = cluster(0)
    epoch = on.ask(registration(1, directory=b"d" * 16)).broker_epoch
    on.ask(BrokerHeartbeat(broker_id=1, broker_epoch=epoch))
    assert refused_with(on, registration(1, process=2, directory=b"e" * 16)) == "DUPLICATE_BROKER_REGISTRATION"
    assert on.ask(registration(1, process=2, directory=b"d" * 16)).broker_epoch == 2
    assert on.image.brokers[1].fenced


def test_a_process_takes_over_an_id_whose_session_is_over() -> None:
    """A machine that burnt down is replaced by a new one with an empty disk."""
    on = cluster(1)
    assert refused_with(on, registration(1, process=2)) == "DUPLICATE_BROKER_REGISTRATION"
    on.now_ns += SESSION_NS
    assert on.ask(registration(1, process=2)).broker_epoch == 2


def test_a_broker_may_register_at_once_with_a_controller_that_never_heard_its_predecessor() -> None:
    """Otherwise a restart of the whole cluster would wait for sessions of processes that no longer exist."""
    on = cluster(1)
    on.change_controller()
    assert on.ask(registration(1, process=2)).broker_epoch == 2


def test_strangers_are_refused() -> None:
    """A broker of another cluster, or one that is too old for the features in use, would damage what it does not
    understand."""
    on = cluster(1, features={"metadata.version": 30})
    stranger = registration(2)
    stranger.cluster_id = "another"
    assert refused_with(on, stranger) == "INCONSISTENT_CLUSTER_ID"
    old = registration(2)
    old.features = [feature for feature in old.features if feature.name != "metadata.version"]
    assert refused_with(on, old) == "UNSUPPORTED_VERSION"
    twice = registration(2)
    twice.directory_ids = [b"d" * 16, b"d" * 16]
    assert refused_with(on, twice) == "INVALID_REQUEST"


def test_whoever_speaks_in_an_old_epoch_is_told_so() -> None:
    """A process that was replaced while it was paused must stop instead of continuing."""
    on = cluster(1)
    for epoch in (0, 2):
        assert refused_with(on, BrokerHeartbeat(broker_id=1, broker_epoch=epoch)) == "STALE_BROKER_EPOCH"
        assert refused_with(on, FenceBroker(broker_id=1, broker_epoch=epoch)) == "STALE_BROKER_EPOCH"
    assert refused_with(on, BrokerHeartbeat(broker_id=9, broker_epoch=1)) == "STALE_BROKER_EPOCH"
    assert refused_with(on, UnregisterBroker(broker_id=9)) == "BROKER_ID_NOT_REGISTERED"


def test_fencing_moves_leaderships_to_the_isr_in_the_same_batch() -> None:
    """No image may show a fenced broker as a leader: clients would be sent to a dead one."""
    on = cluster(3)
    create(on, new_topic("t", 30, 3))
    led = [index for index, partition in enumerate(on.topic("t").partitions) if partition.leader == 2]
    before = on.topic("t").partitions
    on.ask(FenceBroker(broker_id=2, broker_epoch=on.epoch(2)))
    assert len(led) == 10
    for index, (was, now) in enumerate(zip(before, on.topic("t").partitions, strict=True)):
        assert now.leader == (next(r for r in was.replicas if r != 2) if index in led else was.leader)
        assert now.leader_epoch == was.leader_epoch + (index in led)
        assert now.isr == tuple(member for member in was.isr if member != 2)
        assert now.partition_epoch == was.partition_epoch + 1


def test_the_last_member_stays_in_the_isr_and_leads_again_when_it_is_back() -> None:
    """Electing another replica would lose records that only this one has. Its epoch rises, because unsynced records may
    be lost."""
    on = cluster(2)
    create(on, new_topic("t", 1, 1))
    leader = on.partition("t").leader
    on.ask(FenceBroker(broker_id=leader, broker_epoch=on.epoch(leader)))
    assert on.partition("t") == on.partition("t")._replace(leader=NO_LEADER, leader_epoch=1, isr=(leader,))
    on.ask(heartbeat(on, leader))
    assert on.partition("t") == on.partition("t")._replace(leader=leader, leader_epoch=2, isr=(leader,))


def test_a_restart_raises_the_leader_epoch_though_the_leader_is_the_same() -> None:
    """Followers and consumers compare epochs to find out that the log may have been cut."""
    on = cluster(1)
    create(on, new_topic("t"))
    on.change_controller()
    epoch = on.ask(registration(1, process=2)).broker_epoch
    assert on.partition("t").leader == NO_LEADER
    on.ask(BrokerHeartbeat(broker_id=1, broker_epoch=epoch))
    assert (on.partition("t").leader, on.partition("t").leader_epoch) == (1, 2)


def test_unclean_election_happens_only_where_it_is_allowed() -> None:
    """It loses records, so it is the user's choice and off by default."""
    assert TOPIC_CONFIGS["unclean.leader.election.enable"].default == "false"
    for allowed in (False, True):
        on = cluster(2)
        config = ConfigValue(key="unclean.leader.election.enable", value="true" if allowed else "false")
        create(on, new_topic("t", 1, 2, configs=[config]))
        first, second = on.partition("t").replicas
        on.ask(FenceBroker(broker_id=second, broker_epoch=on.epoch(second)))
        on.ask(FenceBroker(broker_id=first, broker_epoch=on.epoch(first)))
        on.ask(heartbeat(on, second))
        now = on.partition("t")
        assert (now.leader, now.isr) == ((second, (second,)) if allowed else (NO_LEADER, (first,)))


def test_a_controlled_shutdown_hands_leaderships_over_before_it_ends() -> None:
    """The broker may stop only when it leads nothing, so that clients always have a leader."""
    on = cluster(2)
    create(on, new_topic("t", 4, 2))
    reply = on.ask(heartbeat(on, 1, want_shut_down=True))
    assert not reply.should_shut_down
    assert all(partition.leader == 2 for partition in on.topic("t").partitions)
    assert not on.image.brokers[1].live
    assert not on.image.brokers[1].fenced
    reply = on.ask(heartbeat(on, 1, want_shut_down=True))
    assert reply.should_shut_down
    assert on.image.brokers[1].fenced


def test_the_last_broker_may_shut_down_too() -> None:
    """No other broker can take over, and it must be possible to stop a node."""
    on = cluster(1)
    create(on, new_topic("t"))
    replies = [on.ask(heartbeat(on, 1, want_shut_down=True)).should_shut_down for _ in range(2)]
    assert replies == [False, True]
    assert on.partition("t").isr == (1,)


def test_a_broker_can_fence_itself_and_come_back() -> None:
    """One that lost its disk's trust says so."""
    on = cluster(2)
    assert on.ask(heartbeat(on, 1, want_fence=True)).is_fenced
    assert on.image.brokers[1].fenced
    assert not on.ask(heartbeat(on, 1)).is_fenced
    assert on.image.brokers[1].live


def test_an_unregistered_broker_leaves_nothing_but_its_place_in_replicas() -> None:
    """Replicas are the user's plan, changed by a reassignment only; leadership and ISR are facts."""
    on = cluster(2)
    create(on, new_topic("t", 2, 2))
    on.ask(UnregisterBroker(broker_id=1))
    assert sorted(on.image.brokers) == [2]
    for partition in on.topic("t").partitions:
        assert (partition.leader, partition.isr) == (2, (2,))
        assert sorted(partition.replicas) == [1, 2]


@pytest.mark.parametrize(("disk", "leads"), [(b"d", True), (b"e", False)], ids=["its old disk", "another disk"])
def test_the_last_in_sync_replica_leads_again_only_with_its_disk(disk: bytes, leads: bool) -> None:
    """With an empty one it would lead an empty log, and the others would cut theirs to match."""
    on = cluster(0)
    for broker_id, directory in ((1, b"d" * 16), (2, b"f" * 16)):
        on.ask(registration(broker_id, directory=directory))
        on.ask(heartbeat(on, broker_id))
    create(on, new_topic("t", 1, 2), new_topic("alone", 2, 1))
    on.ask(FenceBroker(broker_id=2, broker_epoch=on.epoch(2)))
    on.ask(FenceBroker(broker_id=1, broker_epoch=on.epoch(1)))
    assert on.partition("t").isr == (1,)
    on.ask(registration(1, process=2, directory=disk * 16))
    on.ask(heartbeat(on, 1))
    on.ask(heartbeat(on, 2))
    assert (on.partition("t").leader, on.partition("t").isr) == ((1, (1,)) if leads else (NO_LEADER, ()))
    leaders = {partition.leader for partition in on.topic("alone").partitions}
    assert leaders == {1, 2}, "there is no other copy to wait for"
    on.ask(ElectLeaders(election_type=1, topics=None))
    assert on.partition("t").leader in (1, 2)
    assert on.partition("t").isr == (on.partition("t").leader,)


@pytest.mark.parametrize(
    ("earlier", "leads"),
    [(None, True), ([2], True), ([1, 2], True), ([1], False), ([], False)],
    ids=["it cannot tell", "its last process", "tries since", "an old copy", "a lost file"],
)
def test_a_disk_that_has_not_heard_of_the_last_process_is_an_old_copy(earlier: list[int] | None, leads: bool) -> None:
    """It lacks what that process acknowledged, so it may not lead."""
    on = cluster(0)
    for broker_id, directory in ((1, b"d" * 16), (2, b"f" * 16)):
        for process in (1, 2):
            on.ask(registration(broker_id, process=process, directory=directory, earlier=[process - 1]))
            on.ask(heartbeat(on, broker_id))
    create(on, new_topic("t", 1, 2))
    for broker_id in (2, 1):
        on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))
    on.ask(registration(1, process=3, directory=b"d" * 16, earlier=earlier))
    on.ask(heartbeat(on, 1))
    assert (on.partition("t").leader, on.partition("t").isr) == ((1, (1,)) if leads else (NO_LEADER, ()))


def test_silent_brokers_are_found_after_one_session_and_not_before() -> None:
    """A new controller also waits for a full session, because it has not received heartbeats yet."""
    on = cluster(2)
    sessions = on.controller.sessions
    on.now_ns += SESSION_NS - 1
    assert sessions.expired(on.now_ns) == []
    on.ask(heartbeat(on, 1))
    on.now_ns += 1
    assert sessions.expired(on.now_ns) == [2]
    on.ask(FenceBroker(broker_id=2, broker_epoch=on.epoch(2)))
    assert sessions.expired(on.now_ns) == []
    on.change_controller()
    on.now_ns += SESSION_NS - 1
    assert on.controller.sessions.expired(on.now_ns) == []
    on.now_ns += 1
    assert on.controller.sessions.expired(on.now_ns) == [1]
