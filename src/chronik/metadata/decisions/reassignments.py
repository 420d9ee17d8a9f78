"""What operators do to partitions: move their replicas to other brokers, call that off, elect leaders now.

A move is a target. The replicas to come are added at once, at the places the target gives them; when all of them are in
sync the replicas to go are taken away in the same change (`elections.Shape.completed`), and not before: until then the
partition has every copy that it started with. Calling it off takes away whoever was to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

from chronik.metadata.commands import (
    PREFERRED,
    UNCLEAN,
    AlteredReassignment,
    AlteredReassignments,
    AlterReassignments,
    AlterReassignmentsReply,
    ElectedPartition,
    ElectedTopic,
    ElectLeaders,
    ElectLeadersReply,
)
from chronik.metadata.decisions.assignments import check_assignment
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.elections import Elections, Shape
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import NO_LEADER, Partition, Topic, View
from chronik.metadata.records import PartitionChangeRecord, Record
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode

Change = Callable[[Topic, int, Partition], PartitionChangeRecord | None]


def alter_reassignments(view: View, command: AlterReassignments, rules: Rules) -> Decision[AlterReassignmentsReply]:
    elections = Elections(view, rules)
    times = Counter((topic.name, each.index) for topic in command.topics for each in topic.partitions)
    records: list[Record] = []
    topics = []
    for asked in command.topics:
        reply = AlteredReassignments(name=asked.name, partitions=[])
        for wanted in asked.partitions:
            move = partial(
                _move,
                elections,
                target=wanted.replicas,
                is_repeated=times[asked.name, wanted.index] > 1,
                keeps_factor=not command.allows_other_factor,
            )
            answer = AlteredReassignment(index=wanted.index)
            answer.error_code, answer.error_message = _attempt(view, asked.name, wanted.index, move, records)
            reply.partitions.append(answer)
        topics.append(reply)
    return Decision(records, AlterReassignmentsReply(topics=topics), divisible=True)


def _move(
    elections: Elections,
    topic: Topic,
    index: int,
    before: Partition,
    *,
    target: list[int] | None,
    is_repeated: bool,
    keeps_factor: bool,
) -> PartitionChangeRecord | None:
    if is_repeated:
        refuse(ErrorCode.INVALID_REQUEST, f"{topic.name}-{index} is in the request more than once")
    if target is None:
        return _called_off(elections, topic, index, before)
    check_assignment(elections.view, target, needs_leader=False)
    settled = [each for each in before.replicas if each not in before.adding]
    if keeps_factor and len(target) != len(settled):
        refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{topic.name}-{index} has {counted(len(settled), 'replica')}, the target {len(target)}: give as many, or "
            "allow a change of the replication factor",
        )
    # Whoever was to come by an earlier move and is wanted no more goes at once, unless nobody else is in sync.
    removing = [each for each in settled if each not in target]
    unwanted = [each for each in before.adding if each not in target]
    isr = [each for each in before.isr if each not in unwanted]
    if not isr:
        removing += unwanted
    adding = [each for each in target if each not in settled]
    check(
        not set(target) & set(removing) and set(adding) <= set(target),
        "29 a reassignment brings a replica or takes it away",
        topic=topic.name,
        index=index,
        target=target,
        removing=removing,
    )
    return elections.change(topic, index, Shape([*target, *removing], adding, removing), isr)


def _called_off(elections: Elections, topic: Topic, index: int, before: Partition) -> PartitionChangeRecord | None:
    if not before.is_reassigning:
        refuse(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{topic.name}-{index} has no reassignment in progress")
    replicas = [each for each in before.replicas if each not in before.adding]
    isr = [each for each in before.isr if each not in before.adding]
    if not isr and not elections.unclean_is_allowed(topic):
        refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"of {topic.name}-{index} only replicas that are to come are in sync: without them records would be lost; "
            "let the move end, or set unclean.leader.election.enable on the topic",
        )
    check(len(replicas) > 0, "29 a partition has replicas", topic=topic.name, index=index, before=before)
    return elections.change(topic, index, Shape(replicas), isr or replicas[:1])


def elect_leaders(view: View, command: ElectLeaders, rules: Rules) -> Decision[ElectLeadersReply]:
    if command.election_type not in (PREFERRED, UNCLEAN):
        refuse(ErrorCode.INVALID_REQUEST, f"election type {command.election_type} is unknown: 0 preferred, 1 unclean")
    elections = Elections(view, rules)
    unclean = command.election_type == UNCLEAN

    def elect(topic: Topic, index: int, before: Partition) -> PartitionChangeRecord | None:
        return _elected(elections, topic, index, before, unclean=unclean)

    records: list[Record] = []
    topics = []
    for name, indexes in _asked(view, command):
        partitions = []
        for index in indexes:
            error, message = _attempt(view, name, index, elect, records)
            if command.topics is not None or error != ErrorCode.ELECTION_NOT_NEEDED:
                partitions.append(ElectedPartition(index=index, error_code=error, error_message=message))
        topics.append(ElectedTopic(name=name, partitions=partitions))
    return Decision(records, ElectLeadersReply(topics=topics), divisible=True)


def _asked(view: View, command: ElectLeaders) -> Iterable[tuple[str, Iterable[int]]]:
    if command.topics is None:
        return ((topic.name, range(len(topic.partitions))) for topic in view.all_topics())
    merged: dict[str, dict[int, None]] = {}
    for asked in command.topics:
        merged.setdefault(asked.name, {}).update(dict.fromkeys(asked.partitions))
    return merged.items()


def _elected(
    elections: Elections, topic: Topic, index: int, before: Partition, *, unclean: bool
) -> PartitionChangeRecord | None:
    name = f"{topic.name}-{index}"
    if before.leader != NO_LEADER and (unclean or before.leader == before.replicas[0]):
        refuse(ErrorCode.ELECTION_NOT_NEEDED, f"{name} is already led by its preferred leader {before.leader}")
    shape = Shape(before.replicas, before.adding, before.removing)
    change = elections.change(topic, index, shape, before.isr, prefers_first=not unclean, allows_unclean=unclean)
    if unclean and (change is None or change.leader == NO_LEADER):
        refuse(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {name} is live: {list(before.replicas)}")
    if not unclean and (change is None or change.leader != before.replicas[0]):
        refuse(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"broker {before.replicas[0]}, the preferred leader of {name}, is not live or not in sync",
        )
    return change


def _attempt(view: View, name: str, index: int, change: Change, records: list[Record]) -> tuple[ErrorCode, str | None]:
    """Adds what changes one partition to `records`; the code and the words of the answer."""
    try:
        topic = view.topic_named(name)
        if topic is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        before = topic.partition(index)
        if before is None:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name!r} has no partition {index}")
        record = change(topic, index, before)
    except MetadataRefused as refused:
        return refused.error_code, refused.message
    if record is not None:
        records.append(record)
    return ErrorCode.NONE, None
