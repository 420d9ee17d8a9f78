"""Invariants of the consensus core between two events, whatever its peers send. Checked at every tick.

They relate fields that different modules change: election, appending, membership and reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.raft.messages import NOBODY, Role
from chronik.runtime.invariants import broken

if TYPE_CHECKING:
    from chronik.raft.core import Core


def check_core(core: Core) -> None:
    log = core.log
    if log.last_index != log.held_to:
        broken("28 a log ends where its entries end", end=log.last_index, held_to=log.held_to)
    if not log.applied <= log.applying <= log.committed <= log.last_index:
        broken(
            "3 applied <= applying <= committed <= end of the log",
            applied=log.applied,
            applying=log.applying,
            committed=log.committed,
            end=log.last_index,
        )
    if not log.offset <= log.in_progress <= max(log.last_index, log.offset - 1) + 1:
        broken("21 what is being written lies in the log", offset=log.offset, in_progress=log.in_progress)
    if core.uncommitted_bytes < 0 or log.applying_bytes < 0:
        broken(
            "26 entries are counted until they are applied", bytes=core.uncommitted_bytes, applying=log.applying_bytes
        )
    if core.election_timeout_ticks < core.config.election_ticks:
        broken("6 no node stands before promises are over", ticks=core.election_timeout_ticks)
    members = core.members
    if len(core.progress) != len(members.voters) + len(members.learners):
        broken("1 every member is followed once", followed=sorted(core.progress), members=members)
    for peer_id, peer in core.progress.items():
        if peer_id not in (members.learners if peer.is_learner else members.voters):
            broken("1 only voters count for a majority", peer=peer_id, members=members)
    if core.role is Role.LEADER:
        _check_leader(core)
        return
    if core.lease_holders:
        broken("6 only a leader waits for holders of leases", holders=sorted(core.lease_holders), role=core.role.name)
    if core.reads.confirming or core.reads.waiting:
        broken("6 only a leader confirms reads", role=core.role.name, reads=len(core.reads.confirming))
    if core.transferee != NOBODY:
        broken("1 only a leader hands over", role=core.role.name, to=core.transferee)
    if core.role is Role.CANDIDATE and core.vote != core.id:
        broken("1 a candidate has voted for itself", term=core.term, vote=core.vote)


def _check_leader(core: Core) -> None:
    log = core.log
    if core.leader != core.id or core.vote != core.id:
        broken("1 a leader follows nobody else", term=core.term, leader=core.leader, vote=core.vote)
    if log.last_term != core.term:
        broken("3 a leader's log ends in its term", term=core.term, end=log.last_index, end_term=log.last_term)
    if core.probation is not None:
        broken("1 a leader has compared its log with the others'", term=core.term)
    if core.pending_change_index > log.last_index:
        broken("1 a change of members that is pending is in the log", index=core.pending_change_index)
    if core.heartbeat_elapsed >= core.config.heartbeat_ticks:
        broken(
            "25 a leader's heartbeats leave in time", elapsed=core.heartbeat_elapsed, ticks=core.config.heartbeat_ticks
        )
    if core.transferee != NOBODY and core.transferee not in core.progress:
        broken("1 a leader hands over to a member", to=core.transferee)
    for peer, progress in core.progress.items():
        if not 0 <= progress.match < progress.next or progress.match > log.last_index:
            broken("3 no peer holds what its leader lacks", peer=peer, match=progress.match, next=progress.next)
