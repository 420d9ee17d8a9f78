"""What transcripts cannot say: read points, size limits, and that no message of a peer makes the core raise."""

from __future__ import annotations

from random import Random

import pytest

from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.core import STEPS, Core, CoreConfig
from chronik.raft.errors import Dropped, Refusal
from chronik.raft.messages import (
    ABSTAINS,
    NOBODY,
    Entry,
    EntryKind,
    HardState,
    Membership,
    Message,
    MessageKind,
    Ready,
    Role,
    Snapshot,
)
from chronik.raft.reads import ReadMode
from chronik.raft.stable_log import StableLog

THREE = Membership((1, 2, 3))


def core(node_id: int = 1, members: Membership = THREE, **options: object) -> Core:
    stable = StableLog(lambda: Snapshot(5, 1, members))
    stable.restart_behind(5, 1)
    defaults: dict[str, object] = {"pre_vote": False, "check_quorum": False, "election_ticks": 5}
    config = CoreConfig(node_id=node_id, jitter=lambda bound: 0, **(defaults | options))
    return Core(config, stable, hard_state=HardState(1, NOBODY, 5), members=members, applied=5)


def handle(node: Core) -> list[Message]:
    """Does at once what a Ready requires, and returns the messages to other nodes."""
    sent: list[Message] = []
    while node.has_ready():
        ready = node.ready()
        node.log.stable.append(ready.entries)
        sent += [message for message in (*ready.messages, *ready.after_persist) if message.to != node.id]
        node.advance(ready)
    return sent


def leader(committed: bool = True, **options: object) -> Core:
    """Node 1 leads term 2; node 2 holds its first entry if `committed`."""
    node = core(**options)
    node.campaign()
    handle(node)
    node.step(Message(MessageKind.VOTE_REPLY, 1, 2, 2))
    handle(node)
    if committed:
        node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=6))
        handle(node)
        assert node.log.applied == 6
    assert node.role is Role.LEADER
    return node


def next_ready(node: Core) -> Ready:
    ready = node.ready()
    node.advance(ready)
    return ready


# Reads


def test_a_read_point_needs_a_quorum_that_answers_a_later_heartbeat() -> None:
    """An old leader would not find one."""
    node = leader()
    node.read_index(b"r1")
    ready = next_ready(node)
    assert ready.read_states == ()
    assert [(message.kind, message.to, message.context) for message in ready.messages] == [
        (MessageKind.HEARTBEAT, 2, b"r1"),
        (MessageKind.HEARTBEAT, 3, b"r1"),
    ]
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, context=b""))
    assert node.read_states == []
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 3, 2, context=b"r1"))
    assert [(state.index, state.context) for state in node.ready().read_states] == [(6, b"r1")]


def test_one_answer_confirms_all_reads_before_it() -> None:
    node = leader()
    for context in (b"r1", b"r2", b"r3"):
        node.read_index(context)
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, context=b"r2"))
    assert [state.context for state in node.read_states] == [b"r1", b"r2"]


def test_a_lost_round_is_repeated_by_the_next_heartbeat() -> None:
    node = leader()
    node.read_index(b"r1")
    handle(node)
    node.tick()
    assert {message.context for message in handle(node)} == {b"r1"}


def test_a_read_waits_for_the_first_commit_of_the_term() -> None:
    """Before that the leader may not know of everything that was committed."""
    node = leader(committed=False)
    node.read_index(b"r1")
    handle(node)
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, context=b"r1"))
    assert node.read_states == []
    node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=6))
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, context=b"r1"))
    assert [state.index for state in node.read_states] == [6]


def test_a_followers_read_goes_to_the_leader_and_back() -> None:
    node, follower = leader(), core(2)
    follower.step(Message(MessageKind.HEARTBEAT, 2, 1, 2, commit=5))
    handle(follower)
    follower.read_index(b"r1")
    (request,) = handle(follower)
    assert (request.kind, request.to, request.sender) == (MessageKind.READ_INDEX, 1, 2)
    node.step(request)
    handle(node)
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 3, 2, context=b"r1"))
    (reply,) = (message for message in handle(node) if message.kind is MessageKind.READ_INDEX_REPLY)
    follower.step(reply)
    assert [(state.index, state.context) for state in follower.read_states] == [(6, b"r1")]


def test_a_request_passed_on_by_another_follower_goes_no_further() -> None:
    """Two nodes that each believe the other leads would forward it back and forth."""
    follower = core(2)
    follower.step(Message(MessageKind.HEARTBEAT, 2, 1, 2, commit=5))
    handle(follower)
    follower.step(Message(MessageKind.READ_INDEX, 2, 3, context=b"r"))
    follower.step(Message(MessageKind.TRANSFER_LEADER, 2, 3, term=2))
    assert handle(follower) == []


def test_reads_are_forgotten_with_the_leadership() -> None:
    node = leader()
    node.read_index(b"r1")
    handle(node)
    node.step(Message(MessageKind.APPEND, 1, 3, 3, 2, 6))
    handle(node)
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 3, context=b"r1"))
    assert node.read_states == []


def test_a_single_voter_and_the_lease_mode_answer_at_once() -> None:
    alone = core(members=Membership((1,)))
    alone.campaign()
    handle(alone)
    alone.read_index(b"r")
    assert [state.index for state in alone.read_states] == [6]
    leased = leader(check_quorum=True, read_mode=ReadMode.LEASE)
    leased.read_index(b"r")
    assert [state.index for state in leased.read_states] == [6]


# Nodes that lost their disks


def test_who_does_not_remember_its_votes_confirms_no_read() -> None:
    """It may have elected another leader and forgotten it."""
    node = leader()
    node.read_index(b"r1")
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 3, 2, reject=True, context=b"r1"))
    assert node.read_states == []
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, context=b"r1"))
    assert [state.index for state in node.read_states] == [6]


def test_who_does_not_remember_its_votes_commits_nothing_until_it_votes_again() -> None:
    """With its vote, a later leader may have committed another entry at the same index. Once it has caught up, all its
    entries count at once."""
    node, wiped = leader(committed=False), core(3)
    wiped.abstains = True
    wiped.step(Message(MessageKind.APPEND, 3, 1, 2, 1, 5, (Entry(2, 6),)))
    for message in handle(wiped):
        node.step(message)
    assert (node.progress[3].match, node.log.committed, node.progress[3].may_vote) == (6, 5, False)
    wiped.abstains = False
    wiped.step(Message(MessageKind.HEARTBEAT, 3, 1, 2))
    for message in handle(wiped):
        node.step(message)
    assert node.log.committed == 6


def test_the_first_answer_to_an_append_commits() -> None:
    """The response says whether the peer votes, so no heartbeat is needed."""
    node, follower = leader(committed=False), core(2)
    follower.step(Message(MessageKind.APPEND, 2, 1, 2, 1, 5, (Entry(2, 6),)))
    for message in handle(follower):
        node.step(message)
    assert (node.log.committed, node.progress[2].may_vote) == (6, True)


def test_who_does_not_remember_its_votes_keeps_no_leader_in_office() -> None:
    node = leader(check_quorum=True)
    for _ in range(2 * node.config.election_ticks):
        node.tick()
        node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 3, 2, reject=True))
    assert node.role is Role.FOLLOWER


def test_of_two_voters_the_one_that_remembers_is_enough() -> None:
    """No leader can ever have been elected without it; or a pair would not get over the loss of one disk."""
    node = core(members=Membership((1, 2)))
    node.campaign()
    handle(node)
    node.step(Message(MessageKind.VOTE_REPLY, 1, 2, 2))
    handle(node)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=6, context=ABSTAINS))
    assert node.log.committed == 6
    node.read_index(b"r1")
    node.step(Message(MessageKind.HEARTBEAT_REPLY, 1, 2, 2, reject=True, context=b"r1"))
    assert [state.index for state in node.read_states] == [6]


# Elections and the disk


def test_giving_a_vote_restarts_the_election_timeout() -> None:
    """Otherwise a voter would campaign against the candidate that it has just voted for."""
    node = core(2)
    for _ in range(4):
        node.tick()
    node.step(Message(MessageKind.VOTE, 2, 1, 1, 1, 5))
    for _ in range(4):
        node.tick()
    assert node.role is Role.FOLLOWER
    node.tick()
    assert node.role is Role.CANDIDATE


def test_a_write_of_an_older_term_proves_nothing_about_the_same_entry_written_again() -> None:
    """Index 6 is written as 1/6, as 2/6 and as 1/6 again. After the first write the disk still has to write 2/6: a
    crash there would lose the entry that the first report seemed to prove."""
    node = core(2, async_writes=True)
    node.step(Message(MessageKind.APPEND, 2, 1, 1, 1, 5, (Entry(1, 6),)))
    first = node.ready()
    node.step(Message(MessageKind.APPEND, 2, 3, 2, 1, 5, (Entry(2, 6),)))
    second = node.ready()
    node.step(Message(MessageKind.APPEND, 2, 1, 3, 1, 5, (Entry(1, 6), Entry(3, 7))))
    third = node.ready()
    for ready in (first, second):
        node.log.stable.append(ready.entries)
        node.persisted(ready.persisted)
        assert node.log.offset == 6
    node.log.stable.append(third.entries)
    node.persisted(third.persisted)
    assert node.log.offset == 8


def test_a_restarted_voter_keeps_a_promise_it_may_have_forgotten() -> None:
    """For one election timeout it gives no vote, unless the old leader has agreed."""
    vote = Message(MessageKind.VOTE, 2, 1, 2, 1, 5)
    node = core(2, check_quorum=True, guards_promises=True, may_have_promised=True)
    node.step(vote)
    assert not node.has_ready()
    for _ in range(4):
        node.tick()
    node.step(vote)
    assert not node.has_ready()
    node.tick()
    node.step(vote)
    assert [message.kind for message in node.ready().after_persist if message.to == 1] == [MessageKind.VOTE_REPLY]
    forced = core(2, check_quorum=True, guards_promises=True, may_have_promised=True)
    forced.step(Message(MessageKind.VOTE, 2, 1, 2, 1, 5, context=b"transfer"))
    assert forced.has_ready()


def vote_of(node: Core, candidate: int, term: int, **options: object) -> list[bool]:
    """The candidate's results: True for each granted vote and pre-vote."""
    for kind in (MessageKind.PRE_VOTE, MessageKind.VOTE):
        node.step(Message(kind, node.id, candidate, term, 1, 5, **options))
    replies = (MessageKind.PRE_VOTE_REPLY, MessageKind.VOTE_REPLY)
    return [not message.reject for message in handle(node) if message.kind in replies and message.to == candidate]


GUARDED = {"check_quorum": True, "pre_vote": True, "guards_promises": True}


@pytest.mark.parametrize("newer", [3, 2], ids=["of a later term still", "of the term just learnt"])
def test_a_promise_to_a_leader_outlives_its_term(newer: int) -> None:
    """A message other than a vote brings the later term. The leader whose heartbeat was answered, and nodes that read
    by its lease, still rely on this node for one election timeout."""
    node = core(2, **GUARDED)
    node.step(Message(MessageKind.HEARTBEAT, 2, 1, 1, commit=5))
    node.step(Message(MessageKind.PRE_VOTE_REPLY, 2, 3, 2, reject=True))
    assert (node.term, node.leader) == (2, NOBODY)
    handle(node)
    for _ in range(4):
        assert True not in vote_of(node, 3, newer)
        node.tick()
    node.tick()
    assert True in vote_of(node, 3, newer)


def test_a_leader_that_is_deposed_keeps_its_promise_to_itself() -> None:
    """A follower reads by the lease that this leader granted, which relies on the leader's own vote."""
    node = leader(check_quorum=True, guards_promises=True)
    node.tick()
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 4))
    assert (node.role, node.term) == (Role.FOLLOWER, 4)
    handle(node)
    node.campaign()
    assert node.role is Role.FOLLOWER
    for _ in range(4):
        node.tick()
        node.step(Message(MessageKind.VOTE, 1, 3, 4, 2, 6))
        assert not any(message.kind is MessageKind.VOTE_REPLY and not message.reject for message in handle(node))
    node.tick()
    node.step(Message(MessageKind.VOTE, 1, 3, 6, 2, 6))
    assert [message.reject for message in handle(node) if message.kind is MessageKind.VOTE_REPLY] == [False]


def test_the_old_leader_itself_may_free_others_from_their_promise() -> None:
    """It has given up its lease before it asks its heir to campaign."""
    voter, heir = core(2, **GUARDED), core(3, **GUARDED)
    for node in (voter, heir):
        node.step(Message(MessageKind.HEARTBEAT, node.id, 1, 1, commit=5))
        handle(node)
    heir.step(Message(MessageKind.TIMEOUT_NOW, 3, 1, 1))
    assert heir.role is Role.CANDIDATE
    for message in handle(heir):
        if message.to == 2:
            voter.step(message)
    assert [message.reject for message in handle(voter) if message.kind is MessageKind.VOTE_REPLY] == [False]


def test_founders_have_promised_nothing() -> None:
    """So they elect one of them at once."""
    first, second = core(1, **GUARDED), core(2, **GUARDED)
    first.campaign()
    assert first.role is Role.PRE_CANDIDATE
    assert vote_of(second, 1, 2) == [True, True]


# Limits


def test_proposals_of_one_call_share_one_append_per_peer() -> None:
    node = leader()
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=6))
    handle(node)
    node.propose([b"a", b"b", b"c"])
    ready = next_ready(node)
    assert [len(message.entries) for message in ready.messages] == [3, 3]
    assert [entry.data for entry in ready.entries] == [b"a", b"b", b"c"]


def test_a_cut_off_leader_drops_proposals_at_the_limit() -> None:
    """Or its memory would grow for as long as the cut lasts."""
    node = leader(uncommitted_bytes_max=10)
    node.propose([b"12345678"])
    with pytest.raises(Dropped):
        node.propose([b"abc"])
    node.propose([b"ab"])
    handle(node)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=8))
    handle(node)
    node.propose([b"a lot more than ten bytes"])  # nothing is uncommitted: at least one always goes


def test_an_append_stays_below_its_size_but_carries_one_entry_at_least() -> None:
    node = leader(message_bytes_max=40)
    node.propose([b"x" * 10] * 4 + [b"y" * 100])
    handle(node)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=6))
    lengths = [len(message.entries) for message in handle(node) if message.to == 3 and message.entries]
    assert lengths == [2, 2, 1]


def test_bytes_in_flight_are_bounded() -> None:
    """The window closes after the append that fills it, and opens when the peer answers."""
    node = leader(inflight_bytes_max=25, message_bytes_max=1)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=6))
    handle(node)
    for _ in range(5):
        node.propose([b"x" * 10])
    sent = [message for message in handle(node) if message.to == 3]
    assert sum(len(message.entries) for message in sent) == 3
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=8))
    sent = [message for message in handle(node) if message.to == 3]
    assert sum(len(message.entries) for message in sent) == 2


def test_entries_to_apply_come_in_bounded_portions() -> None:
    node = leader(committed_bytes_max=30)
    node.propose([b"x" * 10] * 5)
    node.ready()
    node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=11))
    node.step(Message(MessageKind.APPEND_REPLY, 1, 1, 2, index=11))
    first = node.ready().committed
    assert len(first) == 1 or sum(entry.size_bytes for entry in first) <= 30
    assert node.ready().committed == ()  # not before these are applied
    node.applied(first)
    assert node.ready().committed


# Members


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ([Change(Action.ADD_VOTER, 4)], True),
        ([Change(Action.ADD_LEARNER, 4), Change(Action.ADD_LEARNER, 5)], True),
        ([Change(Action.REMOVE, 3)], True),
        ([Change(Action.ADD_VOTER, 4), Change(Action.ADD_VOTER, 5)], False),
        ([Change(Action.ADD_VOTER, 4), Change(Action.REMOVE, 3)], False),
        ([Change(Action.REMOVE, 1), Change(Action.REMOVE, 2), Change(Action.REMOVE, 3)], False),
        ([], False),
    ],
)
def test_only_one_voter_may_change_at_a_time(changes: list[Change], taken: bool) -> None:
    """Then any majority before shares a node with any majority after."""
    node = leader()
    node.propose_change(ChangeSet(tuple(changes)))
    (entry,) = node.ready().entries
    assert (entry.kind is EntryKind.CHANGES) is taken


def test_the_only_voter_is_not_removed() -> None:
    node = core(members=Membership((1,)))
    node.campaign()
    handle(node)
    node.propose_change(ChangeSet((Change(Action.REMOVE, 1),), is_single=True))
    assert node.ready().entries[0].kind is EntryKind.NORMAL


def test_an_answer_of_a_stranger_is_refused() -> None:
    assert leader().step(Message(MessageKind.APPEND_REPLY, 1, 9, 2, index=6)) is Refusal.UNKNOWN_PEER


# Hostile peers


def test_every_role_has_a_handler_for_every_kind() -> None:
    assert set(STEPS) == set(MessageKind)
    assert all(set(handlers) == set(Role) for handlers in STEPS.values())


def hostile(random: Random) -> Message:
    """Well-formed, as the codec ensures, and otherwise arbitrary."""
    index = random.choice([0, 4, 5, 6, 7, 8, 20, 2**40])
    count = random.choice([0, 0, 1, 2, 5])
    entries = tuple(
        Entry(random.randint(0, 4), index + 1 + at, random.choice(list(EntryKind)), random.randbytes(3))
        for at in range(count)
    )
    members = Membership(tuple(sorted(random.sample(range(1, 6), random.randint(0, 4)))))
    snapshot = Snapshot(random.choice([0, 5, 6, 9, 2**40]), random.randint(0, 4), members)
    return Message(
        kind=random.choice(list(MessageKind)),
        to=1,
        sender=random.randint(0, 5),
        term=random.choice([0, 1, 2, 2, 2, 3, 4]),
        log_term=random.randint(0, 4),
        index=index,
        entries=entries,
        commit=random.choice([0, 5, 6, 7, 2**40]),
        snapshot=snapshot if random.random() < 0.5 else None,
        reject=random.random() < 0.3,
        hint=random.choice([0, 5, 6, 2**40]),
        context=random.choice([b"", b"r1", b"transfer", b"x"]),
    )


@pytest.mark.slow
def test_nothing_a_peer_sends_makes_the_core_raise() -> None:
    """100,000 messages that no honest node would send, in all roles, with ticks and Readys between."""
    for seed in range(500):
        random = Random(seed)
        node = leader() if seed % 2 else core(pre_vote=seed % 4 == 0, check_quorum=seed % 3 == 0)
        for _ in range(200):
            node.step(hostile(random))
            if random.random() < 0.1:
                node.tick()
            if random.random() < 0.05:
                node.read_index(b"r1")
            if random.random() < 0.3 and node.has_ready():
                ready = node.ready()
                if ready.snapshot:
                    node.log.stable.restart_behind(ready.snapshot.index, ready.snapshot.term)
                node.log.stable.append(ready.entries)
                node.advance(ready)


def test_a_log_that_was_cut_behind_a_snapshot_under_way_gives_the_next_one() -> None:
    """The peer has installed the snapshot and cannot use the next entries, which only the leader knows."""
    snapshots = [Snapshot(5, 1, THREE)]
    stable = StableLog(lambda: snapshots[-1])
    stable.restart_behind(5, 1)
    config = CoreConfig(node_id=1, jitter=lambda bound: 0, pre_vote=False, check_quorum=False, election_ticks=5)
    node = Core(config, stable, hard_state=HardState(1, NOBODY, 5), members=THREE, applied=5)
    node.campaign()
    handle(node)
    node.step(Message(MessageKind.VOTE_REPLY, 1, 2, 2))
    handle(node)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=5, reject=True, hint=2))
    assert [(sent.to, sent.snapshot.index) for sent in handle(node) if sent.snapshot] == [(3, 5)]
    for index in (6, 7, 8):
        node.propose([b"value"])
        handle(node)
        node.step(Message(MessageKind.APPEND_REPLY, 1, 2, 2, index=index))
        handle(node)
    snapshots.append(Snapshot(8, 2, THREE))
    stable.compact(8)
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=5))
    assert [(sent.to, sent.snapshot.index) for sent in handle(node) if sent.snapshot] == [(3, 8)]
    node.step(Message(MessageKind.APPEND_REPLY, 1, 3, 2, index=8))
    assert [sent.kind for sent in handle(node) if sent.to == 3] == [MessageKind.APPEND]
