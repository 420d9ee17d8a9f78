"""Messages that no node of the quorum can have sent: refused, counted, and without a trace in term, vote or log."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from chronik.raft.addresses import Address, encode_image
from chronik.raft.bounds import INDEX_RISE_MAX, TERM_RISE_MAX, implausible
from chronik.raft.changes import Action, Change, ChangeSet
from chronik.raft.codec import NUMBER_MAX
from chronik.raft.messages import Entry, EntryKind, Membership, Message, MessageKind, Role, Snapshot
from tests.raft.quorum_in_memory import Quorum
from tests.raft.test_driver import in_virtual_time

TERM, LAST_INDEX = 7, 100
IMAGE = encode_image({1: Address("n1", 9093)}, b"state")
CHANGE = ChangeSet((Change(Action.ADD_LEARNER, 4),), Address("n4", 9093).encode(), is_single=True)
APPEND = Message(MessageKind.APPEND, 1, 2, TERM, 6, 90, (Entry(6, 91, EntryKind.NORMAL, b"x"), Entry(7, 92)), 90)
SNAPSHOT = Message(MessageKind.SNAPSHOT, 1, 2, TERM, snapshot=Snapshot(300, 7, Membership((1, 2), (3,)), IMAGE))


def with_entries(*entries: Entry) -> Message:
    return replace(APPEND, entries=entries)


def with_snapshot(snapshot: Snapshot) -> Message:
    return replace(SNAPSHOT, snapshot=snapshot)


@pytest.mark.parametrize(
    "message",
    [
        APPEND,
        SNAPSHOT,
        replace(APPEND, term=TERM + TERM_RISE_MAX),
        with_entries(Entry(7, 91, CHANGE.entry_kind, CHANGE.encode())),
        Message(MessageKind.READ_INDEX, 1, 2, context=b"read"),
        Message(MessageKind.TRANSFER_LEADER, 1, 3),
        Message(MessageKind.PRE_VOTE_REPLY, 1, 2, 0, reject=True),
        Message(MessageKind.VOTE, 1, 2, TERM + 1, 7, 10_000),
        Message(MessageKind.APPEND_REPLY, 1, 2, TERM, 5, 90, reject=True, hint=80),
        with_snapshot(Snapshot(LAST_INDEX + INDEX_RISE_MAX, 7, Membership((2,)), IMAGE)),
    ],
)
def test_what_nodes_send_is_taken(message: Message) -> None:
    assert implausible(message, term=TERM, last_index=LAST_INDEX) is None


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (replace(APPEND, term=TERM + TERM_RISE_MAX + 1), "this node is in 7"),
        (Message(MessageKind.HEARTBEAT, 1, 2, NUMBER_MAX - 1), "this node is in 7"),
        (Message(MessageKind.VOTE, 1, 2, NUMBER_MAX - 1), "this node is in 7"),
        (Message(MessageKind.PRE_VOTE_REPLY, 1, 2, NUMBER_MAX - 1), "this node is in 7"),
        (Message(MessageKind.HEARTBEAT, 1, 2, 0), "HEARTBEAT of no term"),
        (replace(APPEND, term=0), "APPEND of no term"),
        (replace(SNAPSHOT, term=0), "SNAPSHOT of no term"),
        (Message(MessageKind.VOTE, 1, 2, 0), "VOTE of no term"),
        (Message(MessageKind.VOTE_REPLY, 1, 2, 0), "VOTE_REPLY of no term"),
        (replace(APPEND, log_term=TERM + 1), "entry of term 8 in term 7"),
        (with_entries(Entry(5, 91)), "behind one of 6"),
        (with_entries(Entry(7, 91), Entry(6, 92)), "behind one of 7"),
        (with_entries(Entry(8, 91)), "in term 7"),
        (with_entries(Entry(7, 91, EntryKind.CHANGE, b"no change")), "membership change"),
        (with_entries(Entry(7, 91, CHANGE.entry_kind, CHANGE._replace(context=b"\xff").encode())), "address of node 4"),
        (replace(APPEND, kind=MessageKind.HEARTBEAT), "no append"),
        (Message(MessageKind.PROPOSE, 1, 2, entries=(Entry(0, 0, EntryKind.NORMAL, b"x"),)), "a proposal"),
        (replace(SNAPSHOT, snapshot=None), "none where one belongs"),
        (replace(SNAPSHOT, kind=MessageKind.HEARTBEAT), "another kind"),
        (with_snapshot(Snapshot(300, 8, Membership((1,)), IMAGE)), "term 8 in term 7"),
        (with_snapshot(Snapshot(LAST_INDEX + INDEX_RISE_MAX + 1, 7, Membership((1,)), IMAGE)), "a snapshot of index"),
        (with_snapshot(Snapshot(300, 7, Membership(()), IMAGE)), "no members"),
        (with_snapshot(Snapshot(300, 7, Membership((1, 1)), IMAGE)), "no members"),
        (with_snapshot(Snapshot(300, 7, Membership((1,), (1,)), IMAGE)), "no members"),
        (with_snapshot(Snapshot(300, 7, Membership((-1,)), IMAGE)), "no members"),
        (with_snapshot(Snapshot(300, 7, Membership((1,)), b"no image")), "snapshot of 8 bytes"),
    ],
)
def test_what_no_node_sends_is_refused(message: Message, why: str) -> None:
    told = implausible(message, term=TERM, last_index=LAST_INDEX)
    assert told is not None
    assert why in told


@pytest.mark.parametrize(
    "kind",
    [MessageKind.APPEND, MessageKind.HEARTBEAT, MessageKind.VOTE, MessageKind.VOTE_REPLY, MessageKind.APPEND_REPLY],
)
@in_virtual_time
async def test_a_forged_term_does_not_end_the_quorum(kind: MessageKind) -> None:
    """A term at the end of its range would leave no room for the next election, on every disk and for good."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    await leader.propose(b"one")
    term = leader.term
    for node_id, port in quorum.network.ports.items():
        assert port.receive is not None
        port.receive(Message(kind, node_id, sender=3 if node_id != 3 else 1, term=NUMBER_MAX - 1))
    await asyncio.sleep(1)
    leader = await quorum.leader()
    assert leader.term == term, "nobody even had to vote again"
    await leader.propose(b"two")
    for node_id in (1, 2, 3):
        quorum.crash(node_id)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    await leader.propose(b"three")
    assert quorum.ledgers[leader.node_id].values == [b"one", b"two", b"three"]
    assert leader.term < term + 100
    await quorum.stop()


@pytest.mark.parametrize("kind", [MessageKind.HEARTBEAT, MessageKind.APPEND, MessageKind.SNAPSHOT])
@in_virtual_time
async def test_a_message_of_no_term_does_not_put_a_candidates_term_back(kind: MessageKind) -> None:
    """It would forget that it voted, and could vote twice in one term."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1)
    node = quorum.nodes[1]
    await quorum.until(lambda: node.role in (Role.CANDIDATE, Role.PRE_CANDIDATE))
    term = node.term
    receive = quorum.network.ports[1].receive
    assert receive is not None
    snapshot = Snapshot(50, 1, Membership((1, 2, 3)), IMAGE) if kind is MessageKind.SNAPSHOT else None
    receive(Message(kind, 1, 2, 0, snapshot=snapshot))
    await asyncio.sleep(0.01)
    assert node.term >= term > 0
    await quorum.stop()


@in_virtual_time
async def test_nothing_that_a_peer_sends_stops_the_node(caplog: pytest.LogCaptureFixture) -> None:
    """An entry that cannot be read would stop every node that applies it, again after each start."""
    quorum = Quorum(1, 2, 3)
    await quorum.start(1, 2, 3)
    leader = await quorum.leader()
    node = next(node for node in quorum.nodes.values() if node is not leader)
    receive = quorum.network.ports[node.node_id].receive
    assert receive is not None
    last, term = node.last_index, node.term
    forged = Entry(term, last + 1, EntryKind.CHANGE, b"\xff\xff")
    append = Message(MessageKind.APPEND, node.node_id, leader.node_id, term, term, last, (forged,), last + 1)
    unreadable = Entry(term, last + 1, EntryKind.NORMAL, b"?")
    snapshot = Snapshot(last + 10, term, Membership((1, 2, 3)), b"no image")
    state = Snapshot(last + 10, term, Membership((1, 2, 3)), encode_image({}, b"?"))
    with caplog.at_level(logging.WARNING, "chronik.raft"):
        for _ in range(9):
            receive(append)
            receive(replace(append, entries=(unreadable,)))
            receive(Message(MessageKind.SNAPSHOT, node.node_id, leader.node_id, term, snapshot=snapshot))
            receive(Message(MessageKind.SNAPSHOT, node.node_id, leader.node_id, term, snapshot=state))
        await asyncio.sleep(1)
    assert not node.stopped
    assert node.last_index == last
    assert node.refusals.count == 36
    assert len(caplog.records) == 4, "one line for each of three causes, and one at the tenth of the same"
    await leader.propose(b"on")
    await quorum.stop()
