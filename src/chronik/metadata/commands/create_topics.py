"""Creates topics. Each topic of the command is decided alone: one bad name does not stop the others.

The checks run in Kafka's order: the command's size, duplicates, name, existence, configs, assignment, replication
factor, partition count, placement. As in Kafka, topics of one command are not checked for lookalikes among themselves.
A topic that holds coordinators' state is created only while enough brokers are live for all its replicas; any other
topic may be placed on fenced brokers too, which join its ISR when they are back.
"""

from __future__ import annotations

import re
from collections import Counter

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.assignments import (
    PARTITIONS_MAX_PER_COMMAND,
    check_assignment,
    new_partition,
    require_all_live,
)
from chronik.metadata.decisions.configs import check_topic_configs
from chronik.metadata.decisions.decision import ControllerState, Decision, Rules, TopicShape
from chronik.metadata.delta import lookalike
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ResourceType, View
from chronik.metadata.new_topics import Placement, fits, new_topic_record
from chronik.metadata.placement import Circle
from chronik.metadata.records import ConfigRecord, MetadataRecord, TopicRecord
from chronik.runtime.interfaces import Randomness
from chronik.runtime.invariants import broken
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from chronik.wire.notation import ZERO_UUID, Struct, boolean, int16, int32, string, uuid
from chronik.wire.uuids import uuid_text

NAME_CHARACTERS_MAX = 249  # leaves room for '-' and a partition number in a directory name of 255
COORDINATOR_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class CreateTopicsReply(Reply):
    topics: list[CreatedTopic]


class CreatedTopic(Struct):
    name: string
    topic_id: uuid = ZERO_UUID
    error_code: int16 = 0
    error_message: string | None = None
    partition_count: int32 = -1
    replication_factor: int16 = -1


class CreateTopics(ControllerCommand[CreateTopicsReply]):
    topics: list[NewTopic]
    validate_only: boolean = False

    def draw_ids(self, randomness: Randomness) -> None:
        for topic in self.topics:
            if topic.topic_id == ZERO_UUID:
                topic.topic_id = draw_topic_id(randomness)

    def decide(self, state: ControllerState) -> Decision[CreateTopicsReply]:
        view, rules = state.view, state.rules
        asked = sum([_partitions_asked(topic, rules) for topic in self.topics])
        if asked > PARTITIONS_MAX_PER_COMMAND:
            refuse(
                ErrorCode.POLICY_VIOLATION,
                f"{asked} partitions in one request, at most {PARTITIONS_MAX_PER_COMMAND} are allowed: send several",
            )
        times = Counter(topic.name for topic in self.topics)
        ids = Counter(topic.topic_id for topic in self.topics)
        circle = Circle(view.brokers.values())
        records: list[MetadataRecord] = []
        replies: dict[str, CreatedTopic] = {}
        for topic in self.topics:
            if topic.name in replies:
                continue
            try:
                if times[topic.name] > 1 or ids[topic.topic_id] > 1:
                    refuse(
                        ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is {times[topic.name]} times in the request"
                    )
                made, replies[topic.name] = create_topic(view, topic, rules, circle)
            except MetadataRefused as refused:
                replies[topic.name] = CreatedTopic(
                    name=topic.name, error_code=refused.error_code, error_message=refused.message
                )
            else:
                records += made
        return Decision([] if self.validate_only else records, CreateTopicsReply(topics=list(replies.values())))


class NewTopic(Struct):
    name: string
    topic_id: uuid = ZERO_UUID  # the store generates one
    partition_count: int32 = -1  # the cluster's default
    replication_factor: int16 = -1  # the cluster's default
    assignments: list[PartitionReplicas] = []  # noqa: RUF012 - the notation makes a new list each time
    configs: list[ConfigValue] = []  # noqa: RUF012


class PartitionReplicas(Struct):
    index: int32
    broker_ids: list[int32]


class ConfigValue(Struct):
    key: string
    value: string | None


def draw_topic_id(randomness: Randomness) -> bytes:
    """16 random bytes that do not start with '-' in base64, as in Kafka: a command line would read that as an
    option."""
    while (drawn := randomness.bytes(16)) == ZERO_UUID or drawn[0] >> 2 == 62:
        pass
    return drawn


def draw_cluster_id(randomness: Randomness) -> str:
    """In Kafka's format: 16 bytes in base64 for URLs, without padding."""
    return uuid_text(draw_topic_id(randomness))


def create_topic(
    view: View, topic: NewTopic, rules: Rules, circle: Circle
) -> tuple[list[MetadataRecord], CreatedTopic]:
    """Decides one topic. Its id comes with the command, so the same log gives the same cluster."""
    name, topic_id = topic.name, topic.topic_id
    check_topic_name(view, name)
    if existing := view.topic_named(name):
        refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists, id {uuid_text(existing.topic_id)}")
    if topic_id == ZERO_UUID or view.topic(topic_id) is not None:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {name!r} comes without an id of its own: {uuid_text(topic_id)}")
    configs = _configs_of(topic)
    if configs:
        check_topic_configs(view, configs, rules)
    placed = _manual(view, topic) if topic.assignments else _automatic(topic, rules, circle)
    if name in COORDINATOR_TOPICS:
        require_all_live(name, placed, circle)
    if len({len(replicas) for replicas in placed}) != 1:
        broken("29 partitions of a new topic have as many replicas each", topic=name, placed=placed)
    records = _records_of_new(topic_id, name, placed, circle)
    for key, value in configs.items():
        records.append(ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, key=key, value=value))
    reply = CreatedTopic(name=name, topic_id=topic_id, partition_count=len(placed), replication_factor=len(placed[0]))
    return records, reply


def check_topic_name(view: View, name: str) -> None:
    if name == METADATA_TOPIC:
        refuse(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is reserved for the metadata quorum")
    if reason := why_not_a_topic_name(name):
        refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    alike = lookalike(name)
    others = [other for other in view.lookalikes.get(alike) or () if other != name] if alike else []
    if others:
        refuse(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with existing topic {others[0]!r}: metrics show '.' as '_'",
        )


def why_not_a_topic_name(name: str) -> str | None:
    """Why the topic name is invalid; None for a valid one."""
    if not name:
        return "a topic's name is not empty"
    if name in (".", ".."):
        return f"invalid topic name {name!r}"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"topic name {name[:20]!r}... has {len(name)} characters: at most {NAME_CHARACTERS_MAX} are allowed"
    if _LEGAL_NAME.fullmatch(name) is None:
        return f"invalid topic name {name!r}: use ASCII letters, digits, '.', '_' and '-'"
    return None


def _records_of_new(topic_id: bytes, name: str, placed: Placement, circle: Circle) -> list[MetadataRecord]:
    if circle.are_live(placed) and fits(placed):
        return [new_topic_record(topic_id, name, placed)]
    partitions = [new_partition(topic_id, index, replicas, circle.rack_of) for index, replicas in enumerate(placed)]
    return [TopicRecord(topic_id=topic_id, name=name), *partitions]


def _partitions_asked(topic: NewTopic, rules: Rules) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        _default_shape(topic, rules).partition_count if topic.partition_count == -1 else max(topic.partition_count, 0)
    )


def _default_shape(topic: NewTopic, rules: Rules) -> TopicShape:
    return rules.coordinator_topics.get(topic.name, rules.topic_default)


def _configs_of(topic: NewTopic) -> dict[str, str]:
    for config in topic.configs:
        if config.value is None:
            refuse(ErrorCode.INVALID_CONFIG, f"{config.key} has no value: omit it to use the default")
    return {config.key: config.value for config in topic.configs if config.value is not None}


def _manual(view: View, topic: NewTopic) -> Placement:
    for number, name in ((topic.replication_factor, "replication factor"), (topic.partition_count, "partition count")):
        if number != -1:
            refuse(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic.name!r} has both replica assignments and a {name} of {number}: use -1 with assignments",
            )
    placed: dict[int, list[int]] = {}
    for assignment in topic.assignments:
        if assignment.index in placed:
            refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.index} of {topic.name!r} is assigned more than once",
            )
        expected = len(next(iter(placed.values()))) if placed else None
        check_assignment(view, assignment.broker_ids, replication_factor=expected)
        placed[assignment.index] = assignment.broker_ids
    if set(placed) != set(range(len(placed))):
        refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"partitions of {topic.name!r} are numbered from 0 without gaps, not {sorted(placed)}",
        )
    return tuple([tuple(placed[index]) for index in range(len(placed))])


def _automatic(topic: NewTopic, rules: Rules, circle: Circle) -> Placement:
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"invalid replication factor {topic.replication_factor}: use 1 or more, or -1 for the default",
        )
    if topic.partition_count == 0 or topic.partition_count < -1:
        refuse(
            ErrorCode.INVALID_PARTITIONS,
            f"invalid number of partitions {topic.partition_count}: use 1 or more, or -1 for the default",
        )
    partition_count, replication_factor = topic.partition_count, topic.replication_factor
    if partition_count == -1 or replication_factor == -1:
        default = _default_shape(topic, rules)
        partition_count = default.partition_count if partition_count == -1 else partition_count
        replication_factor = default.replication_factor if replication_factor == -1 else replication_factor
    return circle.place(partition_count=partition_count, replication_factor=replication_factor, seed=topic.topic_id)
