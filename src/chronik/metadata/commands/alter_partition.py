"""Changes the ISR of partitions at their leaders' request.

A leader's view may be outdated. Each change names the epochs it was made in, and a change from an earlier epoch is
refused, so two leaders of one partition can never both shrink or grow its ISR. The durability of writes depends on
this.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.broker_epochs import check_broker_epoch
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import Topic, View
from chronik.metadata.records import MetadataRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Struct, int16, int32, int64, uuid


class AlterPartitionReply(Reply):
    topics: list[AlteredTopic]


class AlteredTopic(Struct):
    topic_id: uuid
    partitions: list[AlteredPartition]


class AlteredPartition(Struct):
    index: int32
    error_code: int16 = 0
    leader: int32 = -1
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    isr: list[int32] = []  # noqa: RUF012


class AlterPartition(ControllerCommand[AlterPartitionReply]):
    """A leader changes the ISR of its partitions."""

    is_own_duty: ClassVar[bool] = True

    broker_id: int32
    broker_epoch: int64
    topics: list[TopicIsrs]

    def decide(self, state: ControllerState) -> Decision[AlterPartitionReply]:
        view, rules = state.view, state.rules
        check_broker_epoch(view, self.broker_id, self.broker_epoch)
        elections = Elections(view, rules)
        records: list[MetadataRecord] = []
        topics = []
        times = Counter((asked.topic_id, change.index) for asked in self.topics for change in asked.partitions)
        for asked in self.topics:
            topic = view.topic(asked.topic_id)
            partitions = []
            for change in asked.partitions:
                reply = AlteredPartition(index=change.index)
                partitions.append(reply)
                try:
                    if times[asked.topic_id, change.index] > 1:
                        refuse(ErrorCode.INVALID_REQUEST, "one change of a partition at a time")
                    found = _changeable(view, topic, change, self.broker_id)
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


class TopicIsrs(Struct):
    topic_id: uuid
    partitions: list[NewIsr]


class NewIsr(Struct):
    index: int32
    leader_epoch: int32
    partition_epoch: int32
    isr: list[IsrMember]


class IsrMember(Struct):
    broker_id: int32
    broker_epoch: int64 = -1  # -1: not known to the leader


def _changeable(view: View, topic: Topic | None, change: NewIsr, broker_id: int) -> Topic:
    """Checks in Kafka's order: a leader learns first that it is deposed, then that its change is outdated."""
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
