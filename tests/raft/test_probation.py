"""A restarted voter may have lost acknowledged entries: it elects no node whose log ends before another voter's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chronik.raft.core import Core, CoreConfig
from chronik.raft.messages import NOBODY, Entry, HardState, Membership, Message, MessageKind, Role, Snapshot
from chronik.raft.probation import ANSWER_TIMEOUTS, CUT_TIMEOUTS, END_TIMEOUTS, LogEnd, Probation
from chronik.raft.stable_log import StableLog

ELECTION_TICKS = 5
VOTERS = Membership((1, 2, 3))


def voter(node_id: int, last_index: int, *, restarted: bool, jitter: int = 0) -> Core:
    stable = StableLog(lambda: Snapshot(5, 1, VOTERS))
    stable.restart_behind(5, 1)
    stable.append([Entry(2, index) for index in range(6, last_index + 1)])
    config = CoreConfig(
        node_id=node_id,
        jitter=lambda bound: jitter,
        election_ticks=ELECTION_TICKS,
        guards_promises=True,
        may_have_promised=restarted,
        compares_logs=True,
    )
    return Core(config, stable, hard_state=HardState(2, NOBODY, 5), members=VOTERS, applied=5)


class Trio:
    def __init__(self, *cores: Core) -> None:
        self.cores = {core.id: core for core in cores}
        self.dead: set[int] = set()

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            for node_id, core in self.cores.items():
                if node_id not in self.dead:
                    core.tick()
            self._deliver()

    def _deliver(self) -> None:
        moved = True
        while moved:
            moved = False
            for core in self.cores.values():
                for message in self._drain(core):
                    moved = True
                    if not {message.to, core.id} & self.dead:
                        self.cores[message.to].step(message)

    @staticmethod
    def _drain(core: Core) -> Sequence[Message]:
        sent: list[Message] = []
        while core.has_ready():
            ready = core.ready()
            core.log.stable.append(ready.entries)
            sent += [message for message in (*ready.messages, *ready.after_persist) if message.to != core.id]
            core.advance(ready)
        return sent

    @property
    def leaders(self) -> list[int]:
        return [node_id for node_id, core in self.cores.items() if core.role is Role.LEADER]


@pytest.mark.parametrize("first", [1, 2], ids=["the one that lost entries stands", "the one that was cut off stands"])
def test_a_voter_that_lost_acknowledged_entries_elects_nobody_without_them(first: int) -> None:
    """Node 1 held entry 9, which 1 and 3 committed, and has an old disk now. Node 2 was cut off all the time."""
    patience = {1: 0 if first == 1 else 2, 2: 0 if first == 2 else 2}
    trio = Trio(
        voter(1, 6, restarted=True, jitter=patience[1]),
        voter(2, 6, restarted=False, jitter=patience[2]),
        voter(3, 9, restarted=False, jitter=4),
    )
    trio.run(4 * ELECTION_TICKS)
    assert trio.leaders == [3]
    assert {core.log.last_index for core in trio.cores.values()} == {10}


def test_without_the_third_voter_two_elect_a_leader_after_they_waited_for_it() -> None:
    trio = Trio(voter(1, 6, restarted=True), voter(2, 6, restarted=True, jitter=1), voter(3, 9, restarted=False))
    trio.dead = {3}
    trio.run(ANSWER_TIMEOUTS * ELECTION_TICKS - 1)
    assert trio.leaders == []
    trio.run(3 * ELECTION_TICKS)
    assert len(trio.leaders) == 1


def test_a_voter_whose_log_was_cut_waits_longer_for_the_others() -> None:
    """The torn write at its end may have been an acknowledged entry that rotted."""
    trio = Trio(voter(1, 6, restarted=True), voter(2, 6, restarted=True, jitter=1), voter(3, 9, restarted=False))
    probation = trio.cores[1].probation
    assert probation is not None
    probation.doubt_more()
    trio.dead = {3}
    trio.run(CUT_TIMEOUTS * ELECTION_TICKS - 1)
    assert trio.leaders == []
    trio.run(3 * ELECTION_TICKS)
    assert len(trio.leaders) == 1


def test_a_better_log_that_cannot_be_elected_does_not_hold_the_others_up_for_ever() -> None:
    """For example its disk is full: it responds, and never campaigns."""
    trio = Trio(voter(1, 6, restarted=True), voter(2, 6, restarted=True, jitter=1), voter(3, 9, restarted=False))
    trio.cores[3].cannot_write = True
    trio.run(END_TIMEOUTS * ELECTION_TICKS - 1)
    assert trio.leaders == []
    trio.run(3 * ELECTION_TICKS)
    assert len(trio.leaders) == 1


def test_a_whole_quorum_that_restarts_waits_no_longer_than_before() -> None:
    trio = Trio(*(voter(node_id, 9, restarted=True, jitter=node_id) for node_id in VOTERS.voters))
    trio.run(ELECTION_TICKS + 2)
    assert trio.leaders == [1]


def test_a_new_quorum_compares_nothing() -> None:
    fresh = voter(1, 6, restarted=False)
    assert fresh.probation is None
    fresh.tick()
    assert not fresh.has_ready()


def test_a_leader_that_has_committed_in_its_own_term_ends_it() -> None:
    """Before that, its commit index may be lower than an earlier leader's."""
    node = voter(1, 6, restarted=True)
    node.step(Message(MessageKind.APPEND, 1, 3, 3, 2, 6, (Entry(2, 7),), commit=7))
    assert node.probation is not None
    node.step(Message(MessageKind.APPEND, 1, 3, 3, 2, 7, (Entry(3, 8),), commit=7))
    assert node.probation is not None
    node.step(Message(MessageKind.APPEND, 1, 3, 3, 3, 8, commit=8))
    assert node.probation is None


def test_the_leader_that_hands_over_needs_no_comparison() -> None:
    """It knows what it has committed, and chose an heir that has it."""
    node = voter(1, 6, restarted=True)
    node.step(Message(MessageKind.COMPARE_REPLY, 1, 2, log_term=2, index=50))
    node.step(Message(MessageKind.VOTE, 1, 3, 3, 2, 6, context=b"transfer"))
    replies = [message for message in node.ready().after_persist if message.kind is MessageKind.VOTE_REPLY]
    assert [message.reject for message in replies] == [False]


def test_a_later_term_counts_more_than_a_longer_log() -> None:
    probation = Probation(ELECTION_TICKS)
    probation.heard(2, LogEnd(2, 100))
    probation.heard(3, LogEnd(3, 7))
    assert not probation.allows(LogEnd(2, 100), [2, 3])
    assert not probation.allows(LogEnd(3, 6), [2, 3])
    assert probation.allows(LogEnd(3, 7), [2, 3])


def test_whoever_is_asked_answers_in_every_role_and_changes_nothing() -> None:
    node = voter(3, 9, restarted=False)
    before = (node.term, node.vote, node.role, node.leader)
    node.step(Message(MessageKind.COMPARE, 3, 1, log_term=2, index=6))
    assert (node.term, node.vote, node.role, node.leader) == before
    assert [(m.kind, m.to, m.log_term, m.index) for m in node.ready().messages] == [
        (MessageKind.COMPARE_REPLY, 1, 2, 9)
    ]
