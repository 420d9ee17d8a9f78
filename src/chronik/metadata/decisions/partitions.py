"""Adding partitions to topics, and changes of their ISR that their leaders ask for.

A leader's view may be old. Each change names the epochs it was made in, and one from the past is refused, so that two
leaders of one partition can never both shrink or grow its ISR (RELIABILITY of a write depends on it).
"""

from __future__ import annotations

from collections import Counter

from chronik.metadata.commands import (
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReply,
    CreatePartitions,
    CreatePartitionsReply,
    GrownTopic,
    NewIsr,
    TopicGrowth,
)
from chronik.metadata.decisions.assignments import check_assignment, new_partition
from chronik.metadata.decisions.brokers import check_broker_epoch
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.decisions.topics import COORDINATOR_TOPICS, PARTITIONS_MAX_PER_COMMAND, require_all_live
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import Topic, View
from chronik.metadata.placement import Circle
from chronik.metadata.records import PartitionRecord, Record
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode


def create_partitions(view: View, command: CreatePartitions) -> Decision[CreatePartitionsReply]:
    times = Counter(topic.name for topic in command.topics)
    circle = Circle(view.brokers.values())
    records: list[Record] = []
    replies: dict[str, GrownTopic] = {}
    for growth in command.topics:
        if growth.name in replies:
            continue
        reply = replies[growth.name] = GrownTopic(name=growth.name)
        try:
            if times[growth.name] > 1:
                refuse(ErrorCode.INVALID_REQUEST, f"topic {growth.name!r} is {times[growth.name]} times in the request")
            records += _grow(view, growth, circle, allowed=PARTITIONS_MAX_PER_COMMAND - len(records))
        except MetadataRefused as refused:
            reply.error_code, reply.error_message = refused.error_code, refused.message
    return Decision([] if command.validate_only else records, CreatePartitionsReply(topics=list(replies.values())))


def _grow(view: View, growth: TopicGrowth, circle: Circle, *, allowed: int) -> list[PartitionRecord]:
    topic = view.topic_named(growth.name)
    if topic is None:
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {growth.name!r} does not exist")
    count = len(topic.partitions)
    if growth.partition_count <= count:
        refuse(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {growth.name!r} has {counted(count, 'partition')}; {growth.partition_count} is not more",
        )
    additional = growth.partition_count - count
    if additional > allowed:
        refuse(
            ErrorCode.POLICY_VIOLATION,
            f"{additional} new partitions are too many, {PARTITIONS_MAX_PER_COMMAND} are allowed in one request",
        )
    first = topic.partitions[0]
    replication_factor = len(first.replicas) - len(first.removing)
    if growth.assignments is None:
        placed = circle.place(
            partition_count=additional,
            replication_factor=replication_factor,
            seed=topic.topic_id,
            first_index=count,
        )
    else:
        if len(growth.assignments) != additional:
            refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partitions are to be added to {growth.name!r}, replicas are given for "
                f"{len(growth.assignments)}",
            )
        placed = tuple([tuple(assignment.broker_ids) for assignment in growth.assignments])
        for broker_ids in placed:
            check_assignment(view, broker_ids, replication_factor=replication_factor)
    check(
        count + len(placed) == growth.partition_count,
        "29 a topic grows to as many partitions as were asked for",
        topic=growth.name,
        before=count,
        added=len(placed),
    )
    if growth.name in COORDINATOR_TOPICS:
        require_all_live(growth.name, placed, circle)
    return [new_partition(topic.topic_id, count + at, replicas, circle.rack_of) for at, replicas in enumerate(placed)]


def alter_partition(view: View, command: AlterPartition, rules: Rules) -> Decision[AlterPartitionReply]:
    check_broker_epoch(view, command.broker_id, command.broker_epoch)
    elections = Elections(view, rules)
    records: list[Record] = []
    topics = []
    times = Counter((asked.topic_id, change.index) for asked in command.topics for change in asked.partitions)
    for asked in command.topics:
        topic = view.topic(asked.topic_id)
        partitions = []
        for change in asked.partitions:
            reply = AlteredPartition(index=change.index)
            partitions.append(reply)
            try:
                if times[asked.topic_id, change.index] > 1:
                    refuse(ErrorCode.INVALID_REQUEST, "one change of a partition at a time")
                found = _changeable(view, topic, change, command.broker_id)
            except MetadataRefused as refused:
                reply.error_code = refused.error_code
                continue
            record = elections.with_isr(found, change.index, [member.broker_id for member in change.isr])
            if record is not None:
                records.append(record)
            after = record or found.partitions[change.index]
            reply.leader, reply.leader_epoch = after.leader, after.leader_epoch
            reply.partition_epoch, reply.isr = after.partition_epoch, list(after.isr)
        topics.append(AlteredTopic(topic_id=asked.topic_id, partitions=partitions))
    return Decision(records, AlterPartitionReply(topics=topics))


def _changeable(view: View, topic: Topic | None, change: NewIsr, broker_id: int) -> Topic:
    """The checks run in Kafka's order: a leader learns first that it is deposed, then that it is late."""
    if topic is None:
        refuse(ErrorCode.UNKNOWN_TOPIC_ID, "unknown topic id")
    before = topic.partition(change.index)
    if before is None:
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name!r} has no partition {change.index}")
    # A leader whose image is ahead of this controller's must ask the newer controller.
    if change.leader_epoch > before.leader_epoch or change.partition_epoch > before.partition_epoch:
        refuse(ErrorCode.NOT_CONTROLLER, f"{topic.name}-{change.index} is in a later epoch than this controller knows")
    if change.leader_epoch < before.leader_epoch:
        refuse(ErrorCode.FENCED_LEADER_EPOCH, f"{topic.name}-{change.index} is in leader epoch {before.leader_epoch}")
    if broker_id != before.leader:
        refuse(ErrorCode.INVALID_REQUEST, f"{topic.name}-{change.index} is led by {before.leader}, not {broker_id}")
    if change.partition_epoch < before.partition_epoch:
        refuse(ErrorCode.INVALID_UPDATE_VERSION, f"{topic.name}-{change.index} is at {before.partition_epoch}")
    isr = [member.broker_id for member in change.isr]
    if not isr or len(set(isr)) < len(isr) or not set(isr) <= set(before.replicas):
        refuse(
            ErrorCode.INVALID_REQUEST,
            f"ISR {isr} is not a subset of replicas {list(before.replicas)}",
        )
    if before.leader not in isr:
        refuse(ErrorCode.INVALID_REQUEST, f"an ISR of {isr} lacks the leader {before.leader}")
    for member in change.isr:
        broker = view.brokers.get(member.broker_id)
        if broker is None or not broker.live or member.broker_epoch not in (-1, broker.epoch):
            refuse(
                ErrorCode.INELIGIBLE_REPLICA, f"broker {member.broker_id} is not live in epoch {member.broker_epoch}"
            )
    return topic
