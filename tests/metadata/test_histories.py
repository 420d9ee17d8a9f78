"""Random histories: any sequence of commands, cut into entries anyhow, gives one state on every way to it.

The ways: batch by batch as a follower does, all records at once, through bytes, through a snapshot taken anywhere, and
as the controller sees its own decisions. A model of dicts says which commands must succeed, and invariants must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.commands.alter_configs import SET, AlterConfigs, ConfigChange, ResourceChange
from chronik.metadata.commands.alter_partition import AlterPartition, IsrMember, NewIsr, TopicIsrs
from chronik.metadata.commands.alter_reassignments import AlterReassignments, ReassignedTopic, Reassignment
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, RequestId
from chronik.metadata.commands.create_partitions import CreatePartitions, TopicGrowth
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.elect_leaders import PREFERRED, UNCLEAN, ElectLeaders
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.controller import Controller
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.delta import Delta
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.image import EMPTY, NO_LEADER, Image
from chronik.metadata.records import ClusterRecord, MetadataRecord, decode_batch, encode_batch
from chronik.metadata.replay import replay, replay_onto
from chronik.metadata.snapshot import decode_snapshot, difference, encode_snapshot, state_hash
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import CLUSTER_ID, SESSION_NS, registration

NAMES = ["a", "b", "c.d", "c_d", "e"]


class Model:
    """The state that a user expects: topics by name with size and retention, brokers, the next producer id."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[bytes, int, dict[str, str]]] = {}
        self.brokers: dict[int, bool] = {}  # whether live
        self.next_producer_id = 0

    def agrees_with(self, image: Image) -> None:
        assert {topic.name for topic in image.all_topics()} == set(self.topics)
        for name, (topic_id, count, configs) in self.topics.items():
            topic = image.topic_named(name)
            assert topic is not None
            assert image.topic(topic_id) is topic
            assert (topic.topic_id, len(topic.partitions)) == (topic_id, count)
            assert dict(image.config(2, name)) == configs
        assert {broker_id: broker.live for broker_id, broker in image.brokers.items()} == self.brokers
        assert image.next_producer_id == self.next_producer_id


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.model = Model()
        self.image: Image = EMPTY
        self.entries: list[bytes] = []
        self.records: list[MetadataRecord] = []
        self.pending: list[MetadataRecord] = [ClusterRecord(cluster_id=CLUSTER_ID)]
        self.sequence = 0
        self.epochs: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.controller = Controller(EMPTY, Rules(), session_timeout_ns=SESSION_NS, now_ns=0)
        self.controller.assume(self.pending)

    def step(self) -> None:
        actions: list[Callable[[], None]] = [
            self.create, self.create, self.delete, self.grow, self.configure, self.register, self.unfence,
            self.unfence, self.fence, self.unregister, self.allocate, self.change_isr, self.change_isr, self.reassign,
            self.elect,
        ]  # fmt: skip
        self.random.choice(actions)()
        if self.random.random() < 0.4:
            self.commit()

    def ask(self, command: Command) -> Any:
        self.sequence += 1
        request = RequestId(self.sequence % 3, 1, self.sequence, max(self.sequence - 7, 0))
        decision = self.controller.handle(command, request, 0)
        self.pending += decision.records
        if decision.records and self.random.random() < 0.1:
            again = self.controller.handle(command, request, 0)
            assert (again.records, again.reply) == ([], decision.reply)
        return decision.reply

    def commit(self) -> None:
        """The decisions since the last time become an entry, as a follower gets it."""
        if not self.pending:
            return
        data = encode_batch(self.pending)
        before = self.image
        self.image, changes = replay_onto(before, before.version + 1, decode_batch(data))
        assert changes._replace(configs=()) == difference_in_order(before, self.image, changes)._replace(configs=())
        self.entries.append(data)
        self.records += self.pending
        self.pending = []
        self.controller.settle()
        self.check()

    def check(self) -> None:
        self.model.agrees_with(self.image)
        for topic in self.image.all_topics():
            for index, now in enumerate(topic.partitions):
                assert now.isr or now.leader == NO_LEADER
                assert set(now.isr) <= set(now.replicas)
                assert len(set(now.replicas)) == len(now.replicas)
                assert set(now.adding) <= set(now.replicas)
                assert set(now.removing) <= set(now.replicas)
                assert not set(now.adding) & set(now.removing)
                if now.is_reassigning:
                    can_end = set(now.adding) <= set(now.isr) and not set(now.isr) <= set(now.removing)
                    assert not can_end, "a move that can end has ended"
                if now.leader == NO_LEADER:
                    assert not any(self.image.is_live(member) for member in now.isr), "a live member could lead"
                else:
                    assert now.leader in now.isr
                    assert self.image.is_live(now.leader)
                leader_epoch, partition_epoch = self.epochs.get((topic.topic_id, index), (-1, -1))
                assert now.leader_epoch >= leader_epoch
                assert now.partition_epoch >= partition_epoch
                self.epochs[topic.topic_id, index] = now.leader_epoch, now.partition_epoch

    def create(self) -> None:
        name, count = self.random.choice(NAMES), self.random.randint(1, 4)
        factor = self.random.randint(1, 3)
        topic = NewTopic(
            name=name, topic_id=self.random.randbytes(16), partition_count=count, replication_factor=factor
        )
        (reply,) = self.ask(CreateTopics(topics=[topic])).topics
        alike = [other for other in self.model.topics if other.replace(".", "_") == name.replace(".", "_")]
        can = not alike and any(self.model.brokers.values()) and factor <= len(self.model.brokers)
        assert (reply.error_code == 0) == can, reply
        if can:
            self.model.topics[name] = (topic.topic_id, count, {})

    def delete(self) -> None:
        name = self.random.choice(NAMES)
        (reply,) = self.ask(DeleteTopics(topics=[TopicName(name=name)])).topics
        assert (reply.error_code == 0) == (self.model.topics.pop(name, None) is not None)

    def grow(self) -> None:
        name, count = self.random.choice(NAMES), self.random.randint(1, 6)
        (reply,) = self.ask(CreatePartitions(topics=[TopicGrowth(name=name, partition_count=count)])).topics
        topic_id, size, configs = self.model.topics.get(name, (b"", 99, {}))
        topic = self.controller.newest.topic_named(name)
        first = topic.partitions[0] if topic else None
        factor = len(set(first.replicas) - set(first.removing)) if first else 0
        can = count > size and any(self.model.brokers.values()) and factor <= len(self.model.brokers)
        assert (reply.error_code == 0) == can, reply
        if can:
            self.model.topics[name] = (topic_id, count, configs)

    def configure(self) -> None:
        name, value = self.random.choice(NAMES), self.random.choice(["1", "2", None])
        configs = [] if value is None else [ConfigChange(key="retention.ms", value=value, operation=SET)]
        change = ResourceChange(resource_type=2, resource_name=name, configs=configs)
        (reply,) = self.ask(AlterConfigs(resources=[change], incremental=False)).resources
        assert (reply.error_code == 0) == (name in self.model.topics)
        if name in self.model.topics:
            topic_id, count, _ = self.model.topics[name]
            self.model.topics[name] = (topic_id, count, {} if value is None else {"retention.ms": value})

    def register(self) -> None:
        broker_id = self.random.randint(1, 4)
        self.controller.sessions.forget(broker_id)
        self.ask(registration(broker_id, process=self.random.randint(1, 250), rack=self.random.choice(["x", "y"])))
        before = self.controller.newest.brokers[broker_id]
        self.model.brokers[broker_id] = before.live

    def broker(self) -> tuple[int, int] | None:
        known = self.controller.newest.brokers
        if not known:
            return None
        broker_id = self.random.choice(list(known))
        return broker_id, known[broker_id].epoch

    def unfence(self) -> None:
        if found := self.broker():
            self.ask(BrokerHeartbeat(broker_id=found[0], broker_epoch=found[1]))
            self.model.brokers[found[0]] = True

    def fence(self) -> None:
        if found := self.broker():
            self.ask(FenceBroker(broker_id=found[0], broker_epoch=found[1]))
            self.model.brokers[found[0]] = False

    def unregister(self) -> None:
        if (found := self.broker()) and self.random.random() < 0.5:
            self.ask(UnregisterBroker(broker_id=found[0]))
            del self.model.brokers[found[0]]

    def allocate(self) -> None:
        if found := self.broker():
            reply = self.ask(AllocateProducerIds(broker_id=found[0], broker_epoch=found[1]))
            assert reply.first_producer_id == self.model.next_producer_id
            self.model.next_producer_id += 1000
            with pytest.raises(MetadataRefused):
                self.ask(AllocateProducerIds(broker_id=found[0], broker_epoch=found[1] + 1))

    def change_isr(self) -> None:
        topics = self.controller.newest.all_topics()
        if not topics:
            return
        topic = self.random.choice(topics)
        index = self.random.randrange(len(topic.partitions))
        before = topic.partitions[index]
        if before.leader == NO_LEADER:
            return
        isr = [each for each in before.replicas if each == before.leader or self.random.random() < 0.5]
        epoch = before.partition_epoch - self.random.randint(0, 1)
        change = NewIsr(
            index=index,
            leader_epoch=before.leader_epoch,
            partition_epoch=epoch,
            isr=[IsrMember(broker_id=each) for each in isr],
        )
        command = AlterPartition(
            broker_id=before.leader,
            broker_epoch=self.controller.newest.brokers[before.leader].epoch,
            topics=[TopicIsrs(topic_id=topic.topic_id, partitions=[change])],
        )
        (reply,) = self.ask(command).topics[0].partitions
        can = epoch == before.partition_epoch and all(self.controller.newest.is_live(each) for each in isr)
        assert (reply.error_code == 0) == can

    def reassign(self) -> None:
        name, index = self.random.choice(NAMES), self.random.randrange(3)
        known = self.controller.newest.brokers
        target = self.random.sample(list(known), min(len(known), self.random.randint(1, 3)))
        calls_off = self.random.random() < 0.3
        topic = self.controller.newest.topic_named(name)
        before = topic.partition(index) if topic else None
        wanted = Reassignment(index=index, replicas=None if calls_off else target)
        (reply,) = self.ask(AlterReassignments(topics=[ReassignedTopic(name=name, partitions=[wanted])])).topics
        error = ErrorCode.of(reply.partitions[0].error_code).name
        if before is None:
            assert error == "UNKNOWN_TOPIC_OR_PARTITION"
        elif calls_off and not before.is_reassigning:
            assert error == "NO_REASSIGNMENT_IN_PROGRESS"
        elif (calls_off and set(before.isr) <= set(before.adding)) or (not calls_off and not target):
            assert error == "INVALID_REPLICA_ASSIGNMENT"
        else:
            assert error == "NONE"
            topic = self.controller.newest.topic_named(name)
            assert topic is not None
            after = topic.partitions[index]
            if calls_off:
                assert set(after.replicas) == set(before.replicas) - set(before.adding)
                assert not after.is_reassigning
            else:
                assert set(after.replicas) - set(after.removing) == set(target)
            if after.adding:
                assert set(before.isr) - set(before.adding) <= set(after.replicas), "who comes is not there yet"

    def elect(self) -> None:
        kind = self.random.choice([PREFERRED, UNCLEAN])
        before = {topic.name: topic for topic in self.controller.newest.all_topics()}
        reply = self.ask(ElectLeaders(election_type=kind, topics=None))
        for answered in reply.topics:
            for each in answered.partitions:
                topic = self.controller.newest.topic_named(answered.name)
                assert topic is not None
                was, now = before[answered.name].partitions[each.index], topic.partitions[each.index]
                if each.error_code:
                    assert now.leader == was.leader
                elif kind == PREFERRED:
                    assert now.leader == now.replicas[0] != was.leader
                else:
                    assert now.leader != NO_LEADER == was.leader


def difference_in_order(before: Image, after: Image, told: Any) -> Any:
    """The real differences in the reported order, because only the content is compared."""
    real = difference(before, after)
    assert sorted(real.topics_added) == sorted(told.topics_added)
    assert sorted(real.topics_removed) == sorted(told.topics_removed)
    assert sorted(real.topics_changed) == sorted(told.topics_changed)
    assert set(real.configs) <= set(told.configs)
    assert set(real.brokers) <= set(told.brokers)
    return told


@pytest.mark.parametrize("seed", range(40))
def test_all_ways_through_a_history_meet(seed: int) -> None:
    """Leader, follower, restarted node and one that got a snapshot must be indistinguishable (invariant 4)."""
    history = History(seed)
    snapshots: list[tuple[int, bytes]] = []
    for step in range(150):
        history.step()
        if step % 40 == 0:
            snapshots.append((len(history.entries), encode_snapshot(history.image)))
    history.commit()
    expected = state_hash(history.image)

    at_once = Delta(EMPTY)
    replay(at_once, history.records)
    assert state_hash(at_once.finish(history.image.version)[0]) == expected

    of_the_controller = history.controller._delta.finish(history.image.version)[0]
    assert state_hash(of_the_controller) == expected

    for position, data in snapshots:
        image = decode_snapshot(data)
        assert encode_snapshot(image) == data
        for entry in history.entries[position:]:
            image, _ = replay_onto(image, image.version + 1, decode_batch(entry))
        assert state_hash(image) == expected
        assert image.live_brokers == history.image.live_brokers
        assert image.all_topics() == history.image.all_topics(), "the hash is made of snapshots, so it sees no more"


def test_the_hash_tells_states_apart() -> None:
    """A hash that is always equal proves nothing: each commit of a history must give another."""
    history = History(1)
    seen = set()
    for _ in range(100):
        history.step()
        history.commit()
        seen.add(state_hash(history.image))
    assert len(seen) == len(history.entries)
