"""Describes the progress of each member of the quorum. Read-only; only the leader knows it."""

from __future__ import annotations

from chronik.metadata.commands.command import NOWHERE, LedQuorum, QuorumCommand, Reply
from chronik.runtime.units import NS_PER_MS
from chronik.wire.notation import Struct, boolean, int32, int64, string, uint16


class DescribeQuorumReply(Reply):
    leader_id: int32
    term: int32
    commit_index: int64
    members: list[QuorumMember]  # sorted by id


class QuorumMember(Struct):
    node_id: int32
    is_voter: boolean
    match_index: int64  # durable on the member, as far as known
    lag_ms: int64  # how long it has lacked an entry; 0: it lacks none
    silent_ms: int64  # since its last message; -1: none yet
    host: string
    port: uint16


class DescribeQuorum(QuorumCommand[DescribeQuorumReply]):
    async def carry_out(self, quorum: LedQuorum) -> DescribeQuorumReply:
        raft, now_ns = quorum.raft, quorum.clock.monotonic_ns()
        matches, lags_ms = raft.match_indexes(), raft.lag_ms()
        members = []
        for node_id in sorted((*raft.members.voters, *raft.members.learners)):
            heard_ns = now_ns if node_id == raft.node_id else raft.health.heard_ns(node_id)
            address = raft.addresses.get(node_id, NOWHERE)
            members.append(
                QuorumMember(
                    node_id=node_id,
                    is_voter=node_id in raft.members.voters,
                    match_index=matches.get(node_id, 0),
                    lag_ms=lags_ms.get(node_id, 0),
                    silent_ms=-1 if heard_ns is None else (now_ns - heard_ns) // NS_PER_MS,
                    host=address.host,
                    port=address.port,
                )
            )
        return DescribeQuorumReply(
            leader_id=raft.node_id, term=raft.term, commit_index=raft.commit_index, members=members
        )
