"""Replay, the only way to change the state: it shares unchanged parts, reports its changes, and refuses invalid
records."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.create_partitions import CreatePartitions, TopicGrowth
from chronik.metadata.commands.create_topics import ConfigValue
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.delta import Changes
from chronik.metadata.image import EMPTY, ConfigResource
from chronik.metadata.records import (
    AppliedRequestRecord,
    BrokerChangeRecord,
    ClusterRecord,
    MetadataRecord,
    NewTopicRecord,
    PartitionChangeRecord,
    PartitionRecord,
    PartitionsChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from chronik.metadata.replay import replay_onto
from chronik.metadata.snapshot import state_hash
from chronik.runtime.invariants import InvariantBroken
from tests.metadata.clusters import Cluster, cluster, create, new_topic, topic_id

ID = topic_id("t")


def partition(index: int = 1, **more: object) -> PartitionRecord:
    values = {"topic_id": ID, "leader": 1, "leader_epoch": 0, "partition_epoch": 0, "replicas": [1], "isr": [1], **more}
    return PartitionRecord(index=index, **values)  # type: ignore[arg-type]


def change(**more: object) -> PartitionChangeRecord:
    values = {"index": 0, "leader": 1, "leader_epoch": 0, "partition_epoch": 1, "isr": [1], **more}
    return PartitionChangeRecord(topic_id=ID, **values)  # type: ignore[arg-type]


def changes(partitions: bytes = ID + bytes(4), **more: object) -> PartitionsChangeRecord:
    values = {"leader": 1, "leader_epoch": 0, "partition_epoch": 1, "replicas": [1], "isr": [1], **more}
    return PartitionsChangeRecord(partitions=partitions, **values)  # type: ignore[arg-type]


def applied(**more: int) -> AppliedRequestRecord:
    values = {"incarnation": 5, "sequence": 1, "answered_below": 0, **more}
    return AppliedRequestRecord(node_id=7, reply=b"", **values)


def whole(name: str, topic_id: bytes, replicas: str = "00000001", factor: int = 1) -> NewTopicRecord:
    return NewTopicRecord(topic_id=topic_id, name=name, replication_factor=factor, replicas=bytes.fromhex(replicas))


IMPOSSIBLE: list[tuple[str, list[MetadataRecord]]] = [
    ("a second topic of the name", [TopicRecord(topic_id=b"o" * 16, name="t"), partition(0, topic_id=b"o" * 16)]),
    ("a second topic of the id", [TopicRecord(topic_id=ID, name="u"), partition(0)]),
    ("a topic without partitions", [TopicRecord(topic_id=b"o" * 16, name="u")]),
    ("a second whole topic of the name", [whole("t", b"o" * 16)]),
    ("a second whole topic of the id", [whole("u", ID)]),
    ("a whole topic without partitions", [whole("u", b"o" * 16, "")]),
    ("a whole topic without replicas", [whole("u", b"o" * 16, "", 0)]),
    ("a whole topic with part of a partition", [whole("u", b"o" * 16, "00000001 00000002 00000003", 2)]),
    ("a gap between partitions", [partition(2)]),
    ("a partition twice", [partition(0)]),
    ("a partition nobody holds", [partition(1, isr=[])]),
    ("a partition of no topic", [RemoveTopicRecord(topic_id=ID), partition(1)]),
    ("a change of a partition that is not there", [change(index=1)]),
    ("a change that skips an epoch", [change(partition_epoch=2)]),
    ("a change that repeats an epoch", [change(partition_epoch=0)]),
    ("a leader epoch that goes back", [change(leader_epoch=-1)]),
    ("a new leader in the old epoch", [change(leader=2)]),
    ("an ISR that is emptied", [change(isr=[])]),
    ("changes of a partition that is not there", [changes(ID + b"\0\0\0\1")]),
    ("changes of a partition before the first", [changes(ID + b"\xff\xff\xff\xff")]),
    ("changes of no topic", [changes(b"o" * 16 + bytes(4))]),
    ("changes that skip an epoch", [changes(partition_epoch=2)]),
    ("changes to a new leader in the old epoch", [changes(leader=2)]),
    ("changes that empty an ISR", [changes(isr=[])]),
    ("changes to an ISR of others", [changes(isr=[2])]),
    ("changes for other replicas", [changes(replicas=[1, 2])]),
    ("one change twice", [changes(2 * (ID + bytes(4)))]),
    ("a topic removed twice", [RemoveTopicRecord(topic_id=ID), RemoveTopicRecord(topic_id=ID)]),
    ("a broker that is not registered", [UnregisterBrokerRecord(broker_id=9, epoch=1)]),
    (
        "a broker in another epoch",
        [BrokerChangeRecord(broker_id=1, epoch=9, fenced=True, in_controlled_shutdown=False)],
    ),
    ("producer ids given twice", [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=0)]),
    ("a cluster of another name", [ClusterRecord(cluster_id="another")]),
    ("a request applied twice", [applied(), applied()]),
    ("a node's past", [applied(), applied(incarnation=4)]),
]


@pytest.mark.parametrize(("what", "records"), IMPOSSIBLE, ids=[what for what, _ in IMPOSSIBLE])
def test_records_that_cannot_be_stop_the_node(what: str, records: list[MetadataRecord]) -> None:
    """A controller has a bug, and continuing would spread it. The image stays unchanged."""
    on = cluster(1)
    create(on, new_topic("t"))
    before = state_hash(on.image)
    with pytest.raises(InvariantBroken):
        replay_onto(on.image, 99, records)
    assert state_hash(on.image) == before


def changes_of(on: Cluster, do: object) -> Changes:
    before, count = on.image, len(on.records)
    on.ask(do)  # type: ignore[arg-type]
    _, changes = replay_onto(before, before.version + 1, on.records[count:])
    return changes


def test_changes_name_what_changed_and_nothing_else() -> None:
    """Replica managers start and stop partitions by them: one missed is a partition without a leader."""
    on = cluster(2)
    create(on, new_topic("stays"), new_topic("t", 2, 2, configs=[ConfigValue(key="retention.ms", value="5")]))
    grown = changes_of(on, CreatePartitions(topics=[TopicGrowth(name="t", partition_count=3)]))
    assert [(before.name, len(before.partitions), len(after.partitions)) for before, after in grown.topics_changed] == [
        ("t", 2, 3)
    ]
    assert grown._replace(topics_changed=()) == Changes()
    fenced = changes_of(on, FenceBroker(broker_id=1, broker_epoch=on.epoch(1)))
    assert fenced.brokers == (1,)
    assert "t" in [after.name for _, after in fenced.topics_changed]
    removed = changes_of(on, DeleteTopics(topics=[TopicName(name="t")]))
    assert [topic.name for topic in removed.topics_removed] == ["t"]
    assert removed.configs == (ConfigResource(2, "t"),)
    assert (removed.topics_added, removed.topics_changed, removed.brokers) == ((), (), ())


def test_a_topic_made_and_removed_in_one_batch_was_never_there() -> None:
    """A listener that saw it would create files for nothing."""
    on = cluster(1)
    batch: list[MetadataRecord] = [TopicRecord(topic_id=ID, name="t.x"), partition(0), RemoveTopicRecord(topic_id=ID)]
    image, changes = replay_onto(on.image, 9, batch)
    assert changes == Changes()
    assert (len(image.topics), len(image.lookalikes)) == (0, 0)


def test_an_image_never_changes_and_the_next_shares_what_it_did_not_touch() -> None:
    """Readers hold images for long, without a lock; and a change must not cost a copy of 10,000 topics."""
    on = cluster(2)
    create(on, new_topic("a"), new_topic("b"))
    before, kept = on.image, on.image.topic_named("a")
    frozen = state_hash(before)
    on.ask(DeleteTopics(topics=[TopicName(name="b")]))
    assert state_hash(before) == frozen
    assert before.topic_named("b") is not None
    assert on.image.topic_named("a") is kept
    assert on.image.brokers is before.brokers
    assert on.image.live_brokers is before.live_brokers
    assert EMPTY.version == 0
    assert len(EMPTY.topics) == 0
