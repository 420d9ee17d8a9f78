"""Shared by creating topics and adding partitions: checks given replicas, and elects a partition's first leader."""

from __future__ import annotations

from collections.abc import Container, Sequence

from chronik.metadata.errors import refuse
from chronik.metadata.image import View
from chronik.metadata.new_topics import Placement
from chronik.metadata.placement import Circle
from chronik.metadata.records import NOBODY, PartitionRecord
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode

PARTITIONS_MAX_PER_COMMAND = 10_000  # Kafka's bound; one batch of records stays under a few megabytes


def check_assignment(
    view: View, broker_ids: Sequence[int], *, replication_factor: int | None = None, needs_leader: bool = True
) -> None:
    """Refuses replicas on unknown brokers, duplicates, and a count that differs from the topic's other partitions."""
    if not broker_ids:
        refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition needs at least one replica: the list is empty")
    for broker_id in broker_ids:
        if broker_id not in view.brokers:
            refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"broker {broker_id}, named for a replica, is not registered")
    if len(set(broker_ids)) < len(broker_ids):
        refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{list(broker_ids)} names a broker twice",
        )
    if replication_factor is not None and len(broker_ids) != replication_factor:
        refuse(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"a partition has {counted(len(broker_ids), 'replica')}, the topic's others have {replication_factor}",
        )
    if needs_leader and not any(view.is_live(broker_id) for broker_id in broker_ids):
        refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"none of the brokers {list(broker_ids)} is alive to lead")


def new_partition(topic_id: bytes, index: int, replicas: Sequence[int], live: Container[int]) -> PartitionRecord:
    """All live replicas are in sync, because the partition is empty; the first of them leads. One must be live."""
    isr = [broker_id for broker_id in replicas if broker_id in live]
    check(len(isr) > 0, "25 a live broker leads a new partition", topic=topic_id, index=index, replicas=replicas)
    return PartitionRecord(
        topic_id=topic_id,
        index=index,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        replicas=list(replicas),
        isr=isr,
        elr=NOBODY,
        last_known_elr=NOBODY,
        adding=NOBODY,
        removing=NOBODY,
    )


def require_all_live(name: str, placed: Placement, circle: Circle) -> None:
    """A coordinator's topic that started with too few replicas could lose acknowledged commits."""
    if not circle.are_live(placed):
        refuse(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{name} needs {len(placed[0])} replicas: it is created when as many brokers are alive",
        )
