"""Adds a voter to the quorum.

The node starts as a learner. It becomes a voter when it has everything that was committed when it asked, and reports
that it is ready to vote. So a wrong address costs only a delay. A node that is not ready must not become a voter: it
could prevent the others from electing the leader that it waits for.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from chronik.metadata.commands.command import NOWHERE, LedQuorum, QuorumCommand, Reply
from chronik.metadata.errors import NotController, refuse
from chronik.raft.addresses import Address
from chronik.raft.changes import Action, Change
from chronik.raft.driver import RaftNode
from chronik.raft.messages import Role
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import int32, string, uint16

LOOK_EVERY_S = 0.02  # polling interval for a joining node's progress


class AddVoterReply(Reply):
    pass


class AddVoter(QuorumCommand[AddVoterReply]):
    changes_members: ClassVar[bool] = True

    node_id: int32
    host: string
    port: uint16
    timeout_ms: int32

    async def carry_out(self, quorum: LedQuorum) -> AddVoterReply:
        raft, node_id = quorum.raft, self.node_id
        if node_id in raft.members.voters:
            refuse(ErrorCode.DUPLICATE_VOTER, f"node {node_id} votes already")
        if node_id < 0 or not self.host or not self.port:
            refuse(ErrorCode.INVALID_REQUEST, f"node {node_id} at {self.host}:{self.port} cannot be reached")
        if quorum.own_address and raft.addresses.get(raft.node_id, NOWHERE) == NOWHERE:
            await raft.change_membership(Change(Action.UPDATE, raft.node_id), quorum.own_address)
        was_known = node_id in raft.members.learners
        await raft.change_membership(Change(Action.ADD_LEARNER, node_id), Address(self.host, self.port))
        if not await _caught_up(raft, node_id, self.timeout_ms):
            if not was_known:
                await raft.change_membership(Change(Action.REMOVE, node_id))
            refuse(
                ErrorCode.REQUEST_TIMED_OUT,
                f"node {node_id} at {self.host}:{self.port} did not take the log within {self.timeout_ms} ms: "
                "is it running, does it listen there for the quorum, and can it be reached?",
            )
        await raft.change_membership(Change(Action.ADD_VOTER, node_id))
        return AddVoterReply()


async def _caught_up(raft: RaftNode, node_id: int, timeout_ms: int) -> bool:
    """Whether the node has everything that is committed now and is ready to vote, before the timeout."""
    target = raft.commit_index
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + timeout_ms / 1000
    while raft.match_indexes().get(node_id, 0) < target or not raft.may_vote(node_id):
        if raft.role is not Role.LEADER:
            raise NotController(raft.leader_id)
        if loop.time() > give_up_s:
            return False
        await asyncio.sleep(LOOK_EVERY_S)
    return True
