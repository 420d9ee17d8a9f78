"""Moves replicas of partitions to other brokers, or cancels such a move.

A move is a target. The replicas to add are added at once, at the places that the target gives them. When all of them
are in sync, the replicas to remove are removed in the same change (`elections.Shape.completed`), and not before: until
then the partition has every copy that it started with. Cancelling removes the replicas that were to be added.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.assignments import check_assignment
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections, Shape
from chronik.metadata.decisions.partition_changes import attempt
from chronik.metadata.errors import refuse
from chronik.metadata.image import Partition, Topic
from chronik.metadata.records import MetadataRecord, PartitionChangeRecord
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, boolean, int16, int32, string


class AlterReassignmentsReply(Reply):
    topics: list[AlteredReassignments]


class AlteredReassignments(Struct):
    name: string
    partitions: list[AlteredReassignment]


class AlteredReassignment(Struct):
    index: int32
    error_code: int16 = 0
    error_message: string | None = None


class AlterReassignments(ControllerCommand[AlterReassignmentsReply]):
    """Moves replicas of partitions, or cancels such a move."""

    topics: list[ReassignedTopic]
    allows_other_factor: boolean = True  # whether the replication factor may change

    def decide(self, state: ControllerState) -> Decision[AlterReassignmentsReply]:
        view, rules = state.view, state.rules
        elections = Elections(view, rules)
        times = Counter((topic.name, each.index) for topic in self.topics for each in topic.partitions)
        records: list[MetadataRecord] = []
        topics = []
        for asked in self.topics:
            reply = AlteredReassignments(name=asked.name, partitions=[])
            for wanted in asked.partitions:
                move = partial(
                    _move,
                    elections,
                    target=wanted.replicas,
                    is_repeated=times[asked.name, wanted.index] > 1,
                    keeps_factor=not self.allows_other_factor,
                )
                answer = AlteredReassignment(index=wanted.index)
                answer.error_code, answer.error_message = attempt(view, asked.name, wanted.index, move, records)
                reply.partitions.append(answer)
            topics.append(reply)
        return Decision(records, AlterReassignmentsReply(topics=topics), divisible=True)


class ReassignedTopic(Struct):
    name: string
    partitions: list[Reassignment]


class Reassignment(Struct):
    index: int32
    replicas: list[int32] | None  # the preferred leader first; null cancels the move


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
    # Replicas that an earlier reassignment was adding and that are not in the new target are removed at once, unless
    # no other replica is in sync.
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
