"""Creating and deleting topics. Each topic of a command is decided alone: one bad name does not stop the others.

Order of the checks, as Kafka's: the command's size, duplicates, name, existence, configs, assignment, replication
factor, partition count, placement. Topics of one command are not compared with each other for lookalikes, as in Kafka.
A topic that holds the coordinators' state is made only while as many brokers are live as it shall have replicas; any
other topic may be placed on fenced brokers too, which join its ISR when they are back.
"""

from __future__ import annotations

import re
from collections import Counter

from chronik.metadata.commands import (
    CreatedTopic,
    CreateTopics,
    CreateTopicsReply,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    NewTopic,
    TopicName,
)
from chronik.metadata.decisions.assignments import check_assignment, new_partition
from chronik.metadata.decisions.configs import check_topic_configs
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.delta import lookalike
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ResourceType, Topic, View
from chronik.metadata.new_topics import Placement, fits, new_topic_record
from chronik.metadata.placement import Circle
from chronik.metadata.records import ConfigRecord, Record, RemoveTopicRecord, TopicRecord
from chronik.runtime.invariants import broken, check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import ZERO_UUID
from chronik.wire.uuids import uuid_text

NAME_CHARACTERS_MAX = 249  # a directory is named after it, with '-' and a partition number, within 255
PARTITIONS_MAX_PER_COMMAND = 10_000  # Kafka's bound; one batch of records stays under a few megabytes

COORDINATOR_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
METADATA_TOPIC = "__cluster_metadata"

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def create_topics(view: View, command: CreateTopics, rules: Rules) -> Decision[CreateTopicsReply]:
    asked = sum([_partitions_asked(topic, rules) for topic in command.topics])
    if asked > PARTITIONS_MAX_PER_COMMAND:
        refuse(
            ErrorCode.POLICY_VIOLATION,
            f"{asked} partitions in one request, at most {PARTITIONS_MAX_PER_COMMAND} are allowed: send several",
        )
    times = Counter(topic.name for topic in command.topics)
    ids = Counter(topic.topic_id for topic in command.topics)
    circle = Circle(view.brokers.values())
    records: list[Record] = []
    replies: dict[str, CreatedTopic] = {}
    for topic in command.topics:
        if topic.name in replies:
            continue
        try:
            if times[topic.name] > 1 or ids[topic.topic_id] > 1:
                refuse(ErrorCode.INVALID_REQUEST, f"topic {topic.name!r} is {times[topic.name]} times in the request")
            made, replies[topic.name] = create_topic(view, topic, rules, circle)
        except MetadataRefused as refused:
            replies[topic.name] = CreatedTopic(
                name=topic.name, error_code=refused.error_code, error_message=refused.message
            )
        else:
            records += made
    return Decision([] if command.validate_only else records, CreateTopicsReply(topics=list(replies.values())))


def create_topic(view: View, topic: NewTopic, rules: Rules, circle: Circle) -> tuple[list[Record], CreatedTopic]:
    """Decides one topic. Its id comes with it, so the same log gives the same cluster."""
    name, topic_id = topic.name, topic.topic_id
    check_topic_name(view, name)
    if existing := view.topic_named(name):
        refuse(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists, id {uuid_text(existing.topic_id)}")
    if topic_id == ZERO_UUID or view.topic(topic_id) is not None:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {name!r} comes without an id of its own: {uuid_text(topic_id)}")
    configs = _configs_of(topic)
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


def _records_of_new(topic_id: bytes, name: str, placed: Placement, circle: Circle) -> list[Record]:
    if circle.are_live(placed) and fits(placed):
        return [new_topic_record(topic_id, name, placed)]
    partitions = [new_partition(topic_id, index, replicas, circle.rack_of) for index, replicas in enumerate(placed)]
    return [TopicRecord(topic_id=topic_id, name=name), *partitions]


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
    """The reason why a topic cannot be called so; None for a good name."""
    if not name:
        return "a topic's name is not empty"
    if name in (".", ".."):
        return f"invalid topic name {name!r}"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"topic name {name[:20]!r}... has {len(name)} characters: at most {NAME_CHARACTERS_MAX} are allowed"
    if _LEGAL_NAME.fullmatch(name) is None:
        return f"invalid topic name {name!r}: use ASCII letters, digits, '.', '_' and '-'"
    return None


def delete_topics(view: View, command: DeleteTopics) -> Decision[DeleteTopicsReply]:
    """A topic named twice, by name, by id or by both, is not deleted: the request is not what its sender meant."""
    found = [_topic_at(view, asked) for asked in command.topics]
    times_named = Counter(asked.name for asked in command.topics if asked.name is not None)
    times_found = Counter(topic.topic_id for topic in found if topic is not None)
    records: list[Record] = []
    replies: list[DeletedTopic] = []
    repeated: set[str] = set()
    for asked, topic in zip(command.topics, found, strict=True):
        if asked.name is not None and times_named[asked.name] > 1:
            if asked.name in repeated:
                continue
            repeated.add(asked.name)
        reply = DeletedTopic(name=asked.name, topic_id=asked.topic_id)
        replies.append(reply)
        try:
            removed = _removable(asked, topic, times_named, times_found)
        except MetadataRefused as refused:
            reply.error_code, reply.error_message = refused.error_code, refused.message
        else:
            reply.name, reply.topic_id = removed.name, removed.topic_id
            records.append(RemoveTopicRecord(topic_id=removed.topic_id))
    check(
        len(records) == sum(not reply.error_code for reply in replies),
        "5 what is answered is what was decided",
        removed=len(records),
        answers=len(replies),
    )
    return Decision(records, DeleteTopicsReply(topics=replies))


def _topic_at(view: View, asked: TopicName) -> Topic | None:
    return view.topic(asked.topic_id) if asked.name is None else view.topic_named(asked.name)


def _removable(asked: TopicName, topic: Topic | None, times_named: Counter[str], times_found: Counter[bytes]) -> Topic:
    by_id = asked.topic_id != ZERO_UUID
    if asked.name is None and not by_id:
        refuse(ErrorCode.INVALID_REQUEST, "a topic to delete needs a name or an id")
    if asked.name is not None and by_id:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is given by name and by id: give one of them")
    if asked.name is not None and times_named[asked.name] > 1:
        refuse(ErrorCode.INVALID_REQUEST, f"topic {asked.name!r} is {times_named[asked.name]} times in the request")
    if topic is None:
        if asked.name is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_ID, f"unknown topic id {uuid_text(asked.topic_id)}")
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {asked.name!r} does not exist")
    if times_found[topic.topic_id] > 1:
        refuse(
            ErrorCode.INVALID_REQUEST, f"topic {topic.name!r}, id {uuid_text(topic.topic_id)}, is in the request twice"
        )
    return topic


def _partitions_asked(topic: NewTopic, rules: Rules) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return rules.shape_of(topic.name).partition_count if topic.partition_count == -1 else max(topic.partition_count, 0)


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
    default = rules.shape_of(topic.name)
    return circle.place(
        partition_count=default.partition_count if topic.partition_count == -1 else topic.partition_count,
        replication_factor=default.replication_factor if topic.replication_factor == -1 else topic.replication_factor,
        seed=topic.topic_id,
    )


def require_all_live(name: str, placed: Placement, circle: Circle) -> None:
    """A coordinator that began with too few replicas would lose commits that it acknowledged."""
    if not circle.are_live(placed):
        refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name} needs {len(placed[0])} replicas: it is created when as many brokers are alive",
        )
