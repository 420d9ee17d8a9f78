"""A topic as most begin, in one record: every replica live and in sync, the first of each partition leading, epoch 0.

Few brokers stand in few orders, so thousands of topics begin alike. What the record says of replicas is one run of
bytes, and who has read those bytes before need not read them again: such topics share one tuple of partitions. Topics
that begin otherwise, or with very many partitions, take a TopicRecord and a PartitionRecord each.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from struct import Struct

from chronik.metadata.image import Partition, Topic
from chronik.metadata.records import NewTopicRecord
from chronik.runtime.invariants import broken

Placement = tuple[tuple[int, ...], ...]  # replicas by partition, the preferred leader first

PARTITIONS_MAX = 64  # of one record: what is remembered stays small
REMEMBERED_MAX = 1_024  # orders of replicas; a megabyte at most
ID_BYTES = 4


def fits(placement: Placement) -> bool:
    """Of a placement with as many replicas for each partition."""
    return len(placement) <= PARTITIONS_MAX


def new_topic_record(topic_id: bytes, name: str, placement: Placement) -> NewTopicRecord:
    return NewTopicRecord(
        topic_id=topic_id, name=name, replication_factor=len(placement[0]), replicas=_packed(placement)
    )


def begun(record: NewTopicRecord) -> Topic:
    """The topic that the record makes."""
    return Topic(record.topic_id, record.name, _partitions(record.replication_factor, bytes(record.replicas)))


def record_of(topic: Topic) -> NewTopicRecord | None:
    """The one record that makes this topic, if one does: if nothing has happened to it yet."""
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
