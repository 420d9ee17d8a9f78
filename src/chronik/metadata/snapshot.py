"""Encodes an image as bytes and back, and hashes it to compare two nodes.

A snapshot is the shortest log that produces the image: a version, then one batch of records in a fixed order, replayed
like any other. So there is no second format, and two nodes with equal images write equal bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from itertools import islice

from chronik.metadata.access_records import record_of as rule_record_of
from chronik.metadata.delta import Changes
from chronik.metadata.errors import DamagedMetadata
from chronik.metadata.image import EMPTY, Broker, ConfigResource, Image, QuotaEntity, Topic
from chronik.metadata.new_topics import record_of
from chronik.metadata.records import (
    FORMAT,
    NOBODY,
    AppliedRequestRecord,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    EndpointField,
    FeatureLevelRecord,
    FeatureRangeField,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntityField,
    QuotaValueField,
    RegisterBrokerRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
    TopicRecord,
    decode_batch,
    encode_batch,
)
from chronik.metadata.replay import replay_onto
from chronik.metadata.token_records import token_record_of

_VERSION = struct.Struct(">q")
_NO_BROKER = -1


def encode_snapshot(image: Image) -> bytes:
    return _VERSION.pack(image.version) + encode_batch(records_of(image))


def decode_snapshot(data: bytes) -> Image:
    """Raises DamagedMetadata."""
    if len(data) < _VERSION.size:
        raise DamagedMetadata(0, f"a snapshot of {len(data)} bytes is too short to be one")
    (version,) = _VERSION.unpack_from(data)
    image, _ = replay_onto(EMPTY, version, decode_batch(memoryview(data)[_VERSION.size :]))
    return image


def state_hash(image: Image) -> str:
    """Equal on all nodes at equal versions."""
    hashing = StateHash(image)
    while hashing.step():
        pass
    return hashing.result()


class StateHash:
    """The hash of a snapshot's bytes, computed in steps: hashing a large image at once would block the loop."""

    def __init__(self, image: Image) -> None:
        self._records = records_of(image)
        self._hash = hashlib.blake2b(_VERSION.pack(image.version) + FORMAT, digest_size=16)

    def step(self, records_max: int = 500) -> bool:
        """Hashes some more records. False when finished."""
        some = list(islice(self._records, records_max))
        self._hash.update(memoryview(encode_batch(some))[len(FORMAT) :])
        return bool(some)

    def result(self) -> str:
        return self._hash.hexdigest()


def records_of(image: Image) -> Iterator[MetadataRecord]:
    if image.cluster_id or image.broker_epoch_last:
        yield ClusterRecord(cluster_id=image.cluster_id, broker_epoch_last=image.broker_epoch_last)
    for name, level in sorted(image.features.items()):
        yield FeatureLevelRecord(name=name, level=level)
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
    for topic in image.all_topics():
        yield from _topic_records(topic)
    for resource, configs in sorted(image.configs.items()):
        for key, value in sorted(configs.items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, key=key, value=value)
    for entity in sorted(image.quotas, key=in_order):
        for key, limit in sorted(image.quotas[entity].items()):
            yield quota_record(entity, key, limit)
    if image.scram_secret:
        yield ScramSecretRecord(secret=image.scram_secret)
    for (user, mechanism), credential in sorted(image.scram.items()):
        yield ScramCredentialRecord(
            user=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
    for token_id, token in sorted(image.tokens.items()):
        yield token_record_of(token_id, token)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=_NO_BROKER, broker_epoch=_NO_BROKER, next_producer_id=image.next_producer_id)
    for rule in image.access:
        yield rule_record_of(rule)
    for node_id, applied in sorted(image.applied.items()):
        for sequence, reply in sorted(applied.replies.items()):
            yield AppliedRequestRecord(
                node_id=node_id,
                incarnation=applied.incarnation,
                sequence=sequence,
                answered_below=applied.answered_below,
                reply=reply,
            )


def in_order(entity: QuotaEntity) -> tuple[tuple[str, bool, str], ...]:
    """A sort key: defaults have no name to compare."""
    return tuple((kind, name is not None, name or "") for kind, name in entity)


def quota_record(entity: QuotaEntity, key: str, limit: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[QuotaEntityField(type=kind, name=name) for kind, name in entity],
        key=key,
        value=None if limit is None else QuotaValueField(value=limit),
    )


def _broker_record(broker: Broker) -> MetadataRecord:
    return RegisterBrokerRecord(
        broker_id=broker.broker_id,
        epoch=broker.epoch,
        incarnation_id=broker.incarnation_id,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        rack=broker.rack,
        endpoints=[
            EndpointField(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in broker.endpoints
        ],
        features=[
            FeatureRangeField(name=name, level_min=levels.level_min, level_max=levels.level_max)
            for name, levels in sorted(broker.features.items())
        ],
        directory_ids=list(broker.directory_ids),
    )


def _topic_records(topic: Topic) -> Iterator[MetadataRecord]:
    whole = record_of(topic)
    if whole is not None:
        yield whole
        return
    yield TopicRecord(topic_id=topic.topic_id, name=topic.name)
    for index, partition in enumerate(topic.partitions):
        yield PartitionRecord(
            topic_id=topic.topic_id,
            index=index,
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            elr=list(partition.elr) or NOBODY,
            last_known_elr=list(partition.last_known_elr) or NOBODY,
            adding=list(partition.adding) or NOBODY,
            removing=list(partition.removing) or NOBODY,
        )


def difference(before: Image, after: Image) -> Changes:
    """The changes between two images that were not derived from each other."""
    shared = [topic_id for topic_id in after.topics if topic_id in before.topics]
    resources = sorted({*before.configs, *after.configs})
    brokers = sorted({*before.brokers, *after.brokers})
    return Changes(
        topics_added=tuple(topic for topic in after.all_topics() if topic.topic_id not in before.topics),
        topics_removed=tuple(topic for topic in before.all_topics() if topic.topic_id not in after.topics),
        topics_changed=tuple(
            sorted(
                (before.topics[topic_id], after.topics[topic_id])
                for topic_id in shared
                if before.topics[topic_id] != after.topics[topic_id]
            )
        ),
        brokers=tuple(each for each in brokers if before.brokers.get(each) != after.brokers.get(each)),
        configs=tuple(each for each in resources if _configs(before, each) != _configs(after, each)),
        features=before.features != after.features,
        quotas=before.quotas != after.quotas,
        access=before.access != after.access,
    )


def _configs(image: Image, resource: ConfigResource) -> dict[str, str]:
    return dict(image.config(resource.type, resource.name))
