"""Adds partitions to topics. Each topic of the command is decided alone."""

from __future__ import annotations

from collections import Counter

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.commands.create_topics import COORDINATOR_TOPICS
from chronik.metadata.decisions.assignments import (
    PARTITIONS_MAX_PER_COMMAND,
    check_assignment,
    new_partition,
    require_all_live,
)
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import View
from chronik.metadata.placement import Circle
from chronik.metadata.records import MetadataRecord, PartitionRecord
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from chronik.wire.notation import Struct, boolean, int16, int32, string

# Keys map to partitions by the partition count, and their coordinators do not move them.
PLACED_BY_COUNT = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


class CreatePartitionsReply(Reply):
    topics: list[GrownTopic]


class GrownTopic(Struct):
    name: string
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitions(ControllerCommand[CreatePartitionsReply]):
    topics: list[TopicGrowth]
    validate_only: boolean = False

    def decide(self, state: ControllerState) -> Decision[CreatePartitionsReply]:
        view = state.view
        times = Counter(topic.name for topic in self.topics)
        circle = Circle(view.brokers.values())
        records: list[MetadataRecord] = []
        replies: dict[str, GrownTopic] = {}
        for growth in self.topics:
            if growth.name in replies:
                continue
            reply = replies[growth.name] = GrownTopic(name=growth.name)
            try:
                if times[growth.name] > 1:
                    refuse(
                        ErrorCode.INVALID_REQUEST, f"topic {growth.name!r} is {times[growth.name]} times in the request"
                    )
                records += _grow(view, growth, circle, allowed=PARTITIONS_MAX_PER_COMMAND - len(records))
            except MetadataRefused as refused:
                reply.error_code, reply.error_message = refused.error_code, refused.message
        return Decision([] if self.validate_only else records, CreatePartitionsReply(topics=list(replies.values())))


class TopicGrowth(Struct):
    name: string
    partition_count: int32  # the new total, not the number to add
    assignments: list[ReplicaList] | None = None  # for the added ones, in order


class ReplicaList(Struct):
    broker_ids: list[int32]


def _grow(view: View, growth: TopicGrowth, circle: Circle, *, allowed: int) -> list[PartitionRecord]:
    topic = view.topic_named(growth.name)
    if topic is None:
        refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {growth.name!r} does not exist")
    count = len(topic.partitions)
    if growth.name in PLACED_BY_COUNT:
        refuse(
            ErrorCode.INVALID_PARTITIONS,
            f"topic {growth.name!r} keeps its {counted(count, 'partition')}: with another number its groups or "
            "transactional ids would belong to other partitions, and what is stored of them would not be found",
        )
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
