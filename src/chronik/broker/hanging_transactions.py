"""Aborts hanging transactions: open on a partition, but unknown to every coordinator.

A coordinator knows a transaction from before its first record until after its last marker. If no coordinator knows an
open transaction, a marker or a coordinator's record was lost, for example by an unclean election. The transaction would
stay open, and consumers with isolation.level=read_committed would never read past its first record. So the partition's
leader asks all coordinators, and writes the abort marker itself.

An abort cannot be undone. Therefore all coordinators must answer twice, with a pause in between and without a change of
leadership, and the producer must not have written to the partition since the first request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.broker.apis.write_txn_markers import write_markers
from chronik.coordinator.transactions.coordinator import STATE_TOPIC
from chronik.metadata.image import NO_LEADER
from chronik.runtime.pieces import Work, in_slices
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from chronik.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from chronik.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from chronik.wire.peer_errors import PeerError

if TYPE_CHECKING:
    from chronik.broker.services import Services
    from chronik.coordinator.transactions.transaction import TopicPartition
    from chronik.replication.replica import Replica

log = logging.getLogger("chronik.broker.transactions")

INTERVAL_S: Final = 30.0
OPEN_MS_MIN: Final = 60_000  # before the first request to coordinators: nearly all transactions end long before
ROUNDS_PAUSE_S: Final = 10.0
PRODUCERS_PER_REQUEST: Final = 500


class Open(NamedTuple):
    """The current state of an open transaction in a partition that this node leads."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int  # of the producer's last batch


class HangingTransactions:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._seen_ms: dict[Open, int] = {}  # when each was first seen in this state

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        suspects = await in_slices(self._long_open())
        if not suspects:
            return
        leaders = self._state_leaders()
        if leaders is None:
            return
        for _ in range(2):
            suspects = await self._unknown(suspects, sorted({leader for leader, _ in leaders}))
            if not suspects:
                return
            await asyncio.sleep(ROUNDS_PAUSE_S)
            if self._state_leaders() != leaders:
                return  # each coordinator may have been asked while the other one had the transaction
        for suspect in suspects:
            await self._abort(suspect)

    def _long_open(self) -> Work[set[Open]]:
        """In turns: a partition may have a hundred thousand open transactions."""
        now_ms = self._services.runtime.clock.monotonic_ns() // 1_000_000
        seen_ms: dict[Open, int] = {}
        suspects: set[Open] = set()
        for replica in [each for each in self._services.replicas.all() if each.is_leader]:
            for producer_id in replica.log.producers.in_transaction():
                yield 1
                found = _open_of(replica, producer_id)
                if found is None:
                    continue  # it has ended meanwhile
                since_ms = seen_ms[found] = self._seen_ms.get(found, now_ms)
                if now_ms - since_ms >= OPEN_MS_MIN:
                    suspects.add(found)
        self._seen_ms = seen_ms
        return suspects

    def _state_leaders(self) -> list[tuple[int, int]] | None:
        """Leader and leader epoch of each partition of the state topic; None while one has no leader."""
        topic = self._services.store.image.topic_named(STATE_TOPIC)
        if topic is None:
            return []
        leaders = [(state.leader, state.leader_epoch) for state in topic.partitions]
        return None if any(leader == NO_LEADER for leader, _ in leaders) else leaders

    async def _unknown(self, suspects: set[Open], coordinators: list[int]) -> set[Open]:
        """The suspects that no coordinator knows. Empty if a coordinator does not answer."""
        known: set[Open] = set()
        for node_id in coordinators:
            try:
                known |= await self._known_to(node_id, suspects)
            except (PeerError, _NoAnswer) as fault:
                log.info("transactions may hang on this node, but broker %d cannot be asked: %s", node_id, fault)
                return set()
        return suspects - known

    async def _known_to(self, node_id: int, suspects: set[Open]) -> set[Open]:
        producer_ids = sorted({each.producer_id for each in suspects})
        if node_id == self._services.node_id:
            transactions = self._services.transactions.transactions()
            if isinstance(transactions, ErrorCode):
                raise _NoAnswer(transactions.name)
            return _part_of(suspects, [(each.producer_id, each.partitions) for each in transactions])
        transactional_ids: list[str] = []
        for start in range(0, len(producer_ids), PRODUCERS_PER_REQUEST):
            asked = producer_ids[start : start + PRODUCERS_PER_REQUEST]
            request = ListTransactionsRequest(state_filters=[], producer_id_filters=asked)
            listed = await self._services.peers.ask(node_id, request, ListTransactionsResponse)
            if listed.error_code:
                raise _NoAnswer(ErrorCode.of(listed.error_code).name)
            transactional_ids += [each.transactional_id for each in listed.transaction_states]
        if not transactional_ids:
            return set()
        described = await self._services.peers.ask(
            node_id, DescribeTransactionsRequest(transactional_ids=transactional_ids), DescribeTransactionsResponse
        )
        told = []
        for state in described.transaction_states:
            if state.error_code not in (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
                raise _NoAnswer(ErrorCode.of(state.error_code).name)
            partitions = frozenset((topic.topic, index) for topic in state.topics for index in topic.partitions)
            told.append((state.producer_id, partitions))
        return _part_of(suspects, told)

    async def _abort(self, suspect: Open) -> None:
        replica = _replica_of(suspect, self._services)
        # No await between this look and the append: the producer may have begun its next transaction here.
        if replica is None or _open_of(replica, suspect.producer_id) != suspect:
            return
        producer = replica.log.producers.producers[suspect.producer_id]
        marker = WritableTxnMarker(
            producer_id=suspect.producer_id,
            producer_epoch=suspect.producer_epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=suspect.topic, partition_indexes=[suspect.partition])],
            coordinator_epoch=max(producer.coordinator_epoch, 0),
        )
        response = await write_markers(WriteTxnMarkersRequest(markers=[marker]), self._services)
        error = ErrorCode.of(response.markers[0].topics[0].partitions[0].error_code)
        log.warning(
            "partition %s-%d: a transaction of producer %d was open from offset %d on, and no coordinator knows it: %s",
            suspect.topic,
            suspect.partition,
            suspect.producer_id,
            suspect.first_offset,
            f"aborting it failed with {error.name}, it will be tried again" if error else "aborted it",
        )


class _NoAnswer(Exception):
    """A coordinator cannot answer yet."""


def _part_of(suspects: set[Open], told: list[tuple[int, frozenset[TopicPartition]]]) -> set[Open]:
    """The suspects that belong to a transaction in `told`, a list of producer ids with their partitions."""
    known: dict[int, list[frozenset[TopicPartition]]] = {}
    producer_ids = {each.producer_id for each in suspects}
    for producer_id, partitions in told:
        if producer_id in producer_ids:
            known.setdefault(producer_id, []).append(partitions)
    return {
        each
        for each in suspects
        if any((each.topic, each.partition) in partitions for partitions in known.get(each.producer_id, ()))
    }


def _open_of(replica: Replica, producer_id: int) -> Open | None:
    known = replica.log
    producer = known.producers.producers.get(producer_id)
    if producer is None or producer.transaction_first_offset < 0:
        return None
    return Open(
        known.topic,
        known.partition,
        producer_id,
        producer.epoch,
        producer.transaction_first_offset,
        producer.batches[-1].last_offset if producer.batches else -1,
    )


def _replica_of(suspect: Open, services: Services) -> Replica | None:
    topic = services.store.image.topic_named(suspect.topic)
    replica = None if topic is None else services.replicas.get(topic, suspect.partition)
    return replica if replica is not None and replica.is_leader else None
