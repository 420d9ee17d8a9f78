"""Helpers that build the requests of transactions, and transactions in every state of the coordinator.

A scenario gives each producer a name. `server.kept` holds the id and epoch that each server gave it, so a request can
use the current ones, the previous ones, or ones that no producer has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chronik.wire.batches import build
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from chronik.wire.messages.end_txn import EndTxnRequest
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.produce import ProduceRequest
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.oracle.asking import create_topic, produce, records
from tests.oracle.comparison import Pair, Server

TRANSACTION_KEY = 1  # of FindCoordinator
OLDER = "3.9.1"  # a few of its answers are not those of 4.3.1, which then judges alone
TIMEOUT_MS = 60_000  # of transactions
IDS_ASKED = 32  # enough to reach every partition of __transaction_state
LATER_COORDINATOR = 1000  # an epoch
VERSION_BROKERS = 4  # of AddPartitionsToTxn: from here on for brokers
VERSION_BUMP = 5  # version of EndTxn; from this version on, each transaction has a new epoch
VERSION_IDS = 13  # of Produce: topics are named by their ids
# The producer id and epoch in a request, relative to the current ones.
PRESENT, EPOCH_BEFORE, EPOCH_AFTER, OTHER_ID = (0, 0), (0, -1), (0, 1), (10_000_000, 0)
CLAIMS = {"present": PRESENT, "epoch before": EPOCH_BEFORE, "epoch after": EPOCH_AFTER, "other id": OTHER_ID}
Claim = tuple[int, int]
UNFINISHED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
LOADING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)


def begin_transactions(pair: Pair) -> None:
    """Until both coordinate transactions: the first question makes them create __transaction_state."""
    for server in pair.servers:
        if server.kept.get("transactions"):
            continue
        find_coordinator_of(server, "x")
        for index in range(IDS_ASKED):
            error = LOADING[0]
            while error in LOADING:
                request = InitProducerIdRequest(transactional_id=f"nobody {index}", transaction_timeout_ms=TIMEOUT_MS)
                server.send(request, 4)
                error = server.receive(InitProducerIdResponse, 4).message.error_code
        server.kept["transactions"] = True


def find_coordinator_of(server: Server, who: str) -> None:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    while error:
        server.send(FindCoordinatorRequest(key=who, key_type=TRANSACTION_KEY), 2)
        error = server.receive(FindCoordinatorResponse, 2).message.error_code


def producer(server: Server, who: str, claim: Claim = PRESENT) -> tuple[int, int]:
    """The id and epoch of `who` on this server, or those that it claims."""
    producer_id, epoch = server.kept.get(f"producer {who}", (5_000_000, 0))
    return producer_id + claim[0], epoch + claim[1]


def keep(pair: Pair, who: str, answers: tuple[Any, Any]) -> None:
    """Stores the id and epoch of successful answers for `who`."""
    for server, answer in zip(pair.servers, answers, strict=True):
        if not answer.error_code and answer.producer_id >= 0:
            server.kept[f"producer {who}"] = answer.producer_id, answer.producer_epoch
            server.names.of("producer", answer.producer_id)  # lists show producers in any order


# --- requests


def init(who: str, claim: Claim | None = None, *, timeout_ms: int = TIMEOUT_MS) -> Callable[[Server], Any]:
    def request(server: Server) -> InitProducerIdRequest:
        producer_id, epoch = (-1, -1) if claim is None else producer(server, who, claim)
        return InitProducerIdRequest(
            transactional_id=who, transaction_timeout_ms=timeout_ms, producer_id=producer_id, producer_epoch=epoch
        )

    return request


def add(
    who: str,
    version: int,
    partitions: dict[str, list[int]],
    claim: Claim = PRESENT,
    *,
    verify_only: bool = False,
) -> Callable[[Server], AddPartitionsToTxnRequest]:
    def request(server: Server) -> AddPartitionsToTxnRequest:
        producer_id, epoch = producer(server, who, claim)
        topics = [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in partitions.items()]
        if version < VERSION_BROKERS:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=who,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=who,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    return request


def add_offsets(who: str, group: str, claim: Claim = PRESENT) -> Callable[[Server], AddOffsetsToTxnRequest]:
    def request(server: Server) -> AddOffsetsToTxnRequest:
        producer_id, epoch = producer(server, who, claim)
        return AddOffsetsToTxnRequest(
            transactional_id=who, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )

    return request


def end(who: str, commits: bool, claim: Claim = PRESENT) -> Callable[[Server], EndTxnRequest]:
    def request(server: Server) -> EndTxnRequest:
        producer_id, epoch = producer(server, who, claim)
        return EndTxnRequest(transactional_id=who, producer_id=producer_id, producer_epoch=epoch, committed=commits)

    return request


def write(
    who: str,
    topic: str,
    version: int,
    sequence: int,
    claim: Claim = PRESENT,
    *,
    count: int = 1,
    partition: int = 0,
    is_transactional: bool = True,
    transactional_id: str | None = "",
    acks: int = -1,
) -> Callable[[Server], ProduceRequest]:
    """`transactional_id` is that of the request; "" means `who`."""

    def request(server: Server) -> ProduceRequest:
        producer_id, epoch = producer(server, who, claim)
        data = build(
            records(count),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        by_id = version >= VERSION_IDS
        made = produce(
            "" if by_id else topic,
            data,
            partition=partition,
            acks=acks,
            topic_id=server.topic_ids[topic] if by_id else bytes(16),
        )
        made.transactional_id = who if transactional_id == "" else transactional_id
        return made

    return request


def describe(*ids: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=list(ids))


# --- states


def settle(pair: Pair, who: str, states: tuple[str, ...] = UNFINISHED) -> None:
    """Waits until both have written the markers of the decision."""
    for server in pair.servers:
        while True:
            server.send(describe(who), 0)
            (state,) = server.receive(DescribeTransactionsResponse, 0).message.transaction_states
            if state.transaction_state not in states:
                break


def mark(
    who: str,
    partitions: dict[str, list[int]],
    claim: Claim = PRESENT,
    *,
    commits: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Callable[[Server], WriteTxnMarkersRequest]:
    def request(server: Server) -> WriteTxnMarkersRequest:
        producer_id, epoch = producer(server, who, claim)
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commits,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=each) for name, each in partitions.items()],
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    return request


@dataclass
class Maker:
    """Makes transactions in a given state: a new one for each request that may change it.

    `bumps`: with the requests of clients that raise the epoch with each transaction. Records are written to `topic`. A
    transaction that stays prepared has a partition that knows a later coordinator epoch and refuses its marker.
    """

    pair: Pair
    topic: str
    made: int = 0

    @classmethod
    def create(cls, pair: Pair) -> Maker:
        begin_transactions(pair)
        return cls(pair, create_topic(pair, pair.name("topic"), 2))

    def make(self, state: str, bumps: bool) -> str:
        self.made += 1
        who = self.pair.name(f"{'bump' if bumps else 'same'} {self.made} {state}")
        if state == "unknown":
            return who
        self._must(init(who), 4 if bumps else 1, who)
        if state == "Empty":
            return who
        add_version, end_version = (4, VERSION_BUMP) if bumps else (1, 1)
        if state.startswith("Prepare"):
            for answer in self.pair.do(mark(who, {self.topic: [0]}, coordinator_epoch=LATER_COORDINATOR), 1):
                assert answer.markers[0].topics[0].partitions[0].error_code == 0, (who, answer)
        for answer in self.pair.do(add(who, add_version, {self.topic: [0]}), add_version):
            topics = answer.results_by_transaction[0].topic_results if bumps else answer.results_by_topic_v3_and_below
            assert topics[0].results_by_partition[0].partition_error_code == 0, (who, answer)
        if state != "Ongoing":
            self._must(end(who, state.endswith("Commit")), end_version, who)
        if state.startswith("Complete"):
            settle(self.pair, who)
        return who

    def _must(self, asked: Callable[[Server], Any], version: int, who: str) -> None:
        answers = self.pair.do(asked, version)
        for server, answer in zip(self.pair.servers, answers, strict=True):
            assert answer.error_code == 0, f"{server.name} answers {answer} for {who}"
        keep(self.pair, who, answers)
