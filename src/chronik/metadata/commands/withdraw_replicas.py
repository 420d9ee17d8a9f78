"""Removes replicas that cannot write records, such as on a full disk, from the ISR. Another replica takes over
leadership.

The replicas keep their records: if the ISR becomes smaller than min.insync.replicas, they stay eligible. A replica
without another live one in the ISR is not removed, because only it can still serve consumers.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.commands.report_lost_replicas import PartitionId
from chronik.metadata.decisions.broker_epochs import check_broker_epoch
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.records import MetadataRecord
from chronik.wire.notation import int32, int64


class WithdrawReplicasReply(Reply):
    pass


class WithdrawReplicas(ControllerCommand[WithdrawReplicasReply]):
    """A broker's replicas cannot take records for now. They leave the ISR if another live one is in it."""

    is_own_duty: ClassVar[bool] = True

    broker_id: int32
    broker_epoch: int64
    partitions: list[PartitionId]

    def decide(self, state: ControllerState) -> Decision[WithdrawReplicasReply]:
        """Skips partitions that are gone and those whose ISR no longer has the broker."""
        view, broker_id = state.view, self.broker_id
        check_broker_epoch(view, broker_id, self.broker_epoch)
        elections = Elections(view, state.rules)
        records: list[MetadataRecord] = []
        for topic_id, index in dict.fromkeys((asked.topic_id, asked.index) for asked in self.partitions):
            topic = view.topic(topic_id)
            partition = topic.partition(index) if topic is not None else None
            if topic is None or partition is None or broker_id not in partition.isr:
                continue
            others = [member for member in partition.isr if member != broker_id]
            record = elections.with_isr(topic, index, others) if elections.live.intersection(others) else None
            if record is not None:
                records.append(record)
        return Decision(records, WithdrawReplicasReply())
