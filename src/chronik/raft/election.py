"""Role changes: campaigning, granting and counting votes, transferring leadership.

Decides nothing about entries. A vote is a promise: it leaves only after it is durable (`Ready.after_persist`). That
includes a candidate's vote for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronik.raft import appending, heartbeats, roles, snapshots
from chronik.raft.messages import FORCED, NOBODY, Entry, Message, MessageKind, Role
from chronik.raft.probation import LogEnd, Probation
from chronik.raft.quorum import Verdict, verdict
from chronik.runtime.invariants import check

if TYPE_CHECKING:
    from chronik.raft.core import Core


def _become_leader(core: Core) -> None:
    check(core.role is Role.CANDIDATE, "1 only a candidate is elected", term=core.term, role=core.role)
    check(core.vote == core.id, "1 a leader has voted for itself", term=core.term, vote=core.vote)
    granted = sum(1 for voter in core.members.voters if core.votes.get(voter))
    check(
        granted * 2 > len(core.members.voters) or not core.members.voters,
        "1 a leader has the votes of a majority",
        term=core.term,
        votes=granted,
        voters=len(core.members.voters),
    )
    core.probation = None
    roles.reset(core, core.term)
    core.role, core.leader = Role.LEADER, core.id
    own = core.progress[core.id]
    own.become_replicate()
    own.recently_active = True
    # Any change left in the log counts as pending, without a scan for one.
    core.pending_change_index = core.log.last_index
    # Entries of older terms are never committed by counting; committing this one commits them.
    check(appending.append_own(core, (Entry(0, 0),)), "3 an empty entry fits every limit", term=core.term)
    check(
        core.log.last_term == core.term and core.log.last_index == core.pending_change_index + 1,
        "3 a leader opens its term with an entry of its own",
        term=core.term,
        end=core.log.last_index,
        end_term=core.log.last_term,
    )


def stand(core: Core, *, forced: bool = False) -> None:
    """Starts a campaign, with a pre-vote first where configured. A forced one skips it, as the old leader agrees."""
    if core.role is Role.LEADER or not core.promotable:
        return
    if core.log.holds_change(core.log.applied + 1, core.log.committed):
        return  # it would count votes by an outdated membership
    if core.keeps_promise() and not forced and core.members.voters != (core.id,):
        return  # a vote for itself would break the promise too; a single voter has made none
    if core.config.pre_vote and not forced:
        roles.become_pre_candidate(core)
        _ask(core, MessageKind.PRE_VOTE, core.term + 1, context=b"")
    else:
        _run(core, forced=forced)


def _run(core: Core, *, forced: bool) -> None:
    roles.become_candidate(core)
    _ask(core, MessageKind.VOTE, core.term, context=FORCED if forced else b"")


def _ask(core: Core, kind: MessageKind, term: int, *, context: bytes) -> None:
    index, log_term = core.log.last_index, core.log.last_term
    for voter in core.members.voters:
        if voter == core.id:
            core.send(REPLY_TO[kind], core.id, term=term)
        else:
            core.send(kind, voter, term=term, index=index, log_term=log_term, context=context)


REPLY_TO = {MessageKind.VOTE: MessageKind.VOTE_REPLY, MessageKind.PRE_VOTE: MessageKind.PRE_VOTE_REPLY}


def on_vote(core: Core, message: Message) -> None:
    """Answers a vote or pre-vote. Learners answer too: the candidate's members may be newer than this node's."""
    may = (
        core.vote == message.sender  # repeated request
        or (core.vote == NOBODY and core.leader == NOBODY)
        or (message.kind is MessageKind.PRE_VOTE and message.term > core.term)
    )
    if core.keeps_promise() and message.context != FORCED:
        may = False  # promised to an older term's leader; another message brought the candidate's term here
    elif message.context != FORCED and not core.allows(LogEnd(message.log_term, message.index)):
        may = False
    reply = REPLY_TO[message.kind]
    if core.abstains or not may or not core.log.is_behind_or_equal(message.log_term, message.index):
        core.send(reply, message.sender, term=core.term, reject=True)
        return
    # A pre-vote is granted for the requested term: an answer in this node's term could be ignored as outdated.
    core.send(reply, message.sender, term=message.term)
    if message.kind is MessageKind.VOTE:
        check(
            core.vote in (NOBODY, message.sender),
            "1 one vote in a term",
            term=core.term,
            vote=core.vote,
            candidate=message.sender,
        )
        core.election_elapsed = 0
        core.vote = message.sender


def on_vote_reply(core: Core, message: Message) -> None:
    core.votes.setdefault(message.sender, not message.reject)  # the first answer counts
    _count(core)


def _count(core: Core) -> None:
    outcome = verdict(core.members.voters, core.votes)
    if outcome is Verdict.LOST:
        # A lost pre-vote may name a later term, but only a real message of that term proves that it exists.
        roles.become_follower(core, core.term, NOBODY)
    elif outcome is Verdict.WON and core.role is Role.PRE_CANDIDATE:
        if core.allows(core.log_end):
            _run(core, forced=False)
    elif outcome is Verdict.WON:
        _become_leader(core)
        appending.broadcast(core)


def tick_probation(core: Core, probation: Probation) -> None:
    probation.tick()
    if probation.is_over:
        core.probation = None
        return
    for voter in probation.unheard(core.members.voters):
        if voter != core.id:
            core.send(MessageKind.COMPARE, voter, term=0, log_term=core.log.last_term, index=core.log.last_index)


def on_compare(core: Core, message: Message) -> None:
    core.send(MessageKind.COMPARE_REPLY, message.sender, term=0, log_term=core.log.last_term, index=core.log.last_index)


def on_compared(core: Core, message: Message) -> None:
    """The last answer that a pre-candidate needed may arrive after the last vote."""
    _count(core)


def yield_to(core: Core, message: Message) -> None:
    """Another node leads this term: follow it, then handle the message."""
    roles.become_follower(core, core.term, message.sender)
    FOLLOWER_STEPS[message.kind](core, message)


FOLLOWER_STEPS = {
    MessageKind.APPEND: appending.on_append,
    MessageKind.HEARTBEAT: heartbeats.on_heartbeat,
    MessageKind.SNAPSHOT: snapshots.on_snapshot,
}


def on_transfer(core: Core, message: Message) -> None:
    """Transfers leadership to the sender: brings its log up to date, then asks it to campaign immediately."""
    peer = core.progress.get(message.sender)
    if peer is None or peer.is_learner or message.sender == core.transferee:
        return
    if message.sender == core.id:
        # A request to stay leader: cancels a pending transfer, unless this node must hand over.
        core.transferee = NOBODY
        return
    core.election_elapsed = 0  # the transfer must end within one election timeout
    core.transferee = message.sender
    if peer.match == core.log.last_index:
        core.send(MessageKind.TIMEOUT_NOW, message.sender)
    else:
        appending.send_append(core, message.sender)


def forward_transfer(core: Core, message: Message) -> None:
    """Forwards this node's own request. A request from another node is not forwarded, so it cannot go in circles."""
    if core.leader != NOBODY and not message.term:
        core.post(replace(message, to=core.leader, term=core.term))


def on_timeout_now(core: Core, message: Message) -> None:
    stand(core, forced=True)
