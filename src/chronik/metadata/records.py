"""The records of the metadata log: one class per kind of fact, and the encoding of a batch of them.

A Raft entry holds one batch: the records that one or many commands produced. A batch is a format byte, then for each
record a type byte, a version byte and its body; bodies know their own length. All or nothing: a batch with an unknown
record is refused as a whole, because applying part of it would make nodes diverge.

Records state outcomes (`leader 2 in epoch 7`), never intentions, so replaying them needs no rules. New fields are
tagged fields or come with a new version. Type numbers never change.
"""

from __future__ import annotations

import struct as packing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from chronik.metadata.errors import DamagedMetadata, NewerMetadata
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.errors import Malformed
from chronik.wire.notation import (
    Data,
    Struct,
    binary,
    boolean,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

FORMAT = b"\x01"

NOBODY: list[int] = []  # the usual ELR, one shared object; never changed


class MetadataRecord(Data, versions="0", flexible="0+"):
    """Base of all records."""


class ClusterRecord(MetadataRecord):
    """Written once by the first controller, and first in a snapshot."""

    cluster_id: string
    broker_epoch_last: int64 = 0  # the highest ever assigned, including to removed brokers


class FeatureLevelRecord(MetadataRecord):
    """A feature's level for the whole cluster; 0 removes the feature."""

    name: string
    level: int16


class RegisterBrokerRecord(MetadataRecord):
    """A broker process joined. It replaces an earlier process with the same id."""

    broker_id: int32
    epoch: int64
    incarnation_id: uuid
    fenced: boolean
    in_controlled_shutdown: boolean
    rack: string | None
    endpoints: list[EndpointField]
    features: list[FeatureRangeField]
    directory_ids: list[uuid]


class EndpointField(Struct):
    name: string
    host: string
    port: uint16
    security_protocol: int16


class FeatureRangeField(Struct):
    name: string
    level_min: int16
    level_max: int16


class BrokerChangeRecord(MetadataRecord):
    """A registered broker was fenced or unfenced, or began to shut down."""

    broker_id: int32
    epoch: int64
    fenced: boolean
    in_controlled_shutdown: boolean


class UnregisterBrokerRecord(MetadataRecord):
    broker_id: int32
    epoch: int64


class TopicRecord(MetadataRecord):
    """Creates a topic; its partitions follow in the same batch."""

    topic_id: uuid
    name: string


class PartitionRecord(MetadataRecord):
    """A new partition of a topic, complete. Indexes are in order, without gaps."""

    topic_id: uuid
    index: int32
    leader: int32
    leader_epoch: int32
    partition_epoch: int32
    replicas: list[int32]
    isr: list[int32]
    elr: list[int32] = field(tag=0)
    last_known_elr: list[int32] = field(tag=1)
    adding: list[int32] = field(tag=2)
    removing: list[int32] = field(tag=3)


class NewTopicRecord(MetadataRecord):
    """A topic and all its partitions, if only their replicas need to be recorded: see `new_topics`."""

    topic_id: uuid
    name: string
    replication_factor: int16
    replicas: binary  # four bytes each, by partition; the first of each leads, and all are in sync


class PartitionChangeRecord(MetadataRecord):
    """A partition's leader, ISR, ELR or replicas changed. The complete new state, except that unchanged replicas may be
    omitted."""

    topic_id: uuid
    index: int32
    leader: int32
    leader_epoch: int32
    partition_epoch: int32
    isr: list[int32]
    elr: list[int32] = field(tag=0)
    last_known_elr: list[int32] = field(tag=1)
    replicas: list[int32] | None = field(tag=2, default=None)
    adding: list[int32] = field(tag=3)
    removing: list[int32] = field(tag=4)


class PartitionsChangeRecord(MetadataRecord):
    """The same change of many partitions that share their replicas and are not being reassigned. Complete new state."""

    leader: int32
    leader_epoch: int32
    partition_epoch: int32
    replicas: list[int32]
    isr: list[int32]
    partitions: binary  # topic id and partition index, 16 and 4 bytes, for each
    elr: list[int32] = field(tag=0)
    last_known_elr: list[int32] = field(tag=1)


class RemoveTopicRecord(MetadataRecord):
    """Removes the topic, its partitions and its configs."""

    topic_id: uuid


class ConfigRecord(MetadataRecord):
    """One key of one resource; null removes it, so that the default applies again."""

    resource_type: int8
    resource_name: string
    key: string
    value: string | None


class ClientQuotaRecord(MetadataRecord):
    """One quota of one entity; null removes it. The entity's fields ascend by type."""

    entity: list[QuotaEntityField]
    key: string
    value: QuotaValueField | None


class QuotaEntityField(Struct):
    type: string
    name: string | None  # null: the default of all users, client ids or addresses


class QuotaValueField(Struct):
    value: float64


class ProducerIdsRecord(MetadataRecord):
    """All producer ids below `next_producer_id` are allocated."""

    broker_id: int32
    broker_epoch: int64
    next_producer_id: int64


class AccessRuleRecord(MetadataRecord):
    """Adds an access rule. Numbers and texts are Kafka's; the rule is its own key."""

    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


class RemoveAccessRuleRecord(MetadataRecord):
    """Removes an access rule."""

    resource_type: int8
    resource_name: string
    pattern_type: int8
    principal: string
    host: string
    operation: int8
    permission_type: int8


class AppliedRequestRecord(MetadataRecord):
    """Follows the records of one command: a repetition of the same request gets this reply.

    A node numbers its requests. With each it reports the number below which it has all replies; those are dropped.
    """

    node_id: int32
    incarnation: int64
    sequence: int64
    answered_below: int64
    reply: binary


class ScramCredentialRecord(MetadataRecord):
    """The verifier of a user's password for one mechanism. It replaces the previous one."""

    user: string
    mechanism: int8  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    salt: binary
    stored_key: binary
    server_key: binary
    iterations: int32

    def __repr__(self) -> str:
        return f"ScramCredentialRecord(user={self.user!r}, mechanism={self.mechanism}, [hidden])"


class RemoveScramCredentialRecord(MetadataRecord):
    user: string
    mechanism: int8


class ScramSecretRecord(MetadataRecord):
    """Written once, with the first credential: salts for unknown users are derived from it."""

    secret: binary

    def __repr__(self) -> str:
        return "ScramSecretRecord([hidden])"


class DelegationTokenRecord(MetadataRecord):
    """A delegation token, complete; it replaces the previous record. Principals are written as User:alice.

    The token's secret is not here: nodes compute it from the id and delegation.token.secret.key.
    """

    token_id: string
    owner: string
    requester: string
    renewers: list[string]
    issue_ms: int64
    expiry_ms: int64
    max_ms: int64


class RemoveDelegationTokenRecord(MetadataRecord):
    token_id: string


# (type, version) as written. Older versions stay readable as long as a log may hold them.
WRITTEN: dict[type[MetadataRecord], tuple[int, int]] = {
    ClusterRecord: (1, 0),
    FeatureLevelRecord: (2, 0),
    RegisterBrokerRecord: (3, 0),
    BrokerChangeRecord: (4, 0),
    UnregisterBrokerRecord: (5, 0),
    TopicRecord: (6, 0),
    PartitionRecord: (7, 0),
    PartitionChangeRecord: (8, 0),
    RemoveTopicRecord: (9, 0),
    ConfigRecord: (10, 0),
    ProducerIdsRecord: (11, 0),
    AppliedRequestRecord: (12, 0),
    NewTopicRecord: (13, 0),
    PartitionsChangeRecord: (14, 0),
    ScramCredentialRecord: (15, 0),
    RemoveScramCredentialRecord: (16, 0),
    ScramSecretRecord: (17, 0),
    AccessRuleRecord: (18, 0),
    RemoveAccessRuleRecord: (19, 0),
    ClientQuotaRecord: (20, 0),
    DelegationTokenRecord: (21, 0),
    RemoveDelegationTokenRecord: (22, 0),
}
_TYPES = {number: record for record, (number, _) in WRITTEN.items()}

PARTITION = packing.Struct(">16si")  # of PartitionsChangeRecord.partitions

_writers: dict[type[MetadataRecord], tuple[bytes, Any]] = {}
_readers: dict[bytes, Callable[[memoryview, int], tuple[Any, int]]] = {}


def encode_batch(records: Iterable[MetadataRecord]) -> bytes:
    parts: list[Any] = [FORMAT]
    for record in records:
        writer = _writers.get(type(record)) or _writer_of(type(record))
        parts.append(writer[0])
        writer[1](record, parts)
    return b"".join(parts)


def decode_batch(data: bytes | memoryview) -> Iterator[MetadataRecord]:
    """Yields one record at a time, so that each can be freed before the next: a batch may be large.

    Raises DamagedMetadata, perhaps after some records. The bytes passed the log's checksum, so they are invalid on
    every node; discard the whole batch.
    """
    view = memoryview(data)
    if view[:1] != FORMAT:
        raise DamagedMetadata(0, f"format {bytes(view[:1]).hex() or 'missing'} is not the known {FORMAT.hex()}")
    at, end = 1, len(view)
    try:
        while at < end:
            kind = bytes(view[at : at + 2])
            reader = _readers.get(kind) or _reader_of(kind, at)
            record, at = reader(view, at + 2)
            yield record
    except Malformed as fault:
        raise DamagedMetadata(at, str(fault)) from fault


def _writer_of(record: type[MetadataRecord]) -> tuple[bytes, Any]:
    number, version = WRITTEN[record]
    writer = _writers[record] = bytes((number, version)), encoder_of(record, version)
    return writer


def _reader_of(kind: bytes, at: int) -> Any:
    if len(kind) < 2 or kind[0] not in _TYPES or kind[1] not in _TYPES[kind[0]].versions:
        raise NewerMetadata(at, f"record type {kind.hex(' ')} is unknown: a newer release wrote it")
    reader = _readers[kind] = decoder_of(_TYPES[kind[0]], kind[1])
    return reader
