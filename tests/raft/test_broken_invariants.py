"""State of the consensus core that must never be, made on purpose: the next event stops the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.raft import election
from chronik.raft.core import Core
from chronik.raft.leases import Lease
from chronik.raft.log import RaftLog
from chronik.raft.messages import NOBODY, Entry, Membership, Persisted, Role, Snapshot
from chronik.raft.progress import Inflights
from chronik.raft.roles import become_follower
from chronik.raft.stable_log import StableLog
from chronik.runtime.invariants import InvariantBroken
from tests.raft.test_core import core, leader

Break = Callable[[Core], object]


def ready_after(change: Break) -> Break:
    def act(node: Core) -> None:
        change(node)
        node.ready()

    return act


def tick_after(change: Break) -> Break:
    def act(node: Core) -> None:
        change(node)
        node.tick()

    return act


def set_(name: str, value: object) -> Break:
    return lambda node: setattr(node, name, value)


def set_in_log(name: str, value: object) -> Break:
    return lambda node: setattr(node.log, name, value)


def peer(name: str, value: int) -> Break:
    return lambda node: setattr(node.progress[2], name, value)


LEADERS: dict[str, tuple[str, Break]] = {
    "the term went back": ("2 a term", ready_after(set_("term", 1))),
    "the commit index went back": ("2 a commit index", ready_after(set_in_log("committed", 5))),
    "another vote in the term": ("1 one vote", ready_after(set_("vote", 3))),
    "committed behind the end": ("3 what is committed", ready_after(set_in_log("committed", 99))),
    "it follows another": ("1 a leader follows", ready_after(set_("leader", 2))),
    "applied ahead of committed": ("3 applied <=", tick_after(set_in_log("applied", 9))),
    "an end that is not where its entries end": ("28 a log ends where", tick_after(set_in_log("last_index", 7))),
    "a peer ahead of its leader": ("3 no peer holds", tick_after(peer("match", 50))),
    "a peer that is sent what it holds": ("3 no peer holds", tick_after(peer("next", 2))),
    "members nobody follows": ("1 every member", tick_after(set_("members", Membership((1, 2, 3, 4))))),
    "a learner that counts": ("1 only voters", tick_after(lambda node: setattr(node.progress[2], "is_learner", True))),
    "heartbeats that are late": ("25 a leader's", tick_after(set_("heartbeat_elapsed", 7))),
    "a hand-over to a stranger": ("1 a leader hands over", tick_after(set_("transferee", 9))),
    "a change that is not in the log": ("1 a change of members", tick_after(set_("pending_change_index", 80))),
    "an election before promises are over": ("6 no node stands", tick_after(set_("election_timeout_ticks", 1))),
    "less than nothing uncommitted": ("26 entries", tick_after(set_("uncommitted_bytes", -1))),
    "a log that was never compared": ("1 a leader has compared", tick_after(set_("probation", object()))),
    "a report of a later term": ("2 nothing was written", lambda node: node.persisted(Persisted(9, 6, 2))),
    "a term that goes back": ("2 a term", lambda node: become_follower(node, 1, NOBODY)),
    "a committed entry is replaced": ("3 a committed", lambda node: node.log.append([Entry(3, 6)])),
    "a hole in the log": ("28 entries join", lambda node: node.log.append([Entry(3, 9)])),
    "a snapshot from before": ("2 a snapshot", lambda node: node.log.restore(Snapshot(4, 1, Membership((1,))))),
    "applied twice": ("3 entries are applied", lambda node: node.log.applied_to(3, 0)),
}


@pytest.mark.parametrize("what", LEADERS)
def test_a_leader_that_cannot_be_stops(what: str) -> None:
    promise, act = LEADERS[what]
    with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
        act(leader())


FOLLOWERS: dict[str, tuple[str, Break]] = {
    "holders of leases": ("6 only a leader waits", set_("lease_holders", frozenset({2}))),
    "reads that it confirms": ("6 only a leader confirms", lambda node: node.reads.confirming.update({b"r": None})),
    "a hand-over": ("1 only a leader hands over", set_("transferee", 2)),
    "a candidate without its own vote": ("1 a candidate", set_("role", Role.CANDIDATE)),
}


@pytest.mark.parametrize("what", FOLLOWERS)
def test_a_follower_that_cannot_be_stops(what: str) -> None:
    promise, change = FOLLOWERS[what]
    with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
        tick_after(change)(core())


def test_nobody_leads_without_a_majority_of_votes() -> None:
    """Counting votes and becoming leader are two places; the second looks again."""
    node = core()
    node.campaign()
    node.votes.clear()
    with pytest.raises(InvariantBroken, match="invariant 1 a leader has the votes of a majority"):
        election._become_leader(node)


def test_a_log_on_disk_has_no_holes() -> None:
    stable = StableLog(lambda: None)
    stable.append([Entry(1, 1), Entry(1, 2)])
    with pytest.raises(InvariantBroken, match="28 the log has no holes"):
        stable.append([Entry(1, 3), Entry(1, 5)])
    stable.compact(2)
    with pytest.raises(InvariantBroken, match="2 a log never restarts before its base"):
        stable.restart_behind(1, 1)
    stable._entries, stable.last_index = [Entry(1, 7)], 3
    with pytest.raises(InvariantBroken, match="28 the log holds an entry at its index"):
        RaftLog(stable, applying_bytes_max=1 << 20).entries(3, 1 << 20)


def test_windows_and_leases_keep_their_books() -> None:
    window = Inflights(2, 0)
    window.add(1, 10)
    window.size_bytes = 3
    with pytest.raises(InvariantBroken, match="26 bytes in flight"):
        window.free_to(1)
    lease = Lease(1000)
    lease.asked(b"r1", 5, 0)
    with pytest.raises(InvariantBroken, match="6 a round of heartbeats has a context of its own"):
        lease.asked(b"r1", 5, 1)
    assert lease.confirmed(b"r1")
    with pytest.raises(InvariantBroken, match="6 a lease is asked for in the newest term"):
        lease.asked(b"r2", 4, 2)
