"""What `chronik txn` asks brokers for: transactions by name, what waits behind them, and which
producers have them open."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from chronik.cli.errors import CommandFailed
from chronik.cli.explaining import Waiting, explain_partition, explain_transaction
from chronik.cli.naming import did_you_mean, existing_topic
from chronik.cli.output import time_text

if TYPE_CHECKING:
    from chronik.client.admin.transactions import OpenTransaction, Transaction
    from chronik.client.routing import ClusterClient
    from chronik.client.topology import TopicPartition


async def existing_transaction(cluster: ClusterClient, transactional_id: str) -> Transaction:
    """The transaction, or a complaint with the nearest name."""
    from chronik.client.admin import transactions
    from chronik.client.errors import Refused
    from chronik.wire.error_codes import ErrorCode

    try:
        return await transactions.describe(cluster, transactional_id)
    except Refused as fault:
        if fault.kafka_error is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
    known = [each.transactional_id for each in await transactions.list_all(cluster)]
    nearest = did_you_mean(transactional_id, known)
    raise CommandFailed(f"no broker knows transactional id {transactional_id!r}: TRANSACTIONAL_ID_NOT_FOUND{nearest}")


async def existing_partition(cluster: ClusterClient, topic: str, index: int) -> TopicPartition:
    from chronik.client.topology import TopicPartition

    known = (await existing_topic(cluster, topic)).partitions
    if index not in known:
        highest = len(known) - 1
        raise CommandFailed(
            f"topic {topic!r} has no partition {index}, only 0 to {highest}: UNKNOWN_TOPIC_OR_PARTITION"
        )
    return TopicPartition(topic, index)


def document_of(transaction: Transaction, now_ms: int) -> dict[str, Any]:
    from chronik.client.admin.transactions import ONGOING, PREPARED

    is_open = transaction.state == ONGOING or transaction.state in PREPARED
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator": transaction.coordinator_id,
        "timeout_ms": transaction.timeout_ms,
        "started": time_text(transaction.start_ms),
        "age_ms": max(now_ms - transaction.start_ms, 0) if is_open and transaction.start_ms >= 0 else None,
        "partitions": [{"topic": at.topic, "partition": at.partition} for at in transaction.partitions],
    }


async def explained(cluster: ClusterClient, transaction: Transaction, now_ms: int) -> list[str]:
    from chronik.client.topology import NO_LEADER

    topics = {at.topic for at in transaction.partitions}
    topology = await cluster.retrying(lambda: cluster.refresh(topics))
    existing = [at for at in transaction.partitions if at.topic in topology.topics]
    leaderless = [
        at
        for at in existing
        if (known := topology.topics[at.topic].partitions.get(at.partition)) is None or known.leader_id == NO_LEADER
    ]
    waiting = await _waiting(cluster, [at for at in existing if at not in leaderless])
    return explain_transaction(transaction, waiting, leaderless, now_ms)


async def explained_partition(cluster: ClusterClient, at: TopicPartition, now_ms: int) -> list[str]:
    from chronik.client.admin import transactions
    from chronik.client.errors import ClientError

    found = (await transactions.open_on(cluster, [at]))[at]
    if isinstance(found, ClientError):
        raise found
    owners = await owners_of(cluster, found)
    waiting = (await _waiting(cluster, [at])).get(at, Waiting(0, 0))
    known = [
        (each, owner if owner is not None and at in owner.partitions else None)
        for each in found
        for owner in (owners.get(each.producer_id),)
    ]
    return explain_partition(at, known, waiting, now_ms)


async def owners_of(cluster: ClusterClient, found: list[OpenTransaction]) -> dict[int, Transaction]:
    """The transactions of coordinators, by producer id."""
    from chronik.client.admin import transactions

    producer_ids = sorted({each.producer_id for each in found})
    if not producer_ids:
        return {}
    listed = await transactions.list_all(cluster, producer_ids=producer_ids)
    described = [await transactions.describe(cluster, each.transactional_id) for each in listed]
    return {each.producer_id: each for each in described}


async def _waiting(cluster: ClusterClient, partitions: list[TopicPartition]) -> dict[TopicPartition, Waiting]:
    """What readers of committed records do not get yet; of partitions whose leaders answer."""
    from chronik.client.admin import offsets
    from chronik.client.errors import ClientError
    from chronik.wire.isolation import READ_COMMITTED
    from chronik.wire.offset_specs import LATEST

    if not partitions:
        return {}
    wanted = dict.fromkeys(partitions, LATEST)
    stable = await offsets.look_up(cluster, wanted, isolation_level=READ_COMMITTED)
    ends = await offsets.look_up(cluster, wanted)
    found = {}
    for at in partitions:
        low, high = stable[at], ends[at]
        if not isinstance(low, ClientError) and not isinstance(high, ClientError):
            found[at] = Waiting(low.offset, high.offset)
    return found


async def abort_hanging(cluster: ClusterClient, at: TopicPartition, start_offset: int) -> None:
    """Refuses if a coordinator knows the transaction: it would write its own marker, perhaps the other one."""
    from chronik.client.admin import transactions
    from chronik.client.errors import ClientError

    found = (await transactions.open_on(cluster, [at]))[at]
    if isinstance(found, ClientError):
        raise found
    hanging = [each for each in found if each.start_offset == start_offset]
    if not hanging:
        offsets = ", ".join(str(each.start_offset) for each in found) or "none"
        raise CommandFailed(f"no transaction on {at} starts at offset {start_offset}; open ones start at: {offsets}")
    owner = (await owners_of(cluster, hanging)).get(hanging[0].producer_id)
    if owner is not None and at in owner.partitions:
        raise CommandFailed(
            f"the transaction on {at} at offset {start_offset} does not hang: {owner.transactional_id!r} is in state "
            f"{owner.state}. Use: chronik txn abort {shlex.quote(owner.transactional_id)}"
        )
    await transactions.write_marker(cluster, hanging[0], commits=False)
