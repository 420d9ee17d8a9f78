"""Snapshots: an image through bytes and back, with nothing lost, and the difference between two images."""

from __future__ import annotations

import pytest

from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.commands.alter_scram_credentials import AlterScramCredentials
from chronik.metadata.commands.command import RequestId
from chronik.metadata.commands.create_acls import CreateAcls
from chronik.metadata.commands.create_partitions import CreatePartitions, TopicGrowth
from chronik.metadata.commands.create_topics import ConfigValue
from chronik.metadata.commands.delete_acls import DeleteAcls
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.unregister_broker import UnregisterBroker
from chronik.metadata.delta import Changes
from chronik.metadata.errors import DamagedMetadata
from chronik.metadata.image import EMPTY, ConfigResource, Image, View
from chronik.metadata.snapshot import decode_snapshot, difference, encode_snapshot, state_hash
from tests.metadata.access_commands import acl, acl_filter
from tests.metadata.clusters import Cluster, cluster, create, new_topic, registration
from tests.metadata.decisions.test_delegation_tokens import change_of, new_token
from tests.metadata.decisions.test_scram_credentials import upsertion


def fields_of(image: Image) -> dict[str, object]:
    """Everything, in plain containers: a field that is forgotten in the bytes must show."""
    fields = {name: getattr(image, name) for name in (*View.__slots__, *Image.__slots__)}
    return {name: dict(value) if hasattr(value, "items") else value for name, value in fields.items()}


def eventful() -> Cluster:
    on = cluster(4, racks={1: "a", 2: "b"}, features={"eligible.leader.replicas.version": 1, "metadata.version": 30})
    config = [ConfigValue(key="min.insync.replicas", value="2")]
    create(on, new_topic("a.b", 3, 3, configs=config), new_topic("c_d"), new_topic("gone.soon"))
    on.ask(AllocateProducerIds(broker_id=1, broker_epoch=on.epoch(1)))
    on.ask(DeleteTopics(topics=[TopicName(name="gone.soon")]), RequestId(5, 3, 9, 7))
    on.ask(CreatePartitions(topics=[TopicGrowth(name="c_d", partition_count=4)]), RequestId(5, 3, 10, 7))
    on.ask(AlterScramCredentials(deletions=[], upsertions=[upsertion("alice"), upsertion("bob", 2)], secret=b"s" * 32))
    for token_id in ("kept", "gone"):
        on.ask(new_token(token_id))
    on.ask(change_of("gone", period_ms=-1))
    on.ask(UnregisterBroker(broker_id=4))
    on.ask(CreateAcls(rules=[acl("a."), acl("a.", pattern_type=4), acl("gone")]))
    on.ask(DeleteAcls(filters=[acl_filter(resource_name="gone")]))
    for broker_id in (2, 3):
        on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))
    return on


def test_a_snapshot_holds_every_field() -> None:
    """A node that starts from one must be the same as one that replayed the log, in what no hash is made of too."""
    image = eventful().image
    assert any(partition.elr for partition in image.topics_by_name["a.b"].partitions)
    assert (len(image.scram), image.scram_secret) == (2, b"s" * 32)
    assert list(image.tokens) == ["kept"]
    read = decode_snapshot(encode_snapshot(image))
    assert fields_of(read) == fields_of(image)
    assert state_hash(read) == state_hash(image)
    assert fields_of(decode_snapshot(encode_snapshot(EMPTY))) == fields_of(EMPTY)


def test_what_must_never_repeat_does_not_after_a_snapshot() -> None:
    """Broker epochs, producer ids and applied requests protect against the past, which a snapshot makes shorter."""
    on = eventful()
    highest = on.image.broker_epoch_last
    on.image = decode_snapshot(encode_snapshot(on.image))
    on.change_controller()
    assert on.ask(registration(9)).broker_epoch == highest + 1
    assert on.ask(AllocateProducerIds(broker_id=1, broker_epoch=on.epoch(1))).first_producer_id == 1000
    create(on, new_topic("gone.soon"))
    on.ask(DeleteTopics(topics=[TopicName(name="gone.soon")]), RequestId(5, 3, 9, 7))
    assert on.image.topic_named("gone.soon") is not None, "the deletion was applied before"


@pytest.mark.parametrize("size", [0, 7, 8, 30, -1])
def test_a_damaged_snapshot_is_refused(size: int) -> None:
    """Half a cluster is worse than none: its topics would be deleted from disk as unknown."""
    data = encode_snapshot(eventful().image)
    with pytest.raises(DamagedMetadata):
        decode_snapshot(data[:size])


def test_the_difference_of_two_images_is_what_happened_between_them() -> None:
    """A follower that got a snapshot tells its listeners this, as it would have told them each change."""
    on = eventful()
    before = on.image
    assert difference(before, before) == Changes()
    on.ask(DeleteTopics(topics=[TopicName(name="a.b")]))
    create(on, new_topic("new"))
    on.ask(CreatePartitions(topics=[TopicGrowth(name="c_d", partition_count=5)]))
    on.ask(registration(7))
    on.ask(DeleteAcls(filters=[acl_filter()]))
    after = decode_snapshot(encode_snapshot(on.image))
    changes = difference(before, after)
    assert [topic.name for topic in changes.topics_added] == ["new"]
    assert [topic.name for topic in changes.topics_removed] == ["a.b"]
    assert [(old.name, len(old.partitions), len(new.partitions)) for old, new in changes.topics_changed] == [
        ("c_d", 4, 5)
    ]
    assert changes.brokers == (7,)
    assert changes.configs == (ConfigResource(2, "a.b"),)
    assert not changes.features
    assert changes.access
