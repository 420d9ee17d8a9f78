"""Submits this node's commands to the controller, and retries until it has replied.

A command gets a request id, so it is applied once however often it arrives. If this node is the controller, it decides
the command itself. Otherwise it forwards the command, and returns the reply only when this node's own image reflects
it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar, cast

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, ControllerCommand, QuorumCommand, Reply, RequestId
from chronik.metadata.errors import MetadataError, NotController, StoreClosed, refuse
from chronik.metadata.forwarding import Forwarding
from chronik.metadata.image import View
from chronik.metadata.quorum import QuorumDuties
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.metadata.store import MetadataStore

PAUSE_S = 0.05  # before a command looks for a controller again; an election ends the pause

R = TypeVar("R", bound=Reply)


class Submitter:
    """A part of the store. `forwarding` is None in a quorum of one."""

    def __init__(self, store: MetadataStore, incarnation: int) -> None:
        self.forwarding: Forwarding | None = None
        self.quorum = QuorumDuties(store.runtime.clock)
        self.incarnation = incarnation
        self.unanswered: dict[int, None] = {}  # sequences, ascending
        self.behind: dict[asyncio.Future[None], int] = {}  # waiters for a version of the image
        self._store = store
        self._clock, self._config = store.runtime.clock, store.config
        self._loop = asyncio.get_running_loop()
        self._sequence = 0
        self._elected = asyncio.Event()  # set when the leader changes, and cleared by its waiters

    async def submit(self, command: Command[R]) -> R:
        """Raises NotController, or MetadataRefused if the whole command is refused; items carry their own error
        codes."""
        if self._store.closed:
            raise StoreClosed
        command.draw_ids(self._store.runtime.randomness)
        request = self.next_request()
        since_ns = self._clock.monotonic_ns()
        reply: Reply | None = None
        try:
            reply = await self._carry_out(command, request)
        finally:
            del self.unanswered[request.sequence]
            if self._store.on_answer is not None:
                now_ns = self._clock.monotonic_ns()
                self._store.on_answer(command, reply, now_ns - since_ns, now_ns)
        return cast(R, reply)

    async def _carry_out(self, command: Command[Any], request: RequestId) -> Reply:
        """Repeats the request until a controller has replied; the request id makes that harmless."""
        give_up_s = self._loop.time() + self._config.submit_timeout_ms / 1000
        asked = self._store.leader_id
        while True:
            try:
                if self._store.control.writer is not None:
                    return await self.decide(command, request)
                return await self._forward(asked, command, request)
            except NotController as error:
                leader_id = self._store.leader_id
                if not self._may_forward(command) or self._loop.time() > give_up_s:
                    # Without its hint: the last node asked may not be the leader.
                    raise NotController(leader_id) from error
                await self.pause()
                asked = self._next_to_ask(asked, error.leader_id)

    def decide(self, command: Command[Any], request: RequestId) -> asyncio.Future[Reply]:
        """Decides a command of any node, as the controller."""
        control = self._store.control
        if control.writer is None:
            raise NotController(self._store.leader_id)
        if isinstance(command, QuorumCommand):
            return self.quorum.carry_out(self._store.raft, command, request)
        if isinstance(command, BrokerHeartbeat) and command.broker_id in control.deaf():
            refuse(ErrorCode.REQUEST_TIMED_OUT, f"broker {command.broker_id} has not taken the metadata for too long")
        assert isinstance(command, ControllerCommand)
        return control.writer.submit(command, request)

    def newest(self) -> View:
        """The controller's working state."""
        writer = self._store.control.writer
        if writer is None:
            raise NotController(self._store.leader_id)
        return writer.controller.newest

    def _next_to_ask(self, asked: int | None, named: int | None) -> int | None:
        """The leader, as far as this node knows. If that node did not answer: the one it named, or else the next.

        This is the only way for a node that was removed from the quorum to find the leader, because no leader sends it
        anything.
        """
        leader_id = self._store.leader_id
        if leader_id not in (None, asked):
            return leader_id
        if named not in (None, asked):
            return named
        others = sorted(node_id for node_id in self._store.raft.addresses if node_id != self._store.node_id)
        later = [node_id for node_id in others if asked is None or node_id > asked]
        return next(iter(later or others), None)

    def _may_forward(self, command: Command[Any]) -> bool:
        return self.forwarding is not None and (self._config.forwarding or command.is_own_duty)

    async def _forward(self, leader_id: int | None, command: Command[Any], request: RequestId) -> Reply:
        if leader_id is None or leader_id == self._store.node_id or not self._may_forward(command):
            raise NotController(leader_id)
        assert self.forwarding is not None
        timeout_s = self._config.answer_timeout_ms / 1000
        answer, version = await self.forwarding.ask(leader_id, command, request, timeout_s)
        if isinstance(answer, MetadataError) and command.needs_no_image:
            raise answer  # no client sees it, and a removed node will never catch up
        try:
            async with asyncio.timeout(timeout_s):
                await self.caught_up(version)
        except TimeoutError:
            raise NotController(leader_id) from None
        if isinstance(answer, MetadataError):
            raise answer
        return answer

    async def pause(self) -> None:
        """Waits for a short time, or until a leader is elected."""
        if self._store.closed:
            raise StoreClosed
        self._elected.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_S):
                await self._elected.wait()

    async def caught_up(self, version: int) -> None:
        """Waits until this node's image has this version."""
        if self._store.image.version < version:
            waits: asyncio.Future[None] = self._loop.create_future()
            self.behind[waits] = version
            try:
                await waits
            finally:  # also after a timeout: otherwise a stalled node would accumulate waiters
                self.behind.pop(waits, None)

    def leader_changed(self, leader_id: int | None) -> None:
        self._elected.set()
        if self.forwarding is not None:
            self.forwarding.leader_changed(leader_id)

    def applied(self) -> None:
        """The store has a newer image."""
        for waits, version in self.behind.items():
            if self._store.image.version >= version and not waits.done():
                waits.set_result(None)

    def close(self) -> None:
        for waits in self.behind:
            waits.cancel()

    def failed(self) -> None:
        """Nothing more will be applied. Ends all waits for a controller or for a newer image."""
        self._elected.set()
        for waits in self.behind:
            if not waits.done():
                waits.set_exception(StoreClosed())

    def next_request(self) -> RequestId:
        applied = self._store.image.applied.get(self._store.node_id)
        if self._sequence == 0 and applied is not None:
            # After losing its disk a node numbers by the clock, which may be behind that of its last process.
            self.incarnation = max(self.incarnation, applied.incarnation + 1)
        self._sequence += 1
        self.unanswered[self._sequence] = None
        return RequestId(self._store.node_id, self.incarnation, self._sequence, next(iter(self.unanswered)))
