"""Linearizable reads without a log write: read points confirmed by a quorum, and the leader's lease. Reads no clock.

A leader may have been replaced without noticing. So it answers a read with its commit index only after a majority
acknowledged a heartbeat that it sent after the request, and only after it committed an entry of its own term.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from chronik.raft import heartbeats
from chronik.raft.messages import NOBODY, Message, MessageKind, ReadState
from chronik.raft.quorum import confirmed
from chronik.runtime.invariants import broken, check

if TYPE_CHECKING:
    from chronik.raft.core import Core

WAITING_READS_MAX = 4096  # requests before the first commit of a term; retries could grow it without bound


class ReadMode(Enum):
    QUORUM = "quorum"  # a heartbeat round confirms each read point
    LEASE = "lease"  # trusts the leader while check_quorum keeps it in office; needs bounded clock drift


@dataclass(frozen=True, slots=True)
class _Read:
    request: Message
    index: int
    acknowledged: dict[int, bool]  # peer: whether it remembers its votes


class PendingReads:
    def __init__(self) -> None:
        self.confirming: dict[bytes, _Read] = {}  # by context, oldest first
        self.waiting: deque[Message] = deque(maxlen=WAITING_READS_MAX)

    def clear(self) -> None:
        self.confirming.clear()
        self.waiting.clear()

    @property
    def newest_context(self) -> bytes:
        """Repeated in every heartbeat, so that losing one does not delay a read."""
        return next(reversed(self.confirming), b"")

    def confirmed_to(self, context: bytes) -> list[_Read]:
        """Removes and returns the read with this context and all earlier ones: confirming one confirms those before."""
        check(context in self.confirming, "6 a read is confirmed once", context=context)
        done = []
        for each in list(self.confirming):
            done.append(self.confirming.pop(each))
            if each == context:
                break
        return done


def on_read_index(core: Core, message: Message) -> None:
    if core.members.voters == (core.id,):
        _answer(core, message, core.log.committed)
    elif core.log.term(core.log.committed) != core.term:
        core.reads.waiting.append(message)
    else:
        _confirm(core, message)


def release_waiting(core: Core) -> None:
    """The term has its first commit: continues the requests that arrived before it."""
    if core.log.term(core.log.committed) != core.term:
        return
    waiting = list(core.reads.waiting)
    core.reads.waiting.clear()
    for message in waiting:
        _confirm(core, message)


def _confirm(core: Core, message: Message) -> None:
    check(
        core.log.term(core.log.committed) == core.term,
        "6 a read waits for the first commit of its leader's term",
        term=core.term,
        committed=core.log.committed,
    )
    if core.config.read_mode is ReadMode.LEASE:
        _answer(core, message, core.log.committed)
        return
    if message.context not in core.reads.confirming:
        core.reads.confirming[message.context] = _Read(message, core.log.committed, {core.id: True})
    heartbeats.broadcast(core, message.context)


def on_heartbeat_acknowledged(core: Core, message: Message) -> None:
    read = core.reads.confirming.get(message.context)
    if read is None:
        return
    read.acknowledged[message.sender] = not message.reject
    if confirmed(core.members.voters, read.acknowledged):
        for each in core.reads.confirmed_to(message.context):
            if each.index > core.log.committed:
                broken("6 a read point is committed", index=each.index, committed=core.log.committed)
            _answer(core, each.request, each.index)


def _answer(core: Core, request: Message, index: int) -> None:
    if request.sender in (NOBODY, core.id):
        core.read_states.append(ReadState(index, request.context))
    else:
        core.send(MessageKind.READ_INDEX_REPLY, request.sender, index=index, context=request.context)


def forward(core: Core, message: Message) -> None:
    """Forwards this node's own requests only. Otherwise two followers that each take the other for the leader would
    loop."""
    if core.leader != NOBODY and message.sender == core.id:
        core.post(replace(message, to=core.leader))


def on_reply(core: Core, message: Message) -> None:
    core.read_states.append(ReadState(message.index, message.context))
