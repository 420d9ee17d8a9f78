"""The transitions between roles, except to leader: which state each clears and keeps. Sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.raft.messages import NOBODY, Role
from chronik.raft.progress import Inflights, Progress
from chronik.runtime.invariants import broken, check

if TYPE_CHECKING:
    from chronik.raft.core import Core


def become_follower(core: Core, term: int, leader: int) -> None:
    reset(core, term)
    core.role, core.leader = Role.FOLLOWER, leader


def heed(core: Core, leader: int) -> None:
    """This node's answer is a promise to the leader of its term, for one election timeout from now."""
    core.election_elapsed = core.promised_ticks_ago = 0
    core.leader = leader


def become_pre_candidate(core: Core) -> None:
    # Term and vote stay: a pre-vote is only a question, so a node that cannot win has no effect.
    check(core.role is not Role.LEADER, "1 a leader does not stand against itself", term=core.term)
    core.role, core.leader = Role.PRE_CANDIDATE, NOBODY
    core.votes.clear()


def become_candidate(core: Core) -> None:
    check(core.role is not Role.LEADER, "1 a leader does not stand against itself", term=core.term)
    before = core.term
    reset(core, core.term + 1)
    core.role, core.vote = Role.CANDIDATE, core.id
    check(core.term == before + 1, "2 a candidate stands in a term of its own", before=before, term=core.term)


def reset(core: Core, term: int) -> None:
    if term < core.term:
        broken("2 a term never goes back", term=core.term, to=term)
    if term != core.term:
        core.term, core.vote = term, NOBODY
    core.leader = core.transferee = NOBODY
    core.election_elapsed = core.heartbeat_elapsed = 0
    core.election_timeout_ticks = core.config.election_ticks + core.config.jitter(core.config.election_ticks)
    core.votes.clear()
    core.lease_holders = frozenset()
    core.pending_change_index = core.uncommitted_bytes = 0
    core.reads.clear()
    check(
        core.log.last_index >= core.log.committed,
        "3 what is committed stays in the log",
        end=core.log.last_index,
        committed=core.log.committed,
    )
    last_index = core.log.last_index
    for node_id, old in core.progress.items():
        core.progress[node_id] = Progress(
            match=last_index if node_id == core.id else 0,
            next_index=last_index + 1,
            is_learner=old.is_learner,
            inflights=Inflights(core.config.inflight_messages_max, core.config.inflight_bytes_max),
            recently_active=False,
        )
