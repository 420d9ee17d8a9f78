"""A new topic in one record, for the usual case: all replicas are live and in sync, the first ones lead, epoch 0.

Few brokers allow few replica orders, so thousands of topics start alike. The record encodes the replicas as one byte
string, and decoded strings are cached: topics with the same string share one tuple of partitions. Topics that start
differently, or with very many partitions, use a TopicRecord and a PartitionRecord for each partition.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from struct import Struct

from chronik.metadata.image import Partition, Topic
from chronik.metadata.records import NewTopicRecord
from chronik.runtime.invariants import broken

Placement = tuple[tuple[int, ...], ...]  # replicas by partition, the preferred leader first

PARTITIONS_MAX = 64  # per record: keeps cached values small
REMEMBERED_MAX = 1_024  # cached replica orders; at most a megabyte
ID_BYTES = 4


def fits(placement: Placement) -> bool:
    """Whether the placement fits one record. All its partitions must have the same number of replicas."""
    return len(placement) <= PARTITIONS_MAX


def new_topic_record(topic_id: bytes, name: str, placement: Placement) -> NewTopicRecord:
    return NewTopicRecord(
        topic_id=topic_id, name=name, replication_factor=len(placement[0]), replicas=_packed(placement)
    )


def begun(record: NewTopicRecord) -> Topic:
    """The topic that the record creates."""
    return Topic(record.topic_id, record.name, _partitions(record.replication_factor, bytes(record.replicas)))


def record_of(topic: Topic) -> NewTopicRecord | None:
    """The one record that creates this topic; None if no single record does, for example after a change."""
    placement = tuple([partition.replicas for partition in topic.partitions])
    if not fits(placement) or len({len(replicas) for replicas in placement}) > 1:
        return None
    if topic.partitions != _partitions(len(placement[0]), _packed(placement)):
        return None
    return new_topic_record(topic.topic_id, topic.name, placement)


def partition_count(record: NewTopicRecord) -> int:
    return len(record.replicas) // (ID_BYTES * record.replication_factor)


@lru_cache(maxsize=REMEMBERED_MAX)
def _packed(placement: Placement) -> bytes:
    ids = list(chain.from_iterable(placement))
    return Struct(f">{len(ids)}i").pack(*ids)


@lru_cache(maxsize=REMEMBERED_MAX)
def _partitions(replication_factor: int, packed: bytes) -> tuple[Partition, ...]:
    count, rest = divmod(len(packed), ID_BYTES * max(replication_factor, 1))
    if replication_factor <= 0 or count <= 0 or rest != 0:
        broken(
            "29 a topic comes with its partitions and their replicas",
            replication_factor=replication_factor,
            size=len(packed),
        )
    ids = Struct(f">{count * replication_factor}i").unpack(packed)
    return tuple([_partition(ids[at : at + replication_factor]) for at in range(0, len(ids), replication_factor)])


def _partition(replicas: tuple[int, ...]) -> Partition:
    if len(set(replicas)) != len(replicas):
        broken("29 a partition's replicas are different brokers", replicas=replicas)
    return Partition(leader=replicas[0], leader_epoch=0, partition_epoch=0, replicas=replicas, isr=replicas)
