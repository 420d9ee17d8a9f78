"""Removes a broker's replicas that lost acknowledged records from ISR and ELR, before any node relies on them.

The leader epoch increases even if the leader stays, and even if the replica is in neither set: its leader may be about
to add it. Reports from the old epoch no longer count, so the replica cannot join the ISR before it has reported its
current end offset.

The last replica in ISR and ELR stays: no other is known to have more. The reply tells its broker.

If others are in ISR or ELR but none is live, the partition waits for one. If unclean elections are allowed, it does not
wait: the lost replica stays, as if it were the last copy. It lacks little, while a live replica that was out of sync
may lack much, and electing that one would discard everything the others have. Nothing is truncated meanwhile: when one
of the others is back, the lost replica's next report makes it the leader.
"""

from __future__ import annotations

from typing import ClassVar

from chronik.metadata.commands.command import ControllerCommand, Reply
from chronik.metadata.decisions.broker_epochs import check_broker_epoch
from chronik.metadata.decisions.decision import ControllerState, Decision
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.records import MetadataRecord
from chronik.wire.notation import Struct, int32, int64, uuid


class ReportLostReplicasReply(Reply):
    last_copies: list[PartitionId]  # no other replica is known to have more: unchanged


class ReportLostReplicas(ControllerCommand[ReportLostReplicasReply]):
    """A broker reports that some of its replicas lost acknowledged records. They leave the ISR."""

    is_own_duty: ClassVar[bool] = True

    broker_id: int32
    broker_epoch: int64
    partitions: list[PartitionId]

    def decide(self, state: ControllerState) -> Decision[ReportLostReplicasReply]:
        """Deleted partitions, and partitions without a replica on this broker, need nothing."""
        view, rules = state.view, state.rules
        broker_id = self.broker_id
        check_broker_epoch(view, broker_id, self.broker_epoch)
        elections = Elections(view, rules, gone=broker_id)  # it may not lead, even by an unclean election
        records: list[MetadataRecord] = []
        last_copies: list[PartitionId] = []
        for each in dict.fromkeys((asked.topic_id, asked.index) for asked in self.partitions):
            topic = view.topic(each[0])
            partition = topic.partition(each[1]) if topic is not None else None
            if topic is None or partition is None:
                continue
            trusted = {*partition.isr, *partition.elr}
            others_live = elections.live & (trusted - {broker_id})
            if broker_id in trusted and not others_live and (len(trusted) == 1 or elections.unclean_is_allowed(topic)):
                last_copies.append(PartitionId(topic_id=each[0], index=each[1]))
            elif trusted and broker_id in partition.replicas:
                records.append(elections.without_lost(topic, each[1], broker_id))
        return Decision(records, ReportLostReplicasReply(last_copies=last_copies))


class PartitionId(Struct):
    topic_id: uuid
    index: int32
