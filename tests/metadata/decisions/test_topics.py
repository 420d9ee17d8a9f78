"""Which topics come to be and which do not, with Kafka's codes. The codes were read off a running Kafka 4.3.1."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic, PartitionReplicas
from chronik.metadata.commands.delete_topics import DeleteTopics, TopicName
from chronik.metadata.decisions.decision import Rules, TopicShape
from chronik.metadata.errors import MetadataRefused
from chronik.metadata.records import ConfigRecord, NewTopicRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from chronik.wire.error_codes import ErrorCode
from tests.metadata.clusters import cluster, create, new_topic, topic_id


def assigned(name: str, *replicas: tuple[int, list[int]], **more: int) -> NewTopic:
    numbers: dict[str, Any] = {"partition_count": -1, "replication_factor": -1, **more}
    assignments = [PartitionReplicas(index=index, broker_ids=brokers) for index, brokers in replicas]
    return NewTopic(name=name, topic_id=topic_id(name), assignments=assignments, **numbers)


def configured(*configs: tuple[str, str | None], replication_factor: int = 1) -> NewTopic:
    values = [ConfigValue(key=key, value=value) for key, value in configs]
    return new_topic("t", replication_factor=replication_factor, configs=values)


REFUSED = [
    (new_topic("known"), "TOPIC_ALREADY_EXISTS"),
    (new_topic(""), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("."), "INVALID_TOPIC_EXCEPTION"),
    (new_topic(".."), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("a" * 250), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("a b"), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("ä"), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("a/b"), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("with.dot\n"), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("with.dot_"), None),
    (new_topic("with_dot"), "INVALID_TOPIC_EXCEPTION"),
    (new_topic("__cluster_metadata"), "INVALID_REQUEST"),
    (new_topic("t", replication_factor=0), "INVALID_REPLICATION_FACTOR"),
    (new_topic("t", replication_factor=-2), "INVALID_REPLICATION_FACTOR"),
    (new_topic("t", replication_factor=4), "INVALID_REPLICATION_FACTOR"),
    (new_topic("t", partition_count=0), "INVALID_PARTITIONS"),
    (new_topic("t", partition_count=-2), "INVALID_PARTITIONS"),
    (new_topic("t", partition_count=0, replication_factor=0), "INVALID_REPLICATION_FACTOR"),
    (assigned("t", (0, [1]), replication_factor=1), "INVALID_REQUEST"),
    (assigned("t", (0, [1]), partition_count=1), "INVALID_REQUEST"),
    (assigned("t", (0, [9])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [1, 1])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (1, [1])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [1]), (0, [2])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [1]), (2, [2])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [1, 2]), (1, [2])), "INVALID_REPLICA_ASSIGNMENT"),
    (assigned("t", (0, [3])), "INVALID_REPLICA_ASSIGNMENT"),  # 3 is fenced
    (configured(("foo", "1")), "INVALID_CONFIG"),
    (configured(("retention.ms", "x")), "INVALID_CONFIG"),
    (configured(("retention.ms", "")), "INVALID_CONFIG"),
    (configured(("retention.ms", "-2")), "INVALID_CONFIG"),
    (configured(("retention.ms", None)), "INVALID_CONFIG"),
    (configured(("foo", "1"), replication_factor=0), "INVALID_CONFIG"),  # configs are looked at first
    (configured(("cleanup.policy", "foo")), "INVALID_CONFIG"),
    (configured(("cleanup.policy", "")), None),
    (configured(("cleanup.policy", " compact , delete ")), None),
    (configured(("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")), "INVALID_CONFIG"),
    (configured(("preallocate", "TRUE ")), None),
    (configured(("preallocate", "yes")), "INVALID_CONFIG"),
    (configured(("compression.gzip.level", "0")), "INVALID_CONFIG"),
    (configured(("compression.gzip.level", "-1")), None),
    (configured(("remote.storage.enable", "true")), "INVALID_CONFIG"),
    (configured(("follower.replication.throttled.replicas", "*")), None),
    (configured(("follower.replication.throttled.replicas", "0:1,zz")), "INVALID_CONFIG"),
    (configured(("segment.bytes", "100")), "INVALID_CONFIG"),
    (configured(("segment.bytes", "99999999999")), "INVALID_CONFIG"),
    (configured(("internal.segment.bytes", "100")), None),
    (configured(("min.cleanable.dirty.ratio", "1.5")), "INVALID_CONFIG"),
    (configured(("message.timestamp.type", "createtime")), "INVALID_CONFIG"),
    (configured(("max.message.bytes", "1e3")), "INVALID_CONFIG"),
    (configured(("max.message.bytes", "+5")), None),
    (configured(("max.message.bytes", " 5 ")), None),
    (configured(("chronik.durability", "os")), None),
    (configured(("chronik.durability", "never")), "INVALID_CONFIG"),
    (configured(("chronik.table.enable", "true"), ("chronik.table.decode", "json")), None),
    (configured(("chronik.table.decode", "avro")), "INVALID_CONFIG"),
    (configured(("chronik.table.mode", "overwrite")), "INVALID_CONFIG"),
    (configured(("chronik.table.on.error", "ignore")), "INVALID_CONFIG"),
    (configured(("chronik.table.backfill", "1767225600000")), None),
    (configured(("chronik.table.backfill", "yesterday")), "INVALID_CONFIG"),
    (configured(("chronik.table.target.lag.ms", "-1")), "INVALID_CONFIG"),
    (new_topic("a" * 249), None),
    (new_topic("t", partition_count=-1, replication_factor=-1), None),
    (new_topic("t", replication_factor=3), None),  # a fenced broker may take a replica
]


@pytest.mark.parametrize(("topic", "code"), REFUSED)
def test_a_topic_is_refused_with_kafkas_code_or_made(topic: NewTopic, code: str | None) -> None:
    """Clients branch on the code: another one makes them retry what cannot succeed, or give up what could."""
    on = cluster(3, fenced=[3])
    create(on, new_topic("known"), new_topic("with.dot"))
    (reply,) = create(on, topic).topics
    assert ErrorCode.of(reply.error_code).name == (code or "NONE"), reply.error_message
    assert bool(reply.error_message) == bool(code)
    assert (on.image.topic_named(topic.name) is not None) == (code in (None, "TOPIC_ALREADY_EXISTS"))


def test_a_topic_is_one_record_and_its_configs() -> None:
    """Followers see nothing but these records."""
    on = cluster(1)
    before = len(on.records)
    topic = new_topic("t", 2, configs=[ConfigValue(key="retention.ms", value="5")])
    (reply,) = create(on, topic).topics
    assert (reply.topic_id, reply.partition_count, reply.replication_factor) == (topic_id("t"), 2, 1)
    made = on.records[before:-1]  # the last one remembers the request
    assert made == [
        NewTopicRecord(
            topic_id=topic_id("t"), name="t", replication_factor=1, replicas=bytes.fromhex("00000001 00000001")
        ),
        ConfigRecord(resource_type=2, resource_name="t", key="retention.ms", value="5"),
    ]


def test_a_topic_with_a_replica_on_a_fenced_broker_is_a_record_for_each_partition() -> None:
    """Its ISR is not all its replicas, which the short form cannot say."""
    on = cluster(2, fenced=[2])
    before = len(on.records)
    (reply,) = create(on, new_topic("t", 1, 2)).topics
    assert reply.error_code == 0, reply.error_message
    assert on.records[before:-1] == [
        TopicRecord(topic_id=topic_id("t"), name="t"),
        PartitionRecord(
            topic_id=topic_id("t"), index=0, leader=1, leader_epoch=0, partition_epoch=0, replicas=[1, 2], isr=[1]
        ),
    ]


def test_the_topics_of_a_command_stand_alone() -> None:
    """One bad name in a request of a hundred must not cost the other ninety-nine."""
    on = cluster(1)
    reply = create(on, new_topic("a"), new_topic("b b"), new_topic("twice"), new_topic("c"), new_topic("twice"))
    codes = {topic.name: ErrorCode.of(topic.error_code).name for topic in reply.topics}
    assert codes == {"a": "NONE", "b b": "INVALID_TOPIC_EXCEPTION", "twice": "INVALID_REQUEST", "c": "NONE"}
    assert sorted(topic.name for topic in on.image.all_topics()) == ["a", "c"]


def test_lookalikes_in_one_command_are_not_compared() -> None:
    """Kafka creates both; only an existing topic is a conflict."""
    on = cluster(1)
    reply = create(on, new_topic("c.b"), new_topic("c_b"))
    assert [topic.error_code for topic in reply.topics] == [0, 0]
    on.ask(DeleteTopics(topics=[TopicName(name="c.b")]))
    (again,) = create(on, new_topic("c.b")).topics
    assert again.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    on.ask(DeleteTopics(topics=[TopicName(name="c_b")]))
    (free,) = create(on, new_topic("c.b")).topics
    assert free.error_code == 0


def test_validating_answers_as_creating_would_and_makes_nothing() -> None:
    """`--validate-only` is only worth something if it says what would really happen."""
    on = cluster(2)
    (reply,) = create(on, new_topic("t", 3, 2), validate_only=True).topics
    assert (reply.error_code, reply.partition_count, reply.replication_factor) == (0, 3, 2)
    assert reply.topic_id == topic_id("t")  # Kafka shows one, too
    assert on.image.topic_named("t") is None


def test_a_request_for_too_many_partitions_is_refused_as_a_whole() -> None:
    """One request must not fill the metadata log; Kafka's bound is 10,000 partitions."""
    on = cluster(1)
    with pytest.raises(MetadataRefused) as refused:
        create(on, new_topic("a", 6000), new_topic("b", 6000))
    assert refused.value.error_code == ErrorCode.POLICY_VIOLATION
    assert len(on.image.topics) == 0
    (reply,) = create(on, new_topic("a", 10_000), validate_only=True).topics
    assert reply.error_code == 0


def test_two_topics_under_one_id_are_refused() -> None:
    """The id comes from another node, and a wrong one must cost that node its answer, not this one its life."""
    on = cluster(1)
    twins = [NewTopic(name=name, topic_id=b"i" * 16) for name in ("a", "b")]
    reply = create(on, *twins)
    assert [topic.error_code for topic in reply.topics] == [ErrorCode.INVALID_REQUEST] * 2
    create(on, new_topic("a"))
    (taken,) = create(on, NewTopic(name="b", topic_id=topic_id("a"))).topics
    assert taken.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_coordinators_topic_waits_for_as_many_live_brokers_as_replicas(name: str) -> None:
    """With fewer it would start under-replicated, and lose acknowledged commits with the first disk (KIP-115)."""
    rules = Rules(coordinator_topics={name: TopicShape(50, 3)})
    asked = CreateTopics(topics=[NewTopic(name=name, topic_id=b"c" * 16)])
    for live in (1, 2):
        on = cluster(3, fenced=range(live + 1, 4), rules=rules)
        (reply,) = on.ask(asked).topics
        assert reply.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert on.image.topic_named(name) is None
    on = cluster(3, rules=rules)
    (reply,) = on.ask(asked).topics
    assert (reply.error_code, reply.partition_count, reply.replication_factor) == (0, 50, 3)
    assert all(len(partition.isr) == 3 for partition in on.topic(name).partitions)


def test_a_users_own_factor_counts_for_a_coordinators_topic_too() -> None:
    """An operator who creates it decides its replication factor; the broker's setting is for automatic creation."""
    rules = Rules(coordinator_topics={"__consumer_offsets": TopicShape(50, 3)})
    on = cluster(1, rules=rules)
    (reply,) = create(on, new_topic("__consumer_offsets", 5, 1)).topics
    assert (reply.error_code, reply.partition_count, reply.replication_factor) == (0, 5, 1)


ZERO = bytes(16)
DELETIONS = [
    ([("t", ZERO)], ["NONE"]),
    ([(None, topic_id("t"))], ["NONE"]),
    ([("nope", ZERO)], ["UNKNOWN_TOPIC_OR_PARTITION"]),
    ([(None, b"1" * 16)], ["UNKNOWN_TOPIC_ID"]),
    ([(None, ZERO)], ["INVALID_REQUEST"]),
    ([("t", topic_id("t"))], ["INVALID_REQUEST"]),
    ([("t", ZERO), ("t", ZERO)], ["INVALID_REQUEST"]),
    ([("t", ZERO), (None, topic_id("t"))], ["INVALID_REQUEST", "INVALID_REQUEST"]),
    ([(None, topic_id("t")), (None, topic_id("t"))], ["INVALID_REQUEST", "INVALID_REQUEST"]),
    ([("t", ZERO), ("nope", ZERO)], ["NONE", "UNKNOWN_TOPIC_OR_PARTITION"]),
    ([("__cluster_metadata", ZERO)], ["UNKNOWN_TOPIC_OR_PARTITION"]),
]


@pytest.mark.parametrize(("asked", "codes"), DELETIONS)
def test_a_deletion_is_answered_per_topic(asked: list[tuple[str | None, bytes]], codes: list[str]) -> None:
    """A topic named twice is left alone: what its sender meant is not clear, and deleting cannot be undone."""
    on = cluster(1)
    create(on, new_topic("t"), new_topic("u"))
    reply = on.ask(DeleteTopics(topics=[TopicName(name=name, topic_id=at) for name, at in asked]))
    assert [ErrorCode.of(topic.error_code).name for topic in reply.topics] == codes
    assert (on.image.topic_named("t") is None) == ("NONE" in codes)
    assert on.image.topic_named("u") is not None


def test_a_deleted_topic_takes_its_configs_along() -> None:
    """A new topic of the same name must not inherit the retention of the old one."""
    on = cluster(1)
    create(on, configured(("retention.ms", "5")))
    on.ask(DeleteTopics(topics=[TopicName(name="t")]))
    assert RemoveTopicRecord(topic_id=topic_id("t")) in on.records
    create(on, new_topic("t"))
    assert dict(on.image.config(2, "t")) == {}
