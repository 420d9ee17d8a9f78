"""Asks the share coordinator of each partition, on this node by a call, on others by requests.

Of each group and kind of request one is under way to a node; questions that arrive meanwhile share the next one. What
fails because the coordinator is moving, loading or out of reach is asked again, with pauses, until DEADLINE_MS is over.
All five requests may be repeated. The state topic is created when it is first needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from chronik.broker.share.state_requests import (
    DELETE,
    INITIALIZE,
    READ,
    SUMMARY,
    WRITE,
    Kind,
    Question,
    Told,
    answers_in,
    as_sent,
)
from chronik.coordinator.share.coordinator import STATE_TOPIC, ShareCoordinator
from chronik.coordinator.share.persister import Partition, SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.metadata.image import Image
from chronik.peer.backoff import Backoff
from chronik.peer.directory import Directory
from chronik.runtime.interfaces import Runtime
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import Request
from chronik.wire.peer_errors import PeerError

log = logging.getLogger("chronik.broker.share")

DEADLINE_MS: Final = 20_000
REQUEST_MS: Final = 8_000  # of one attempt: longer than a coordinator may take to write
QUESTIONS_PER_REQUEST: Final = 500
QUESTIONS_AT_ONCE: Final = 50  # of one caller: a few milliseconds of the loop, and one commit for all of them
PASSING: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class Nodes(Protocol):
    """`peer.peers.Peers`, as far as it is needed here."""

    @property
    def directory(self) -> Directory: ...

    async def ask(self, node_id: int, request: Request, answer: type[Any], *, timeout_ms: int) -> Any: ...


class NodePersister:
    """Implements coordinator.share.persister.Persister."""

    def __init__(
        self,
        node_id: int,
        runtime: Runtime,
        nodes: Nodes,
        image: Callable[[], Image],
        coordinator: Callable[[], ShareCoordinator],
        create_topic: Callable[[], Awaitable[object]],
        start: Callable[[str, Coroutine[Any, Any, None]], object],
    ) -> None:
        """`start` runs a coroutine as a task of the node."""
        self._node_id = node_id
        self._runtime = runtime
        self._nodes = nodes
        self._image = image
        self._coordinator = coordinator
        self._create_topic = create_topic
        self._start = start
        self._waiting: dict[tuple[int, str, str], list[_Asked]] = {}  # by node, kind and group
        self._creating = asyncio.Lock()
        self._under_way: set[tuple[int, str, str]] = set()

    # --- what a persister does

    async def initialize(
        self, group_id: str, partitions: Sequence[tuple[bytes, int, int, int]]
    ) -> dict[Partition, ErrorCode]:
        asked = {(topic_id, index): (epoch, offset) for topic_id, index, epoch, offset in partitions}
        return cast("dict[Partition, ErrorCode]", await self._ask_all(INITIALIZE, group_id, asked))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        return cast("ShareState | ErrorCode", await self._ask(Question(READ, key, (leader_epoch,))))

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        values = (leader_epoch, state_epoch, start_offset, delivery_complete_count, batches)
        return cast(ErrorCode, await self._ask(Question(WRITE, key, values)))

    async def summaries(
        self, group_id: str, partitions: Sequence[tuple[bytes, int, int]]
    ) -> dict[Partition, ShareSummary | ErrorCode]:
        asked = {(topic_id, index): (leader_epoch,) for topic_id, index, leader_epoch in partitions}
        return cast("dict[Partition, ShareSummary | ErrorCode]", await self._ask_all(SUMMARY, group_id, asked))

    async def delete(self, group_id: str, partitions: Sequence[Partition]) -> dict[Partition, ErrorCode]:
        asked: dict[Partition, tuple[Any, ...]] = dict.fromkeys(partitions, ())
        return cast("dict[Partition, ErrorCode]", await self._ask_all(DELETE, group_id, asked))

    # --- one question, until it is answered

    async def _ask_all(
        self, kind: Kind, group_id: str, asked: Mapping[Partition, tuple[Any, ...]]
    ) -> dict[Partition, Told]:
        found: dict[Partition, Told] = {}
        partitions = list(asked)
        for start in range(0, len(partitions), QUESTIONS_AT_ONCE):
            some = partitions[start : start + QUESTIONS_AT_ONCE]
            told = await asyncio.gather(
                *(self._ask(Question(kind, SharePartitionKey(group_id, *each), asked[each])) for each in some)
            )
            found.update(zip(some, told, strict=True))
        return found

    async def _ask(self, question: Question) -> Told:
        clock = self._runtime.clock
        deadline_ns = clock.monotonic_ns() + DEADLINE_MS * NS_PER_MS
        backoff = Backoff(self._runtime.randomness)
        while True:
            told = await self._ask_once(question)
            pause_ms = backoff.next_ms()
            is_over = clock.monotonic_ns() + pause_ms * NS_PER_MS > deadline_ns
            if is_over or not self._passes(told, question.key):
                return told
            await asyncio.sleep(pause_ms / 1000)

    def _passes(self, told: Told, key: SharePartitionKey) -> bool:
        """Whether the error is one of a moment. A coordinator whose metadata is older may not know the topic yet."""
        if told is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            topic = self._image().topic(key.topic_id)
            return topic is not None and 0 <= key.partition < len(topic.partitions)
        return isinstance(told, ErrorCode) and told in PASSING

    async def _ask_once(self, question: Question) -> Told:
        if self._image().topic_named(STATE_TOPIC) is None:
            async with self._creating:
                if self._image().topic_named(STATE_TOPIC) is None:
                    await self._create_topic()
        coordinator = self._coordinator()
        node_id = self._nodes.directory.leader_of(STATE_TOPIC, coordinator.partition_for(question.key.text))
        if node_id is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if node_id == self._node_id:
            return cast(Told, await question.kind.ask_here(coordinator, question.key, *question.values))
        asked = _Asked(question)
        route = node_id, question.kind.name, question.key.group_id
        self._waiting.setdefault(route, []).append(asked)
        self._send(route)
        return await asked.answer

    # --- requests to other nodes

    def _send(self, route: tuple[int, str, str]) -> None:
        waiting = [each for each in self._waiting.pop(route, ()) if not each.answer.done()]
        if route in self._under_way or not waiting:
            if waiting:
                self._waiting[route] = waiting
            return
        now: dict[SharePartitionKey, _Asked] = {}
        later: list[_Asked] = []
        for each in waiting:  # a partition is in a request once: results are told apart by it
            if each.question.key in now or len(now) == QUESTIONS_PER_REQUEST:
                later.append(each)
            else:
                now[each.question.key] = each
        if later:
            self._waiting[route] = later
        self._under_way.add(route)
        self._start(f"share state at node {route[0]}", self._deliver(route, list(now.values())))

    async def _deliver(self, route: tuple[int, str, str], asked: list[_Asked]) -> None:
        node_id, name, group_id = route
        kind = asked[0].question.kind
        try:
            request = as_sent(kind, group_id, [each.question for each in asked])
            response = await self._nodes.ask(node_id, request, kind.response, timeout_ms=REQUEST_MS)
            told = answers_in(kind, response)
            for each in asked:
                key = each.question.key
                each.end(told.get((key.topic_id, key.partition), ErrorCode.UNKNOWN_SERVER_ERROR))
        except asyncio.CancelledError:  # the node stops: nothing is sent any more
            for each in self._waiting.pop(route, ()):
                each.end(ErrorCode.NETWORK_EXCEPTION)
            raise
        except PeerError as fault:
            log.warning("could not send %s of group %s to broker %d: %s", name, group_id, node_id, fault)
        finally:
            for each in asked:
                each.end(ErrorCode.NETWORK_EXCEPTION)  # unless it was answered
            self._under_way.discard(route)
            self._send(route)


class _Asked:
    __slots__ = ("answer", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()

    def end(self, told: Told) -> None:
        """Does nothing if it has ended before, or if the caller has gone."""
        if not self.answer.done():
            self.answer.set_result(told)
