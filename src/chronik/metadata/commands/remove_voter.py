"""Removes a voter from the quorum, if the remaining voters have a majority without it. Otherwise the quorum would be
lost, and the removal could not be undone."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from chronik.metadata.commands.command import LedQuorum, QuorumCommand, Reply
from chronik.metadata.errors import refuse
from chronik.raft.changes import Action, Change
from chronik.runtime.units import NS_PER_MS
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import boolean, int32

ABSENT_MS = 1_000  # many heartbeats; a voter that is silent or lags this long counts as unavailable


class RemoveVoterReply(Reply):
    pass


class RemoveVoter(QuorumCommand[RemoveVoterReply]):
    """The node's broker continues to read the log, unless it leaves the quorum `entirely`."""

    changes_members: ClassVar[bool] = True

    node_id: int32
    entirely: boolean = False

    async def carry_out(self, quorum: LedQuorum) -> RemoveVoterReply:
        raft = quorum.raft
        node_id, members = self.node_id, raft.members
        if node_id not in (*members.voters, *(members.learners if self.entirely else ())):
            refuse(ErrorCode.VOTER_NOT_FOUND, f"node {node_id} does not vote; these do: {list(members.voters)}")
        if members.voters == (node_id,):
            refuse(ErrorCode.INVALID_REQUEST, f"node {node_id} is the only voter: add another one first")
        if node_id in members.voters:
            _require_majority_without(quorum, node_id)
        action = Action.REMOVE if self.entirely else Action.ADD_LEARNER
        await raft.change_membership(Change(action, node_id))
        return RemoveVoterReply()


def _require_majority_without(quorum: LedQuorum, node_id: int) -> None:
    """Unavailable voters commit nothing. If they were the majority, no voter could be added either."""
    raft = quorum.raft
    stay = [voter for voter in raft.members.voters if voter != node_id]
    lags_ms = raft.lag_ms()
    lost = [
        voter
        for voter in stay
        if voter != raft.node_id and (_silent_ms(quorum, voter) > ABSENT_MS or lags_ms.get(voter, 0) > ABSENT_MS)
    ]
    if 2 * (len(stay) - len(lost)) <= len(stay):
        refuse(
            ErrorCode.INVALID_REQUEST,
            f"without node {node_id} the quorum could decide nothing: of the voters that stay, {stay}, "
            f"{lost} are down or far behind; bring them back or remove them first",
        )


def _silent_ms(quorum: LedQuorum, peer: int) -> float:
    heard_ns = quorum.raft.health.heard_ns(peer)
    return inf if heard_ns is None else (quorum.clock.monotonic_ns() - heard_ns) / NS_PER_MS
