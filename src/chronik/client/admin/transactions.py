"""Administration of transactions: lists them, shows what they wait for, and ends them.

Coordinators know transactional ids; leaders of partitions know the open transactions there. A transaction that is open
on a partition that its coordinator does not list for it is hanging: only a marker can end it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, Refused, refuse
from chronik.client.leaders import ask_leaders, by_topic
from chronik.client.routing import TRANSACTION
from chronik.client.topology import TopicPartition
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

EMPTY, ONGOING = "Empty", "Ongoing"
PREPARED: Final = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
FEATURE: Final = "transaction.version"
EPOCH_BUMP_SINCE: Final = 2  # level of the feature
VERSION_BUMP: Final = 5  # EndTxn version
NO_TRANSACTION: Final = -1  # as the first offset of a producer's open transaction
TIMEOUT_MS: Final = 60_000  # for taking over an id; its transaction never starts


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id. `start_ms` is -1 if it never had a transaction. After a decision, lists pending markers."""

    transactional_id: str
    state: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A producer with an open transaction on a partition, as its leader reports it."""

    at: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int  # time of its last record


async def list_all(
    cluster: ClusterClient,
    *,
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> list[ListedTransaction]:
    """All matching transactional ids of the cluster, sorted by name."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=-1 if longer_than_ms is None else longer_than_ms,
        transactional_id_pattern=pattern,
    )
    version_min = 2 if pattern is not None else 1 if longer_than_ms is not None else 0

    async def of(node_id: int) -> list[ListedTransaction]:
        connection = await cluster.to_node(node_id)
        response = await connection.ask(request, ListTransactionsResponse, version_min=version_min)
        refuse(response.error_code, f"cannot list the transactions of broker {node_id}")
        if response.unknown_state_filters:
            names = ", ".join(response.unknown_state_filters)
            raise Refused(ErrorCode.INVALID_REQUEST, "cannot list transactions", f"no state is called {names}")
        return [
            ListedTransaction(each.transactional_id, each.producer_id, each.transaction_state, node_id)
            for each in response.transaction_states
        ]

    async def attempt() -> list[ListedTransaction]:
        await cluster.refresh([])
        lists = await asyncio.gather(*(of(node_id) for node_id in cluster.topology.brokers))
        # While a coordinator moves, two brokers may list the same id.
        found = {each.transactional_id: each for some in lists for each in some}
        return sorted(found.values(), key=lambda each: each.transactional_id)

    return await cluster.retrying(attempt)


async def describe(cluster: ClusterClient, transactional_id: str) -> Transaction:
    """Raises Refused with TRANSACTIONAL_ID_NOT_FOUND for an id that no coordinator knows."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    async def attempt() -> Transaction:
        response = await cluster.ask_coordinator(
            transactional_id, request, DescribeTransactionsResponse, key_type=TRANSACTION
        )
        [told] = response.transaction_states
        what = f"cannot describe the transaction of {transactional_id!r}"
        cluster.refuse_from_coordinator(transactional_id, told.error_code, what, key_type=TRANSACTION)
        return Transaction(
            transactional_id,
            told.transaction_state,
            await cluster.coordinator(transactional_id, TRANSACTION),
            told.producer_id,
            told.producer_epoch,
            told.transaction_timeout_ms,
            told.transaction_start_time_ms,
            tuple(sorted(TopicPartition(topic.topic, index) for topic in told.topics for index in topic.partitions)),
        )

    return await cluster.retrying(attempt)


async def open_on(
    cluster: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[OpenTransaction] | ClientError]:
    """The transactions that are open on partitions, as reported by their leaders."""

    async def ask(
        node_id: int, some: list[TopicPartition]
    ) -> dict[TopicPartition, list[OpenTransaction] | ClientError]:
        topics = [
            TopicRequest(name=name, partition_indexes=[at.partition for at in them])
            for name, them in by_topic(some).items()
        ]
        connection = await cluster.to_node(node_id)
        response = await connection.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)
        found: dict[TopicPartition, list[OpenTransaction] | ClientError] = {}
        for topic in response.topics:
            for told in topic.partitions:
                at = TopicPartition(topic.name, told.partition_index)
                if told.error_code:
                    found[at] = Refused(ErrorCode.of(told.error_code), f"cannot see the producers of {at}")
                    continue
                found[at] = [
                    OpenTransaction(
                        at,
                        each.producer_id,
                        each.producer_epoch,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                        each.last_timestamp,
                    )
                    for each in told.active_producers
                    if each.current_txn_start_offset != NO_TRANSACTION
                ]
        return found

    return await ask_leaders(cluster, partitions, ask)


async def end(
    cluster: ClusterClient, transactional_id: str, producer_id: int, producer_epoch: int, *, commits: bool
) -> None:
    """Ends a transaction on behalf of its producer. The decision is final when this returns; markers follow."""
    request = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=commits
    )

    async def attempt() -> None:
        has_epoch_bump = (await cluster.to_any()).features.get(FEATURE, 0) >= EPOCH_BUMP_SINCE
        response = await cluster.ask_coordinator(
            transactional_id,
            request,
            EndTxnResponse,
            key_type=TRANSACTION,
            version_max=VERSION_BUMP if has_epoch_bump else VERSION_BUMP - 1,
        )
        what = f"cannot {'commit' if commits else 'abort'} the transaction of {transactional_id!r}"
        cluster.refuse_from_coordinator(transactional_id, response.error_code, what, key_type=TRANSACTION)

    await cluster.retrying(attempt)


async def fence(cluster: ClusterClient, transactional_id: str) -> None:
    """Takes the id over from its producer, which aborts its transaction. The producer cannot continue."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS)

    async def attempt() -> None:
        response = await cluster.ask_coordinator(
            transactional_id, request, InitProducerIdResponse, key_type=TRANSACTION
        )
        what = f"cannot abort the transaction of {transactional_id!r}"
        cluster.refuse_from_coordinator(transactional_id, response.error_code, what, key_type=TRANSACTION)

    await cluster.retrying(attempt)


async def write_marker(cluster: ClusterClient, transaction: OpenTransaction, *, commits: bool) -> None:
    """Ends a hanging transaction on one partition, without its coordinator, where it must not be open."""
    at = transaction.at
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=commits,
        topics=[WritableTxnMarkerTopic(name=at.topic, partition_indexes=[at.partition])],
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
    )

    async def ask(node_id: int, some: list[TopicPartition]) -> dict[TopicPartition, bool | ClientError]:
        connection = await cluster.to_node(node_id)
        response = await connection.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse)
        return {
            TopicPartition(topic.name, told.partition_index): Refused(
                ErrorCode.of(told.error_code), f"cannot write a marker to {at}"
            )
            if told.error_code
            else True
            for result in response.markers
            for topic in result.topics
            for told in topic.partitions
        }

    outcome = (await ask_leaders(cluster, [at], ask))[at]
    if isinstance(outcome, ClientError):
        raise outcome
