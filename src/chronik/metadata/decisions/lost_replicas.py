"""A broker's replicas that lack what they acknowledged: they leave ISR and ELR at once, before anybody relies on them.

The leader epoch rises even where the leader stays, and where the replica is in neither: its leader may be about to take
it in. What the replica said of itself in the old epoch counts no longer, so it cannot come into the ISR before it has
named where it stands now.

A replica that is the last one in ISR and ELR stays: no other is known to have more. Its broker hears of that.

If others are in ISR or ELR and none of them is live, the partition waits for one. Where unclean elections are allowed
it does not wait: the lost replica stays, as if it were the last copy. It lacks little. A live replica that was out of
sync may lack much, and electing that one would give up what all others have. Nothing is truncated meanwhile: when one
of the others is back, the next report of the lost replica makes that one the leader.
"""

from __future__ import annotations

from chronik.metadata.commands import PartitionId, ReportLostReplicas, ReportLostReplicasReply
from chronik.metadata.decisions.brokers import check_broker_epoch
from chronik.metadata.decisions.decision import Decision, Rules
from chronik.metadata.decisions.elections import Elections
from chronik.metadata.image import View
from chronik.metadata.records import Record


def report_lost_replicas(view: View, command: ReportLostReplicas, rules: Rules) -> Decision[ReportLostReplicasReply]:
    """A partition that is gone, or of which the broker is no member any more, needs nothing."""
    broker_id = command.broker_id
    check_broker_epoch(view, broker_id, command.broker_epoch)
    elections = Elections(view, rules, gone=broker_id)  # it may not lead, not even by an unclean election
    records: list[Record] = []
    last_copies: list[PartitionId] = []
    for each in dict.fromkeys((asked.topic_id, asked.index) for asked in command.partitions):
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
