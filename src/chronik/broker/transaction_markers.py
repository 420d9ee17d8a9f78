"""Writes the markers that a transaction coordinator orders, to the leaders of the partitions, until all are written.

Markers for partitions that this node leads are appended directly, in the next loop iteration and without a request.
Markers for another leader that are ordered in the same loop iteration share one request. Up to five requests to a
leader are in flight, so a partition that commits slowly does not delay the others. Further markers wait and share the
next request, so a thousand transactions that end together cost a few requests. If a leader rejects a marker, it is sent
again to the current leader, after a back-off that doubles up to one second. While a partition of this node refuses all
markers, for lack of replicas or space, one of them is retried, and the others follow it. A deleted partition needs no
marker. If a partition treats this node as a replaced coordinator for a minute, `fenced_markers` finds out whether it is
one.

A marker is reported as finished when it is committed, on this node as on others.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from chronik.broker.apis.write_txn_markers import outcome_of, told_to_coordinator, write_marker
from chronik.coordinator.transactions.markers import Finished, MarkerOrder
from chronik.coordinator.transactions.transaction import TopicPartition
from chronik.metadata.image import NO_LEADER, Image
from chronik.peer.backoff import BACKOFF_MS_MAX, BACKOFF_MS_MIN
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from chronik.wire.peer_errors import PeerError

if TYPE_CHECKING:
    from chronik.broker.services import Services

log = logging.getLogger("chronik.broker.transactions")

MARKERS_PER_REQUEST: Final = 2_000
IN_FLIGHT_MAX: Final = 5  # requests to one leader
FENCED_ATTEMPTS: Final = 64  # about a minute; a replaced coordinator learns of it long before
# The partition knows a later epoch of the producer, so the transaction has ended there.
ENDED_ALREADY: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
# The partition refuses every marker.
OF_PARTITION: Final = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

PIECES_PER_MARKER: Final = 3  # cost of a marker that is appended here

Ask = Callable[[int, WriteTxnMarkersRequest], Awaitable[WriteTxnMarkersResponse]]
EpochAt = Callable[[TopicPartition, int, int, int], Awaitable[int]]
# A marker's error, or a future of it.
Written = ErrorCode | asyncio.Future[ErrorCode] | asyncio.Future[None]


class Here(Protocol):
    """The partitions that this node leads: `LedHere`."""

    @property
    def node_id(self) -> int: ...

    def write(self, order: MarkerOrder, partition: TopicPartition) -> Written:
        """Appends a marker, without waiting for its commit."""

    def outcome_of(self, written: asyncio.Future[ErrorCode] | asyncio.Future[None]) -> ErrorCode:
        """The result of the marker's future, which is done."""

    def may_go_on(self, pieces: int) -> bool:
        """Reports pieces of work as done; returns whether this loop iteration has time for more."""

    def go_on_later(self, go_on: Callable[[], None]) -> None:
        """Calls it in a later iteration."""


class LedHere:
    def __init__(self, node_id: int, services: Callable[[], Services]) -> None:
        self.node_id = node_id
        self._services = services  # a callable, because the services are created after the coordinators

    def write(self, order: MarkerOrder, partition: TopicPartition) -> Written:
        written = write_marker(order, partition, self._services())
        return told_to_coordinator(written) if isinstance(written, ErrorCode) else written

    def outcome_of(self, written: asyncio.Future[ErrorCode] | asyncio.Future[None]) -> ErrorCode:
        return outcome_of(written)

    def may_go_on(self, pieces: int) -> bool:
        turns = self._services().turns
        turns.spend(pieces)
        return not turns.is_over

    def go_on_later(self, go_on: Callable[[], None]) -> None:
        self._services().turns.wait(go_on)


class _Marker(NamedTuple):
    state_partition: int
    leadership: int  # this node's leadership of that partition; distinguishes orders of earlier leaderships
    order: MarkerOrder
    partition: TopicPartition
    finished: Finished
    coordinator_epoch: int  # of the real coordinator; the order's epoch may be higher
    attempts: int = 0
    fenced_count: int = 0  # how often it was refused as a replaced coordinator's marker


class _Leader:
    """The markers for one node."""

    __slots__ = ("beginning", "in_flight", "queue")

    def __init__(self) -> None:
        self.queue: list[_Marker] = []
        self.in_flight = 0  # number of requests
        self.beginning = False  # a request is about to take the queued markers


class TransactionMarkers:
    """A `coordinator.transactions.markers.MarkerWriter`."""

    def __init__(
        self,
        image: Callable[[], Image],
        ask: Ask,
        start: Callable[[str, Coroutine[Any, Any, None]], object],
        sleep: Callable[[float], Awaitable[None]],
        here: Here,
        epoch_at: EpochAt,
    ) -> None:
        """`ask` sends a request to another node. `start` runs a coroutine as a task of the node. `epoch_at` is
        `FencedMarkers.epoch_at`."""
        self._image = image
        self._here = here
        self._queue_here: deque[_Marker] = deque()
        self._refused_here: list[_Marker] = []
        # Markers that wait while an earlier one is retried, by partition of this node that refuses markers.
        self._held: dict[TopicPartition, list[_Marker]] = {}
        self._ask = ask
        self._start = start
        self._sleep = sleep
        self._epoch_at = epoch_at
        self._leaders: dict[int, _Leader] = {}
        self._leaderships: Counter[int] = Counter()  # by state partition: the number of ended leaderships

    def write(self, state_partition: int, order: MarkerOrder, partition: TopicPartition, finished: Finished) -> None:
        leadership = self._leaderships[state_partition]
        self._put(_Marker(state_partition, leadership, order, partition, finished, order.coordinator_epoch))

    def forget(self, state_partition: int) -> None:
        self._leaderships[state_partition] += 1

    def _put(self, marker: _Marker) -> None:
        if marker.attempts and marker.partition in self._held and not self._stays_here(marker):
            self._release(marker.partition)
        if not self._is_ordered(marker):
            return
        node_id = self._leader_of(marker.partition)
        if node_id is None:
            log.info(
                "partition %s-%d does not exist: the transaction of %r needs no marker there",
                *marker.partition,
                marker.order.transactional_id,
            )
            marker.finished(marker.partition)
        elif node_id == NO_LEADER:
            self._retry_later([marker])
        elif node_id == self._here.node_id:
            if not self._queue_here:
                asyncio.get_running_loop().call_soon(self._write_here)
            self._queue_here.append(marker)
        else:
            self._leaders.setdefault(node_id, _Leader()).queue.append(marker)
            self._begin_request(node_id)

    # --- to partitions of this node

    def _write_here(self) -> None:
        """Appends queued markers, as many as this loop iteration has time for. One commit makes them durable
        together."""
        queue = self._queue_here
        while queue:
            marker = queue.popleft()
            if not marker.attempts and marker.partition in self._held:
                self._held[marker.partition].append(marker)
            elif not self._is_ordered(marker):
                self._release(marker.partition)
            else:
                written = self._here.write(marker.order, marker.partition)
                if isinstance(written, ErrorCode):
                    self._told_here(marker, written)
                else:
                    written.add_done_callback(partial(self._settled_here, marker))
            if not self._here.may_go_on(PIECES_PER_MARKER) and queue:
                self._here.go_on_later(self._write_here)
                return

    def _settled_here(self, marker: _Marker, written: asyncio.Future[ErrorCode] | asyncio.Future[None]) -> None:
        if not written.cancelled():  # cancelled: the node stops
            self._told_here(marker, self._here.outcome_of(written))

    def _told_here(self, marker: _Marker, error: ErrorCode) -> None:
        if error not in OF_PARTITION:
            self._release(marker.partition)
        elif not marker.attempts and marker.partition in self._held:
            self._held[marker.partition].append(marker)
            return
        else:
            self._held.setdefault(marker.partition, [])
        if self._is_over(marker, self._here.node_id, error):
            return
        if not self._refused_here:
            asyncio.get_running_loop().call_soon(self._retry_refused_here)
        self._refused_here.append(_refused(marker, error))

    def _is_ordered(self, marker: _Marker) -> bool:
        return marker.leadership == self._leaderships[marker.state_partition]

    def _stays_here(self, marker: _Marker) -> bool:
        return self._is_ordered(marker) and self._leader_of(marker.partition) == self._here.node_id

    def _release(self, partition: TopicPartition) -> None:
        """The marker that was retried was written, or will not be retried here."""
        for marker in self._held.pop(partition, ()):
            self._put(marker)

    def _retry_refused_here(self) -> None:
        refused, self._refused_here = self._refused_here, []
        self._retry_later(refused)

    # --- to other nodes

    def _begin_request(self, node_id: int) -> None:
        """The request takes the queued markers when it starts, so that it includes all of this loop iteration."""
        leader = self._leaders[node_id]
        if leader.queue and not leader.beginning and leader.in_flight < IN_FLIGHT_MAX:
            leader.beginning = True
            self._start(f"markers to broker {node_id}", self._send_queued(node_id))

    async def _send_queued(self, node_id: int) -> None:
        leader = self._leaders[node_id]
        leader.beginning = False
        leader.in_flight += 1
        try:
            taken, leader.queue = _distinct_producers(leader.queue)
            self._begin_request(node_id)
            if refused := await self._send(node_id, taken):
                self._retry_later(refused)
        finally:
            leader.in_flight -= 1
            self._begin_request(node_id)

    def _retry_later(self, markers: list[_Marker]) -> None:
        self._start("markers to send again", self._retry(markers))

    async def _retry(self, markers: list[_Marker]) -> None:
        attempts = max(marker.attempts for marker in markers)
        await self._sleep(min(BACKOFF_MS_MIN << min(attempts, 10), BACKOFF_MS_MAX) / 1000)
        for marker in markers:
            again = marker._replace(attempts=marker.attempts + 1)
            if marker.fenced_count >= FENCED_ATTEMPTS:
                self._start("a marker that is fenced", self._put_fenced(again._replace(fenced_count=0)))
            else:
                self._put(again)

    async def _put_fenced(self, marker: _Marker) -> None:
        order = marker.order
        known = await self._epoch_at(
            marker.partition, order.producer_id, marker.state_partition, marker.coordinator_epoch
        )
        if known > order.coordinator_epoch:
            marker = marker._replace(order=order._replace(coordinator_epoch=known))
        self._put(marker)

    def _leader_of(self, partition: TopicPartition) -> int | None:
        """None if the partition does not exist."""
        topic = self._image().topic_named(partition[0])
        state = None if topic is None else topic.partition(partition[1])
        return None if state is None else state.leader

    async def _send(self, leader: int, markers: list[_Marker]) -> list[_Marker]:
        """Returns the markers that must be tried again."""
        try:
            response = await self._ask(leader, _request(markers))
        except PeerError as fault:
            log.info("broker %d did not answer for %d transaction markers: %s", leader, len(markers), fault)
            return markers
        errors = {
            (result.producer_id, topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
            for result in response.markers
            for topic in result.topics
            for partition in topic.partitions
        }
        refused = []
        for marker in markers:
            error = errors.get((marker.order.producer_id, *marker.partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if not self._is_over(marker, leader, error):
                refused.append(_refused(marker, error))
        return refused

    def _is_over(self, marker: _Marker, leader: int, error: ErrorCode) -> bool:
        """Reports a committed marker. False: it must be sent again."""
        if error is not ErrorCode.NONE:
            log.info(
                "marker of producer %d (%r) for %s-%d was refused by broker %d: %s",
                marker.order.producer_id,
                marker.order.transactional_id,
                *marker.partition,
                leader,
                error.name,
            )
        if error not in ENDED_ALREADY:
            return False
        marker.finished(marker.partition)
        return True


def _refused(marker: _Marker, error: ErrorCode) -> _Marker:
    is_fenced = error is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    return marker._replace(fenced_count=marker.fenced_count + 1 if is_fenced else 0)


def _distinct_producers(queue: list[_Marker]) -> tuple[list[_Marker], list[_Marker]]:
    """The markers for one request, and the rest. A request has at most one order per producer, because the response
    identifies them by producer."""
    orders: dict[int, MarkerOrder] = {}
    taken: list[_Marker] = []
    left: list[_Marker] = []
    for marker in queue:
        is_only = orders.setdefault(marker.order.producer_id, marker.order) == marker.order
        (taken if is_only and len(taken) < MARKERS_PER_REQUEST else left).append(marker)
    return taken, left


def _request(markers: list[_Marker]) -> WriteTxnMarkersRequest:
    orders: dict[MarkerOrder, dict[str, list[int]]] = {}
    for marker in markers:
        topic, index = marker.partition
        orders.setdefault(marker.order, {}).setdefault(topic, []).append(index)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                transaction_result=order.commits,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
                ],
                coordinator_epoch=order.coordinator_epoch,
                transaction_version=order.transaction_version,
            )
            for order, topics in orders.items()
        ]
    )
