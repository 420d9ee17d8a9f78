"""The requests of a transaction, one function each: begin, add partitions, commit offsets, end, inspect, abort.

One process may begin a transaction and another end it: `Handle` is all the other one needs. Every request is retried
until `timeout_ms` while Kafka calls its error retriable; everything else raises. With transaction.version 2 a write
adds its partition to the transaction; on older clusters each partition is added by a request first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from chronik.client.errors import ClientError, Refused, Unreachable, refuse
from chronik.client.leaders import by_topic
from chronik.client.routing import GROUP, MOVED, TRANSACTION
from chronik.client.topology import TopicPartition
from chronik.peer.backoff import Backoff
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chronik.wire.notation import VERSION_MAX, Request, Response

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

A = TypeVar("A", bound=Response)
T = TypeVar("T")

REQUEST_TIMEOUT_MS: Final = 30_000  # per attempt, after which the request is retried
RETRY_MS_MIN: Final = 5  # most waits are for the last transaction's markers, a few milliseconds
FEATURE: Final = "transaction.version"
ADDS_BY_WRITING: Final = 2  # the feature level with this behaviour
ADDS_SINCE: Final = 5  # EndTxn and TxnOffsetCommit version for that level
CLIENTS_UNTIL: Final = 3  # the last version of AddPartitionsToTxn for clients
STABLE_UNTIL: Final = 5  # the last version of InitProducerId that every broker may serve
ONGOING: Final = "Ongoing"
# Errors that mean that the transaction to end no longer exists.
GONE: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class Handle(NamedTuple):
    """A transaction, identified by the producer that began it."""

    transactional_id: str
    producer_id: int
    epoch: int


class OpenTransaction:
    """A transaction that a Producer writes in. `adds_by_writing`: a write adds its partition to the transaction."""

    def __init__(self, cluster: ClusterClient, handle: Handle, *, adds_by_writing: bool, timeout_ms: int) -> None:
        self.handle = handle
        self.transactional_id = handle.transactional_id
        self._cluster = cluster
        self._adds_by_writing = adds_by_writing
        self._timeout_ms = timeout_ms
        self._included: set[TopicPartition] = set()
        self._including = asyncio.Lock()

    @property
    def adds_by_writing(self) -> bool:
        return self._adds_by_writing

    async def include(self, partitions: Collection[TopicPartition]) -> None:
        """Returns when the partitions are in the transaction, or when writing to them will add them."""
        if self._adds_by_writing:
            return
        async with self._including:
            if missing := set(partitions) - self._included:
                await _include(self._cluster, self.handle, missing, timeout_ms=self._timeout_ms)
                self._included |= missing


async def begin(cluster: ClusterClient, transactional_id: str, *, lasts_ms: int, timeout_ms: int) -> OpenTransaction:
    """Fences the previous producer with this id. Its open transaction is aborted before this returns."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=lasts_ms)

    async def attempt() -> OpenTransaction:
        answer = await _ask(
            cluster, transactional_id, TRANSACTION, request, InitProducerIdResponse, version_max=STABLE_UNTIL
        )
        what = f"cannot begin a transaction of {transactional_id!r} that may last {lasts_ms} ms"
        _refuse(cluster, transactional_id, TRANSACTION, answer.error_code, what)
        node_id = await cluster.coordinator(transactional_id, TRANSACTION)
        features = (await cluster.to_node(node_id)).features
        handle = Handle(transactional_id, answer.producer_id, answer.producer_epoch)
        adds_by_writing = features.get(FEATURE, 0) >= ADDS_BY_WRITING
        return OpenTransaction(cluster, handle, adds_by_writing=adds_by_writing, timeout_ms=timeout_ms)

    return await retrying(cluster, attempt, timeout_ms)


async def _include(
    cluster: ClusterClient, handle: Handle, partitions: Iterable[TopicPartition], *, timeout_ms: int
) -> None:
    key, producer_id, epoch = handle
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=key,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=name, partitions=[at.partition for at in them])
            for name, them in by_topic(partitions).items()
        ],
    )

    async def attempt() -> None:
        answer = await _ask(cluster, key, TRANSACTION, request, AddPartitionsToTxnResponse, version_max=CLIENTS_UNTIL)
        codes = {
            each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        # One refused partition prevents adding the others; its code gives the reason.
        for code in sorted(codes, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
            _refuse(cluster, key, TRANSACTION, code, f"cannot add partitions to the transaction of {key!r}")

    await retrying(cluster, attempt, timeout_ms)


async def commit_offsets(
    cluster: ClusterClient,
    transaction: OpenTransaction,
    group_id: str,
    offsets: Mapping[TopicPartition, tuple[int, str]],
    *,
    timeout_ms: int,
) -> None:
    """Sets these offsets and texts for the group if the transaction is committed."""
    key, producer_id, epoch = transaction.handle
    adding = AddOffsetsToTxnRequest(
        transactional_id=key, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
    )
    request = TxnOffsetCommitRequest(
        transactional_id=key,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        member_id="",
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=at.partition, committed_offset=offsets[at][0], committed_metadata=offsets[at][1]
                    )
                    for at in them
                ],
            )
            for name, them in by_topic(offsets).items()
        ],
    )
    what = f"cannot commit offsets of group {group_id!r} in the transaction of {key!r}"

    async def add() -> None:
        answer = await _ask(cluster, key, TRANSACTION, adding, AddOffsetsToTxnResponse)
        _refuse(cluster, key, TRANSACTION, answer.error_code, what)

    async def attempt() -> None:
        answer = await _ask(
            cluster,
            group_id,
            GROUP,
            request,
            TxnOffsetCommitResponse,
            version_min=ADDS_SINCE if transaction.adds_by_writing else 0,
            version_max=ADDS_SINCE if transaction.adds_by_writing else ADDS_SINCE - 1,
        )
        for topic in answer.topics:
            for each in topic.partitions:
                _refuse(cluster, group_id, GROUP, each.error_code, what)

    if not transaction.adds_by_writing:
        await retrying(cluster, add, timeout_ms)
    await retrying(cluster, attempt, timeout_ms)


async def end(cluster: ClusterClient, handle: Handle, *, commits: bool, adds_by_writing: bool, timeout_ms: int) -> bool:
    """Whether the transaction has this outcome now. False: it has another one, or is no longer known.

    Repeating the same request is harmless; the coordinator remembers the last outcome.
    """
    request = EndTxnRequest(
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        producer_epoch=handle.epoch,
        committed=commits,
    )

    async def attempt() -> bool:
        key = handle.transactional_id
        answer = await _ask(
            cluster,
            key,
            TRANSACTION,
            request,
            EndTxnResponse,
            version_min=ADDS_SINCE if adds_by_writing else 0,
            version_max=ADDS_SINCE if adds_by_writing else ADDS_SINCE - 1,
        )
        if ErrorCode.of(answer.error_code) in GONE:
            return False
        what = f"cannot {'commit' if commits else 'abort'} the transaction of {key!r}"
        _refuse(cluster, key, TRANSACTION, answer.error_code, what)
        return True

    return await retrying(cluster, attempt, timeout_ms)


async def not_open(cluster: ClusterClient, handles: Sequence[Handle], *, timeout_ms: int) -> list[Handle]:
    """The transactions among these that were aborted, by their timeout or by another owner of their id."""

    async def is_open(handle: Handle) -> bool:
        async def attempt() -> bool:
            key = handle.transactional_id
            request = DescribeTransactionsRequest(transactional_ids=[key])
            answer = await _ask(cluster, key, TRANSACTION, request, DescribeTransactionsResponse)
            [told] = answer.transaction_states
            if ErrorCode.of(told.error_code) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return False
            _refuse(cluster, key, TRANSACTION, told.error_code, f"cannot describe the transaction of {key!r}")
            found = (told.producer_id, told.producer_epoch)
            return told.transaction_state == ONGOING and found == (handle.producer_id, handle.epoch)

        return await retrying(cluster, attempt, timeout_ms)

    opens = await asyncio.gather(*(is_open(each) for each in handles))
    return [handle for handle, is_one in zip(handles, opens, strict=True) if not is_one]


async def open_ids(cluster: ClusterClient, prefixes: Sequence[str]) -> list[str]:
    """Transactional ids with one of these prefixes that have an open transaction, from all brokers that answer."""
    found: list[str] = []
    for node_id in list(cluster.topology.brokers):
        try:
            connection = await cluster.to_node(node_id)
            request = ListTransactionsRequest(state_filters=[ONGOING], producer_id_filters=[])
            answer = await connection.ask(request, ListTransactionsResponse, timeout_ms=REQUEST_TIMEOUT_MS)
        except ClientError:
            continue
        found += [
            each.transactional_id
            for each in answer.transaction_states
            if each.transaction_state == ONGOING and each.transactional_id.startswith(tuple(prefixes))
        ]
    return found


async def retrying(cluster: ClusterClient, work: Callable[[], Awaitable[T]], timeout_ms: int) -> T:
    """Like `ClusterClient.retrying`, with shorter pauses."""
    end_ns = cluster.clock.monotonic_ns() + timeout_ms * NS_PER_MS
    backoff = Backoff(cluster.randomness, RETRY_MS_MIN)
    while True:
        try:
            return await work()
        except ClientError as fault:
            wait_ms = backoff.next_ms()
            if not fault.retriable or cluster.clock.monotonic_ns() + wait_ms * NS_PER_MS >= end_ns:
                raise
        await asyncio.sleep(wait_ms / 1000)


async def _ask(
    cluster: ClusterClient,
    key: str,
    key_type: int,
    request: Request,
    answer: type[A],
    *,
    version_min: int = 0,
    version_max: int = VERSION_MAX,
) -> A:
    """Sends one request to the coordinator of a group or a transactional id; looks it up again if it is unreachable."""
    node_id = await cluster.coordinator(key, key_type)
    try:
        connection = await cluster.to_node(node_id)
        return await connection.ask(
            request, answer, version_min=version_min, version_max=version_max, timeout_ms=REQUEST_TIMEOUT_MS
        )
    except (Unreachable, Refused):
        cluster.forget_coordinator(key, key_type)
        raise


def _refuse(cluster: ClusterClient, key: str, key_type: int, code: int, what: str) -> None:
    if code in MOVED:
        cluster.forget_coordinator(key, key_type)
    refuse(code, what)
