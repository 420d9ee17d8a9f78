"""The only code that changes metadata: committed records, one by one, on leader, follower and recovery alike.

Replay decides nothing and forgives nothing. A record that does not fit the state is a bug of ours on some node, and a
node that went on would differ from the others: it stops. Nothing here reads a clock, a config file or randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from immutables import Map

from chronik.metadata.delta import Changes, Delta
from chronik.metadata.image import NO_LEADER, Applied, Broker, ConfigResource, Endpoint, FeatureRange, Image, Partition
from chronik.metadata.new_topics import begun
from chronik.metadata.records import (
    PARTITION,
    AppliedRequestRecord,
    BrokerChangeRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NewTopicRecord,
    PartitionChangeRecord,
    PartitionRecord,
    PartitionsChangeRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from chronik.runtime.invariants import check


def replay(delta: Delta, records: Iterable[Record]) -> None:
    """Writes one command's records into the delta, readable afterwards."""
    for record in records:
        REPLAYS[type(record)](delta, record)
    delta.seal()


def replay_onto(image: Image, version: int, records: Iterable[Record]) -> tuple[Image, Changes]:
    """The image after a committed batch, and what the batch changed."""
    delta = Delta(image)
    replay(delta, records)
    return delta.finish(version)


def _cluster(delta: Delta, record: ClusterRecord) -> None:
    check(delta.cluster_id in ("", record.cluster_id), "a cluster keeps its id")
    delta.cluster_id = record.cluster_id
    delta.broker_epoch_last = max(delta.broker_epoch_last, record.broker_epoch_last)


def _feature_level(delta: Delta, record: FeatureLevelRecord) -> None:
    delta.set_feature(record.name, record.level)


def _register_broker(delta: Delta, record: RegisterBrokerRecord) -> None:
    before = delta.brokers.get(record.broker_id)
    check(before is None or record.epoch > before.epoch, "a broker's epoch never goes back")
    delta.broker_epoch_last = max(delta.broker_epoch_last, record.epoch)
    delta.put_broker(
        Broker(
            broker_id=record.broker_id,
            epoch=record.epoch,
            incarnation_id=record.incarnation_id,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            rack=record.rack,
            endpoints=tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in record.endpoints),
            features={f.name: FeatureRange(f.level_min, f.level_max) for f in record.features},
            directory_ids=tuple(record.directory_ids),
        )
    )


def _broker_change(delta: Delta, record: BrokerChangeRecord) -> None:
    before = _broker_in_epoch(delta, record.broker_id, record.epoch)
    delta.put_broker(
        before._replace(fenced=record.fenced, in_controlled_shutdown=record.in_controlled_shutdown),
    )


def _unregister_broker(delta: Delta, record: UnregisterBrokerRecord) -> None:
    _broker_in_epoch(delta, record.broker_id, record.epoch)
    delta.remove_broker(record.broker_id)


def _broker_in_epoch(delta: Delta, broker_id: int, epoch: int) -> Broker:
    check(broker_id in delta.brokers, "only a registered broker changes")
    broker = delta.brokers[broker_id]
    check(broker.epoch == epoch, "a broker changes in the epoch it was decided for")
    return broker


def _topic(delta: Delta, record: TopicRecord) -> None:
    delta.add_topic(record.topic_id, record.name)


def _new_topic(delta: Delta, record: NewTopicRecord) -> None:
    delta.put_new_topic(begun(record))


def _partition(delta: Delta, record: PartitionRecord) -> None:
    partitions = delta.open_partitions(record.topic_id)
    check(record.index == len(partitions), "partitions are numbered without gaps")
    check(len(record.isr) > 0 or record.leader == NO_LEADER, "a leader is in its ISR")
    replicas = tuple(record.replicas)
    partitions.append(
        Partition(
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            replicas,
            replicas if record.isr == record.replicas else tuple(record.isr),  # one object for the usual case
            tuple(record.elr),
            tuple(record.last_known_elr),
            tuple(record.adding),
            tuple(record.removing),
        )
    )


def _partition_change(delta: Delta, record: PartitionChangeRecord) -> None:
    partitions = delta.open_partitions(record.topic_id)
    check(record.index < len(partitions), "only a known partition changes")
    before = partitions[record.index]
    replicas = before.replicas if record.replicas is None else tuple(record.replicas)
    isr = tuple(record.isr)
    after = Partition(
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        replicas,
        replicas if isr == replicas else isr,
        tuple(record.elr),
        tuple(record.last_known_elr),
        tuple(record.adding),
        tuple(record.removing),
    )
    _check_change(before, after)
    partitions[record.index] = after


def _partitions_change(delta: Delta, record: PartitionsChangeRecord) -> None:
    replicas, isr = tuple(record.replicas), tuple(record.isr)
    after = Partition(
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        replicas,
        replicas if isr == replicas else isr,
        tuple(record.elr),
        tuple(record.last_known_elr),
    )
    checked: Partition | None = None
    for topic_id, index in PARTITION.iter_unpack(record.partitions):
        partitions = delta.open_partitions(topic_id)
        check(0 <= index < len(partitions), "only a known partition changes")
        before = partitions[index]
        if before is not checked:  # most are one object
            check(before.replicas == replicas and not before.is_reassigning, "these partitions keep their replicas")
            _check_change(before, after)
            checked = before
        partitions[index] = after


def _check_change(before: Partition, after: Partition) -> None:
    check(after.partition_epoch == before.partition_epoch + 1, "every change is one partition epoch")
    check(after.leader_epoch >= before.leader_epoch, "a leader epoch never goes back")
    check(after.leader == before.leader or after.leader_epoch > before.leader_epoch, "a new leader has a new epoch")
    check(len(after.isr) > 0 or after.leader == NO_LEADER, "a leader is in its ISR")
    here = set(after.replicas)
    check(here.issuperset((*after.isr, *after.adding, *after.removing)), "only a replica is in sync, comes or goes")


def _remove_topic(delta: Delta, record: RemoveTopicRecord) -> None:
    delta.remove_topic(record.topic_id)


def _config(delta: Delta, record: ConfigRecord) -> None:
    delta.set_config(ConfigResource(record.resource_type, record.resource_name), record.key, record.value)


def _producer_ids(delta: Delta, record: ProducerIdsRecord) -> None:
    check(record.next_producer_id > delta.next_producer_id, "a producer id is given once")
    delta.next_producer_id = record.next_producer_id


def _applied_request(delta: Delta, record: AppliedRequestRecord) -> None:
    before = delta.applied.get(record.node_id)
    replies: Map[int, bytes] = Map()
    answered_below = record.answered_below
    if before is not None and before.incarnation == record.incarnation:
        check(record.sequence not in before.replies, "a request is applied once")
        answered_below = max(answered_below, before.answered_below)
        replies = before.replies
        if answered_below > before.answered_below:
            replies = Map({number: reply for number, reply in replies.items() if number >= answered_below})
    else:
        check(before is None or record.incarnation > before.incarnation, "a node's past does not come back")
    replies = replies.set(record.sequence, record.reply)
    delta.put_applied(record.node_id, Applied(record.incarnation, answered_below, replies))


REPLAYS: dict[type[Record], Callable[[Delta, Any], None]] = {
    ClusterRecord: _cluster,
    FeatureLevelRecord: _feature_level,
    RegisterBrokerRecord: _register_broker,
    BrokerChangeRecord: _broker_change,
    UnregisterBrokerRecord: _unregister_broker,
    TopicRecord: _topic,
    NewTopicRecord: _new_topic,
    PartitionRecord: _partition,
    PartitionChangeRecord: _partition_change,
    PartitionsChangeRecord: _partitions_change,
    RemoveTopicRecord: _remove_topic,
    ConfigRecord: _config,
    ProducerIdsRecord: _producer_ids,
    AppliedRequestRecord: _applied_request,
}
