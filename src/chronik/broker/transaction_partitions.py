"""Asks the coordinator of a transaction whether a partition belongs to it, or to add the partition to it.

A leader asks before it accepts the first batch of a transaction. Questions to another node are sent as
AddPartitionsToTxn: one request is in flight to each node, and questions that arrive meanwhile share the next one. If
this node coordinates the transaction, a question is a call in the task of the request that needs the answer.

For each transactional id, one question is in flight to a coordinator, and one more may wait. When a third arrives, its
producer has given up one of the two that wait. That one fails: the one with the lower epoch with
INVALID_PRODUCER_EPOCH; of two with the same epoch, the earlier one with NETWORK_EXCEPTION, because its client has
repeated the request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Protocol

from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from chronik.wire.peer_errors import PeerError

if TYPE_CHECKING:
    from chronik.peer.directory import Directory
    from chronik.wire.notation import Request

log = logging.getLogger("chronik.broker.transactions")

STATE_TOPIC: Final = "__transaction_state"
VERSION_MIN: Final = 4  # of AddPartitionsToTxn: nodes send it from this version on
ADDS_SINCE: Final = 2  # transaction version of producers that add partitions by writing to them
QUESTIONS_PER_REQUEST: Final = 1_000

TopicPartition = tuple[str, int]
Answers = dict[TopicPartition, ErrorCode]


class Coordinator(Protocol):
    """The transaction coordinator of this node."""

    def partition_for(self, key: str) -> int: ...

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        verify_only: bool,
        transaction_version: int,
    ) -> Coroutine[Any, Any, Answers]: ...


class Nodes(Protocol):
    """The part of `peer.peers.Peers` that is needed here."""

    @property
    def directory(self) -> Directory: ...

    async def ask(self, node_id: int, request: Request, answer: type[Any], *, version_min: int = 0) -> Any: ...


class _Question:
    __slots__ = ("answer", "partitions", "producer_epoch", "producer_id", "transactional_id", "verify_only")

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        verify_only: bool,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.partitions = partitions
        self.verify_only = verify_only
        self.answer: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()

    def end(self, answers: Answers | ErrorCode) -> None:
        """No effect if it has ended before, or if its client has disconnected."""
        if not self.answer.done():
            self.answer.set_result(
                dict.fromkeys(self.partitions, answers) if isinstance(answers, ErrorCode) else answers
            )


class TransactionPartitions:
    def __init__(
        self,
        node_id: int,
        nodes: Nodes,
        coordinator: Coordinator,
        start: Callable[[str, Coroutine[Any, Any, None]], object],
    ) -> None:
        """`start` runs a coroutine as a task of the node."""
        self._node_id = node_id
        self._nodes = nodes
        self._coordinator = coordinator
        self._start = start
        self._routes: dict[int, _Route] = {}  # by the coordinator's node id

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        verify_only: bool,
    ) -> Answers:
        """The coordinator's answer for each partition; NETWORK_EXCEPTION if it does not respond."""
        state_partition = self._coordinator.partition_for(transactional_id)
        node_id = self._nodes.directory.leader_of(STATE_TOPIC, state_partition)
        if node_id is None:
            return dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        is_here = node_id == self._node_id
        route = self._routes.get(node_id)
        if route is None:
            route = self._routes[node_id] = _Route(
                f"transactions of node {node_id}",
                self._carry_here if is_here else lambda asked: self._ask_node(node_id, asked),
                self._start,
                together=not is_here,
            )
        if is_here and not route.is_used_by(transactional_id):
            asking = self._ask_here(transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only)
            return await route.take_at_once(transactional_id, asking)
        question = _Question(transactional_id, producer_id, producer_epoch, partitions, verify_only=verify_only)
        route.put(question)
        return await question.answer

    async def _carry_here(self, asked: list[_Question]) -> None:
        for each in asked:
            answers = await self._ask_here(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.partitions,
                verify_only=each.verify_only,
            )
            each.end(answers)

    def _ask_here(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        *,
        verify_only: bool,
    ) -> Coroutine[Any, Any, Answers]:
        return self._coordinator.add_partitions(
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            verify_only=verify_only,
            transaction_version=0 if verify_only else ADDS_SINCE,
        )

    async def _ask_node(self, node_id: int, asked: list[_Question]) -> None:
        request = AddPartitionsToTxnRequest(transactions=[_as_sent(question) for question in asked])
        try:
            response = await self._nodes.ask(node_id, request, AddPartitionsToTxnResponse, version_min=VERSION_MIN)
        except PeerError as fault:
            log.warning("could not ask broker %d about %s: %s", node_id, counted(len(asked), "transaction"), fault)
            return  # waiting requests get NETWORK_EXCEPTION
        found = _answers_in(response)
        for question in asked:
            if response.error_code:
                error = ErrorCode.of(response.error_code)
                # This node lacks the permission, which says nothing about the client's permissions.
                is_ours = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                question.end(ErrorCode.INVALID_TXN_STATE if is_ours else error)
                continue
            told = found.get(question.transactional_id, {})
            question.end({each: told.get(each, ErrorCode.UNKNOWN_SERVER_ERROR) for each in question.partitions})


class _Route:
    """The questions for one coordinator."""

    def __init__(
        self,
        name: str,
        carry: Callable[[list[_Question]], Coroutine[Any, Any, None]],
        start: Callable[[str, Coroutine[Any, Any, None]], object],
        *,
        together: bool,
    ) -> None:
        """`together`: one request at a time carries all waiting questions. Otherwise each question is sent
        separately."""
        self._name = name
        self._carry = carry
        self._start = start
        self._together = together
        self._waiting: dict[str, _Question] = {}  # by transactional id
        self._under_way: dict[str, None] = {}  # ids, as an ordered set

    def is_used_by(self, transactional_id: str) -> bool:
        """Whether a question of this id is in flight or waits."""
        return transactional_id in self._under_way or transactional_id in self._waiting

    async def take_at_once(self, transactional_id: str, asking: Coroutine[Any, Any, Answers]) -> Answers:
        """Asks in the caller's task. Questions of the same id that arrive meanwhile wait."""
        self._under_way[transactional_id] = None
        try:
            return await asking
        except asyncio.CancelledError:
            self._end_waiting()
            raise
        finally:
            del self._under_way[transactional_id]
            if self._waiting:
                self._send()

    def put(self, question: _Question) -> None:
        earlier = self._waiting.get(question.transactional_id)
        if earlier is not None:
            if earlier.producer_epoch > question.producer_epoch:
                question.end(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            is_repeated = earlier.producer_epoch == question.producer_epoch
            earlier.end(ErrorCode.NETWORK_EXCEPTION if is_repeated else ErrorCode.INVALID_PRODUCER_EPOCH)
        self._waiting[question.transactional_id] = question
        self._send()

    def _send(self) -> None:
        if self._together:
            if self._waiting and not self._under_way:
                self._send_these(list(self._waiting)[:QUESTIONS_PER_REQUEST])
            return
        for transactional_id in list(self._waiting):
            if transactional_id not in self._under_way:
                self._send_these([transactional_id])

    def _send_these(self, ids: list[str]) -> None:
        asked = [self._waiting.pop(each) for each in ids]
        check(
            self._under_way.keys().isdisjoint(ids),
            "15 one question of a transactional id is under way",
            route=self._name,
        )
        self._under_way.update(dict.fromkeys(ids))
        self._start(self._name, self._deliver(ids, asked))

    async def _deliver(self, ids: list[str], asked: list[_Question]) -> None:
        awaited = [question for question in asked if not question.answer.done()]
        try:
            if awaited:
                await self._carry(awaited)
        except asyncio.CancelledError:
            self._end_waiting()
            raise
        finally:
            for question in asked:
                question.end(ErrorCode.NETWORK_EXCEPTION)  # no effect if it was answered
            for each in ids:
                del self._under_way[each]
            self._send()

    def _end_waiting(self) -> None:
        """The node stops: fails all waiting questions."""
        for question in self._waiting.values():
            question.end(ErrorCode.NETWORK_EXCEPTION)
        self._waiting.clear()


def _as_sent(question: _Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in question.partitions:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.verify_only,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _answers_in(response: AddPartitionsToTxnResponse) -> dict[str, Answers]:
    return {
        result.transactional_id: {
            (topic.name, each.partition_index): ErrorCode.of(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
