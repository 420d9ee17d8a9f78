"""Decides commands in order, each on the newest state, including proposed but uncommitted changes.

The working state is the last committed image plus the records of all commands decided since. It lasts for one
leadership; if a proposal fails, it is discarded with everything decided on top of it. The controller never waits and
never uses the quorum. It sends no replies: `writer` proposes its decisions and releases the replies when they are
committed.

A request that this or an earlier controller applied is not decided again: the state holds its reply.
"""

from __future__ import annotations

from typing import Any

from chronik.metadata.commands.command import Command, ControllerCommand, Reply, RequestId, SessionCommand
from chronik.metadata.decisions.decision import ControllerState, Decision, Rules
from chronik.metadata.delta import Delta
from chronik.metadata.errors import refuse
from chronik.metadata.formats import FORMAT_FEATURE, NEWEST, raised_for
from chronik.metadata.image import Image, View
from chronik.metadata.records import AppliedRequestRecord, MetadataRecord
from chronik.metadata.replay import replay
from chronik.metadata.sessions import BrokerSessions
from chronik.runtime.invariants import broken
from chronik.wire.compiler import decode, encode
from chronik.wire.error_codes import ErrorCode


class Controller:
    """Serves one leadership. `now_ns` is the monotonic clock, used only for broker sessions."""

    def __init__(self, image: Image, rules: Rules, *, session_timeout_ns: int, now_ns: int) -> None:
        self.rules = rules
        self.sessions = BrokerSessions(image, timeout_ns=session_timeout_ns, now_ns=now_ns)
        self._delta = Delta(image)

    @property
    def newest(self) -> View:
        """The state on which the next command will be decided."""
        return self._delta

    def handle(self, command: ControllerCommand[Any], request: RequestId, now_ns: int) -> Decision[Reply]:
        """Decides a command and adopts the result. Raises MetadataRefused and changes nothing."""
        if (earlier := self._reply_to(command, request)) is not None:
            return Decision([], earlier)
        decision = self._decide(command, now_ns)
        if not decision.records:
            return decision
        if self._delta.features.get(FORMAT_FEATURE) != NEWEST:
            decision.records[:0] = raised_for(self._delta, decision.records)
        applied = AppliedRequestRecord(
            node_id=request.node_id,
            incarnation=request.incarnation,
            sequence=request.sequence,
            answered_below=request.answered_below,
            reply=encode(decision.reply, 0),
        )
        decision.records.append(applied)
        self.assume(decision.records)
        if not self.has_decided(request):
            broken(
                "5 what was decided is remembered under its request",
                node=request.node_id,
                incarnation=request.incarnation,
                sequence=request.sequence,
            )
        return decision

    def has_decided(self, request: RequestId) -> bool:
        """Whether this request already changed the newest state, so that its reply is available."""
        applied = self._delta.applied.get(request.node_id)
        return (
            applied is not None and applied.incarnation == request.incarnation and request.sequence in applied.replies
        )

    def assume(self, records: list[MetadataRecord]) -> None:
        """Adds these records to the working state."""
        replay(self._delta, records)

    def settle(self) -> None:
        """Frees data that only older states need; call it periodically, for example with each proposal."""
        before = self._delta
        self._delta = Delta(before.finish(0)[0])
        if len(self._delta.topics_by_name) != len(self._delta.topics) or self._delta.brokers != before.brokers:
            broken("4 what was decided stays decided", topics=len(self._delta.topics), brokers=len(before.brokers))

    def _decide(self, command: ControllerCommand[Any], now_ns: int) -> Decision[Reply]:
        state = ControllerState(self._delta, self.rules, lambda broker_id: self.sessions.alive(broker_id, now_ns))
        decision = command.decide(state)
        if isinstance(command, SessionCommand):
            command.update_sessions(self.sessions, decision, now_ns)
        return decision

    def _reply_to(self, command: Command[Any], request: RequestId) -> Reply | None:
        """The reply given when this request was applied; None for a new request."""
        applied = self._delta.applied.get(request.node_id)
        if applied is None or request.incarnation > applied.incarnation:
            return None
        if request.incarnation < applied.incarnation or request.sequence < applied.answered_below:
            refuse(
                ErrorCode.STALE_BROKER_EPOCH,
                f"request {request.sequence} of node {request.node_id} comes from its past, and nobody waits for it",
            )
        reply = applied.replies.get(request.sequence)
        return None if reply is None else decode(command.reply_type, 0, reply)
