"""The only code that changes metadata: it applies committed records one by one, on leader, follower and in recovery.

Replay decides nothing. A record that does not fit the state is a bug on some node, and a node that continued would
diverge from the others: it stops. Nothing here reads a clock, a config file or random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from immutables import Map

from chronik.metadata.access_records import rule_of
from chronik.metadata.delta import Changes, Delta
from chronik.metadata.image import (
    NO_LEADER,
    Applied,
    Broker,
    ConfigResource,
    DelegationToken,
    Endpoint,
    FeatureRange,
    Image,
    Partition,
    ScramCredential,
    ScramKey,
)
from chronik.metadata.new_topics import begun
from chronik.metadata.records import (
    PARTITION,
    AccessRuleRecord,
    AppliedRequestRecord,
    BrokerChangeRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NewTopicRecord,
    PartitionChangeRecord,
    PartitionRecord,
    PartitionsChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessRuleRecord,
    RemoveDelegationTokenRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from chronik.runtime.invariants import broken, check


def replay(delta: Delta, records: Iterable[MetadataRecord]) -> None:
    """Writes one command's records into the delta, and makes them readable."""
    for record in records:
        REPLAYS[type(record)](delta, record)
    delta.seal()


def replay_onto(image: Image, version: int, records: Iterable[MetadataRecord]) -> tuple[Image, Changes]:
    """The image after a committed batch, and the changes of the batch."""
    if version < image.version:
        broken("4 an image's version never goes back", before=image.version, now=version)
    delta = Delta(image)
    replay(delta, records)
    return delta.finish(version)


def _cluster(delta: Delta, record: ClusterRecord) -> None:
    check(
        delta.cluster_id in ("", record.cluster_id),
        "29 a cluster keeps its id",
        before=delta.cluster_id,
        now=record.cluster_id,
    )
    delta.cluster_id = record.cluster_id
    delta.broker_epoch_last = max(delta.broker_epoch_last, record.broker_epoch_last)


def _feature_level(delta: Delta, record: FeatureLevelRecord) -> None:
    delta.set_feature(record.name, record.level)


def _register_broker(delta: Delta, record: RegisterBrokerRecord) -> None:
    before = delta.brokers.get(record.broker_id)
    check(
        before is None or record.epoch > before.epoch,
        "15 a broker's epoch never goes back",
        broker=record.broker_id,
        before=before and before.epoch,
        now=record.epoch,
    )
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
    check(broker_id in delta.brokers, "29 only a registered broker changes", broker=broker_id)
    broker = delta.brokers[broker_id]
    check(
        broker.epoch == epoch,
        "15 a broker changes in the epoch it was decided for",
        broker=broker_id,
        epoch=broker.epoch,
        decided=epoch,
    )
    return broker


def _topic(delta: Delta, record: TopicRecord) -> None:
    delta.add_topic(record.topic_id, record.name)


def _new_topic(delta: Delta, record: NewTopicRecord) -> None:
    delta.put_new_topic(begun(record))


def _partition(delta: Delta, record: PartitionRecord) -> None:
    partitions = delta.open_partitions(record.topic_id)
    check(
        record.index == len(partitions),
        "29 partitions are numbered without gaps",
        topic=record.topic_id,
        index=record.index,
        count=len(partitions),
    )
    check(
        record.leader == NO_LEADER or record.leader in record.isr,
        "11 a leader is in its ISR",
        topic=record.topic_id,
        index=record.index,
        leader=record.leader,
        isr=record.isr,
    )
    check(
        set(record.isr) <= set(record.replicas) and len(set(record.replicas)) == len(record.replicas),
        "29 a partition's replicas are different brokers, and the ISR is made of them",
        topic=record.topic_id,
        index=record.index,
        replicas=record.replicas,
        isr=record.isr,
    )
    replicas = tuple(record.replicas)
    partitions.append(
        Partition(
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            replicas,
            replicas if record.isr == record.replicas else tuple(record.isr),  # shares one object in the usual case
            tuple(record.elr),
            tuple(record.last_known_elr),
            tuple(record.adding),
            tuple(record.removing),
        )
    )


def _partition_change(delta: Delta, record: PartitionChangeRecord) -> None:
    partitions = delta.open_partitions(record.topic_id)
    check(
        0 <= record.index < len(partitions),
        "29 only a known partition changes",
        topic=record.topic_id,
        index=record.index,
        count=len(partitions),
    )
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
        if not 0 <= index < len(partitions):
            broken("29 only a known partition changes", topic=topic_id, index=index, count=len(partitions))
        before = partitions[index]
        if before is not checked:  # most share one object
            check(
                before.replicas == replicas and not before.is_reassigning,
                "29 these partitions keep their replicas",
                topic=topic_id,
                index=index,
                before=before.replicas,
                now=replicas,
            )
            _check_change(before, after)
            checked = before
        partitions[index] = after


def _check_change(before: Partition, after: Partition) -> None:
    check(
        after.partition_epoch == before.partition_epoch + 1,
        "11 every change is one partition epoch",
        before=before,
        after=after,
    )
    check(after.leader_epoch >= before.leader_epoch, "11 a leader epoch never goes back", before=before, after=after)
    check(
        after.leader == before.leader or after.leader_epoch > before.leader_epoch,
        "11 a new leader has a new epoch",
        before=before,
        after=after,
    )
    check(
        after.leader == NO_LEADER or after.leader in after.isr,
        "11 a leader is in its ISR",
        before=before,
        after=after,
    )
    check(
        not set(after.isr) & set(after.elr),
        "11 a replica is in sync or eligible, not both",
        before=before,
        after=after,
    )
    check(
        not set(after.adding) & set(after.removing),
        "29 a reassignment brings a replica or takes it away",
        before=before,
        after=after,
    )
    here = set(after.replicas)
    check(
        here.issuperset((*after.isr, *after.elr, *after.adding, *after.removing)),
        "29 only a replica is in sync, eligible, comes or goes",
        before=before,
        after=after,
    )
    check(
        len(here) == len(after.replicas), "29 a partition's replicas are different brokers", before=before, after=after
    )


def _remove_topic(delta: Delta, record: RemoveTopicRecord) -> None:
    delta.remove_topic(record.topic_id)


def _config(delta: Delta, record: ConfigRecord) -> None:
    delta.set_config(ConfigResource(record.resource_type, record.resource_name), record.key, record.value)


def _client_quota(delta: Delta, record: ClientQuotaRecord) -> None:
    entity = tuple((each.type, each.name) for each in record.entity)
    types = [kind for kind, _ in entity]
    check(types == sorted(set(types)), "29 a quota's entity names each type once, in order", types=types)
    delta.set_quota(entity, record.key, None if record.value is None else record.value.value)


def _scram_credential(delta: Delta, record: ScramCredentialRecord) -> None:
    credential = ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )
    delta.put_scram(ScramKey(record.user, record.mechanism), credential)


def _remove_scram_credential(delta: Delta, record: RemoveScramCredentialRecord) -> None:
    delta.remove_scram(ScramKey(record.user, record.mechanism))


def _scram_secret(delta: Delta, record: ScramSecretRecord) -> None:
    check(not delta.scram_secret, "29 a cluster keeps its secret for made-up salts", size_bytes=len(delta.scram_secret))
    delta.scram_secret = bytes(record.secret)


def _delegation_token(delta: Delta, record: DelegationTokenRecord) -> None:
    token = DelegationToken(
        record.owner, record.requester, tuple(record.renewers), record.issue_ms, record.expiry_ms, record.max_ms
    )
    delta.put_token(record.token_id, token)


def _remove_delegation_token(delta: Delta, record: RemoveDelegationTokenRecord) -> None:
    delta.remove_token(record.token_id)


def _producer_ids(delta: Delta, record: ProducerIdsRecord) -> None:
    check(
        record.next_producer_id > delta.next_producer_id,
        "13 a producer id is given once",
        before=delta.next_producer_id,
        now=record.next_producer_id,
    )
    delta.next_producer_id = record.next_producer_id


def _access_rule(delta: Delta, record: AccessRuleRecord) -> None:
    rule = rule_of(record)
    check(rule not in delta.access, "29 an access rule is made once", rule=rule)
    delta.put_access(delta.access.with_rule(rule))


def _remove_access_rule(delta: Delta, record: RemoveAccessRuleRecord) -> None:
    rule = rule_of(record)
    check(rule in delta.access, "29 only a known access rule is removed", rule=rule)
    delta.put_access(delta.access.without_rule(rule))


def _applied_request(delta: Delta, record: AppliedRequestRecord) -> None:
    before = delta.applied.get(record.node_id)
    replies: Map[int, bytes] = Map()
    answered_below = record.answered_below
    if before is not None and before.incarnation == record.incarnation:
        if record.sequence in before.replies:
            broken(
                "5 a request is applied once",
                node=record.node_id,
                incarnation=record.incarnation,
                sequence=record.sequence,
            )
        answered_below = max(answered_below, before.answered_below)
        replies = before.replies
        if answered_below > before.answered_below:
            replies = Map({number: reply for number, reply in replies.items() if number >= answered_below})
    else:
        check(
            before is None or record.incarnation > before.incarnation,
            "5 a node's past does not come back",
            node=record.node_id,
            before=before and before.incarnation,
            now=record.incarnation,
        )
    replies = replies.set(record.sequence, record.reply)
    delta.put_applied(record.node_id, Applied(record.incarnation, answered_below, replies))


REPLAYS: dict[type[MetadataRecord], Callable[[Delta, Any], None]] = {
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
    ClientQuotaRecord: _client_quota,
    ScramCredentialRecord: _scram_credential,
    RemoveScramCredentialRecord: _remove_scram_credential,
    ScramSecretRecord: _scram_secret,
    DelegationTokenRecord: _delegation_token,
    RemoveDelegationTokenRecord: _remove_delegation_token,
    ProducerIdsRecord: _producer_ids,
    AccessRuleRecord: _access_rule,
    RemoveAccessRuleRecord: _remove_access_rule,
    AppliedRequestRecord: _applied_request,
}
