"""Executes commands about the quorum itself, on its leader: descriptions and membership changes.

These commands write no records: members are in the log as entries of their own. One change runs at a time. A request
that is repeated while it runs, or soon after, is executed once.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Any

from chronik.metadata.commands.command import LedQuorum, QuorumCommand, Reply, RequestId
from chronik.metadata.errors import NotController, refuse
from chronik.raft.addresses import Address
from chronik.raft.driver import RaftNode
from chronik.raft.errors import Dropped, MembershipRefused, NotLeader, OutcomeUnknown, RaftError
from chronik.raft.messages import Role
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode

REMEMBERED_MAX = 64  # answers kept for repeated requests


class QuorumDuties:
    """Belongs to one store, which uses it only while its node leads."""

    def __init__(self, clock: Clock) -> None:
        self.own_address: Address | None = None
        self._clock = clock
        self._answers: dict[tuple[int, int, int], asyncio.Future[Reply]] = {}  # by request, oldest first
        self._changing = asyncio.Lock()

    def carry_out(self, raft: RaftNode, command: QuorumCommand[Any], request: RequestId) -> asyncio.Future[Reply]:
        key = request[:3]
        if key not in self._answers:
            if len(self._answers) >= REMEMBERED_MAX:
                del self._answers[next(iter(self._answers))]
                check(
                    len(self._answers) < REMEMBERED_MAX,
                    "23 answers that are remembered are bounded",
                    count=len(self._answers),
                )
            done = self._answers[key] = asyncio.ensure_future(self._work(raft, command))
            done.add_done_callback(partial(self._ended, key))
        return asyncio.shield(self._answers[key])

    def _ended(self, key: tuple[int, int, int], done: asyncio.Future[Reply]) -> None:
        """NotController is not remembered: this node may lead again when the request is repeated."""
        error = None if done.cancelled() else done.exception()  # read it here: the caller may have given up
        if (done.cancelled() or isinstance(error, NotController)) and self._answers.get(key) is done:
            del self._answers[key]

    async def _work(self, raft: RaftNode, command: QuorumCommand[Any]) -> Reply:
        quorum = LedQuorum(raft, self._clock, self.own_address)
        try:
            async with self._changing if command.changes_members else nullcontext():
                await _confirm(raft)
                reply: Reply = await command.carry_out(quorum)
                return reply
        except MembershipRefused as error:
            refuse(ErrorCode.INVALID_REQUEST, str(error))
        except (NotLeader, OutcomeUnknown, Dropped) as error:
            raise NotController(raft.leader_id) from error
        except RaftError as error:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))


async def _confirm(raft: RaftNode) -> None:
    """A leader that was deposed without knowing it would answer from an outdated state, and an operator who reads that
    a node is not a voter may erase its disk."""
    await raft.read_index()
    if raft.role is not Role.LEADER:
        raise NotController(raft.leader_id)
