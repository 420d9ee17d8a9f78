"""Carries this node's commands to the controller, and the replies back, over the quorum's own streams.

A waiter is registered before its command is sent, so no reply can arrive too early. Nothing is resent here: the caller
gets NotController when the leader changes, the stream breaks or the timeout ends, and retries with the same request id.
The controller applies each id once.

A note is a kind, the number of the question, then a body that depends on the kind. An older or newer release may not
know a command: a note that cannot be read is refused, never guessed at. A node speaks only for itself: the request id
must be its own, and so must the broker in a command that only that broker may send. A node that is not a member of the
quorum may ask only whether it is still registered; see `raft.admission`. Its question changes nothing. Only the
controller knows the current members, so other nodes do not refuse requests: they name the leader.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import Command, Reply, RequestId
from chronik.metadata.commands.registry import COMMANDS, NUMBER_OF
from chronik.metadata.decisions.broker_epochs import check_broker_epoch
from chronik.metadata.errors import MetadataError, MetadataRefused, NotController, refuse
from chronik.metadata.image import View
from chronik.raft.interfaces import Notes
from chronik.runtime.buggify import ANSWER_LOST, QUESTION_DOUBLED, QUESTION_LOST
from chronik.runtime.invariants import check
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import WireError

logger = logging.getLogger("chronik.metadata")

ASK, DONE, REFUSED, ELSEWHERE = range(1, 5)
_HEAD = struct.Struct(">BQ")  # kind, number of the question
_REQUEST = struct.Struct(">qqqqB")  # the four numbers of the request id, then the command's number; its bytes follow
_VERSION = struct.Struct(">Q")  # of the image that reflects the command; the reply's bytes follow
_REFUSAL = struct.Struct(">Qh")  # version of the image that was decided on, error code; the message follows
_LEADER = struct.Struct(">q")  # the leader that the answering node knows; -1: none

# Questions that one process can ask before its numbers reach those of the next: its incarnation is in milliseconds.
QUESTIONS_BITS = 20

NOT_A_MEMBER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED  # the answer to a node that is not, or no longer, a member

Decide = Callable[[Command[Any], RequestId], asyncio.Future[Reply]]
ForwardedReply = tuple[Reply | MetadataError, int]  # the answer, and the version of the image that reflects it


class _Question(NamedTuple):
    to: int
    reply: type[Reply]
    answered: asyncio.Future[ForwardedReply]


class Forwarding:
    """`decide` and `newest` are the controller's, and raise NotController elsewhere; `version` is this node's
    image's."""

    def __init__(
        self,
        notes: Notes,
        decide: Decide,
        newest: Callable[[], View],
        version: Callable[[], int],
        *,
        incarnation: int,
    ) -> None:
        self._notes, self._decide, self._newest, self._version = notes, decide, newest, version
        self._loop = asyncio.get_running_loop()
        # Each process starts at its own number: a late answer to an earlier process must find no waiter.
        self._count = incarnation << QUESTIONS_BITS
        self._waiting: dict[int, _Question] = {}  # by number

    async def ask(self, to: int, command: Command[Any], request: RequestId, timeout_s: float) -> ForwardedReply:
        """Raises NotController when no answer will come; the command may still have been applied."""
        self._count += 1
        number = self._count
        check(number not in self._waiting, "27 a question has a number of its own", number=number)
        answered: asyncio.Future[ForwardedReply] = self._loop.create_future()
        self._waiting[number] = _Question(to, command.reply_type, answered)
        head = _HEAD.pack(ASK, number) + _REQUEST.pack(*request, NUMBER_OF[type(command)])
        try:
            if QUESTION_LOST.is_on and QUESTION_LOST.fires():
                raise NotController(to)
            if not self._notes.send_note(to, head + encode(command, 0)):
                raise NotController(to)
            if QUESTION_DOUBLED.is_on and QUESTION_DOUBLED.fires():
                self._notes.send_note(to, head + encode(command, 0))
            async with asyncio.timeout(timeout_s):
                return await answered
        except TimeoutError:
            raise NotController(to) from None
        finally:
            del self._waiting[number]

    def leader_changed(self, leader_id: int | None) -> None:
        """Fails all questions to other nodes, so that callers ask the new leader."""
        for question in self._waiting.values():
            if question.to != leader_id and not question.answered.done():
                question.answered.set_exception(NotController(leader_id))

    def receive(self, peer: int, note: bytes) -> None:
        try:
            kind, number = _HEAD.unpack_from(note)
            body = memoryview(note)[_HEAD.size :]
            if kind == ASK:
                self._serve(peer, number, body)
            else:
                self._take_answer(kind, peer, number, body)
        except (struct.error, WireError, IndexError, UnicodeDecodeError) as error:
            logger.warning("node %d sent a note of %d bytes that cannot be read: %s", peer, len(note), error)

    # The controller's side

    def _serve(self, peer: int, number: int, body: memoryview) -> None:
        *ids, which = _REQUEST.unpack_from(body)
        request = RequestId(*ids)
        try:
            if which >= len(COMMANDS):
                refuse(ErrorCode.UNSUPPORTED_VERSION, "the controller runs an older release, which cannot do this")
            command = decode(COMMANDS[which], 0, body[_REQUEST.size :])
            self._check_sender(peer, command, request)
            done = self._decide(command, request)
        except MetadataError as error:
            self._send(peer, number, error)
            return
        done.add_done_callback(partial(self._decided, peer, number))

    def _check_sender(self, peer: int, command: Any, request: RequestId) -> None:
        is_own = request.node_id == peer and (not command.is_own_duty or command.broker_id == peer)
        if not is_own:
            refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"node {peer} asked in another node's name")
        if not self._notes.is_member(peer):
            view = self._newest()
            if isinstance(command, BrokerHeartbeat):
                check_broker_epoch(view, command.broker_id, command.broker_epoch)
            refuse(NOT_A_MEMBER, f"node {peer} is not a member of this quorum: add it with `chronik cluster add`")

    def _decided(self, peer: int, number: int, done: asyncio.Future[Reply]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            body = _VERSION.pack(self._version()) + encode(done.result(), 0)
            self._notes.send_note(peer, _HEAD.pack(DONE, number) + body)
        elif isinstance(error, MetadataError):
            self._send(peer, number, error)
        else:
            raise error  # a bug: the loop reports it to the node

    def _send(self, peer: int, number: int, error: MetadataError) -> None:
        if isinstance(error, MetadataRefused):
            body = _REFUSAL.pack(self._version(), error.error_code) + error.message.encode()
            self._notes.send_note(peer, _HEAD.pack(REFUSED, number) + body)
        else:
            leader = error.leader_id if isinstance(error, NotController) else None
            body = _LEADER.pack(-1 if leader is None else leader)
            self._notes.send_note(peer, _HEAD.pack(ELSEWHERE, number) + body)

    # The caller's side

    def _take_answer(self, kind: int, peer: int, number: int, body: memoryview) -> None:
        question = self._waiting.get(number)
        if question is None or question.answered.done() or question.to != peer:
            return  # the question timed out, or was sent to another node since
        if ANSWER_LOST.is_on and ANSWER_LOST.fires():
            return
        if kind == DONE:
            (version,) = _VERSION.unpack_from(body)
            question.answered.set_result((decode(question.reply, 0, body[_VERSION.size :]), version))
        elif kind == REFUSED:
            version, code = _REFUSAL.unpack_from(body)
            message = bytes(body[_REFUSAL.size :]).decode()
            question.answered.set_result((MetadataRefused(ErrorCode.of(code), message), version))
        elif kind == ELSEWHERE:
            (leader,) = _LEADER.unpack_from(body)
            question.answered.set_exception(NotController(None if leader < 0 else leader))
