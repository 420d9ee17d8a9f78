"""Access to the quorum's port, on real sockets: members are accepted, guests may only ask, all others are refused."""

from __future__ import annotations

import asyncio
import logging
import struct

import pytest

from chronik.raft.addresses import Address
from chronik.raft.admission import VOUCHED_MAX, Admission
from chronik.raft.codec import encode_message
from chronik.raft.errors import MalformedMessage
from chronik.raft.framing import NOTE, FrameReader, Hello, frame
from chronik.raft.greeting import CHALLENGE, Connector
from chronik.raft.messages import MessageKind
from chronik.raft.transport import GUESTS_MAX, UNGREETED_MAX, TcpTransport
from tests.raft.test_transport import DEADLINE_S, End, end, heartbeat, on_a_loop, until

SECRET = b"sixteen bytes, or more"
NOWHERE = Address("127.0.0.1", 1)  # nothing listens there, and nothing needs to


class Stranger:
    """A client of the port that sends arbitrary data."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.heard = b""

    @classmethod
    async def at(cls, transport: TcpTransport) -> Stranger:
        stranger = cls(*await asyncio.open_connection(*transport.address))
        test = asyncio.current_task()
        assert test is not None
        test.add_done_callback(lambda _: stranger.leave())  # whatever the test does: its loop ends with it
        return stranger

    def say(self, *bodies: bytes) -> None:
        self._writer.write(b"".join(map(frame, bodies)))

    async def answer(self) -> bytes:
        """The next frame's body; empty when the connection is over."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                size_bytes, _ = struct.unpack(">II", await self._reader.readexactly(8))
                return await self._reader.readexactly(size_bytes)
            except (asyncio.IncompleteReadError, ConnectionResetError):
                return b""

    def leave(self) -> None:
        self._writer.close()


def hello(sender: int, cluster_id: str = "c", wanted: int = 1) -> bytes:
    return Hello(sender, wanted, cluster_id).encode()


def member_of_three(one: End) -> None:
    """Node 1 is in a quorum of 1, 2 and 3, as its log says."""
    one.transport.update_peers({1: one.transport.address, 2: NOWHERE, 3: NOWHERE})


@on_a_loop
async def test_an_unknown_node_without_a_cluster_is_refused_and_told_nothing() -> None:
    """It gives no reason to think that it belongs here; the cluster's id is not its business."""
    async with end(1) as one:
        member_of_three(one)
        stranger = await Stranger.at(one.transport)
        stranger.say(hello(77, cluster_id=""))
        assert await stranger.answer() == b""
        stranger.leave()


@on_a_loop
async def test_a_founder_meets_founders_only_and_before_there_is_a_cluster() -> None:
    """Nodes of controller.quorum.voters have no cluster id yet when they look for each other."""
    async with end(1, cluster_id="", configured=[1, 2, 3]) as one:
        founder, stranger = await Stranger.at(one.transport), await Stranger.at(one.transport)
        founder.say(hello(2, cluster_id=""))
        assert Hello.decode(await founder.answer()) == Hello(1, 2, "")
        founder.say(encode_message(heartbeat(1, 2)))
        await until(lambda: len(one.heard) == 1)
        stranger.say(hello(4, cluster_id=""))
        assert await stranger.answer() == b""
        founder.leave()
        stranger.leave()


@on_a_loop
async def test_a_founder_does_not_believe_a_stranger_that_there_is_a_cluster() -> None:
    """It would stop founding, and wait for a cluster that does not exist."""
    async with end(1, cluster_id="", configured=[1, 2, 3]) as one:
        met: list[str] = []
        one.transport.attach_notes(lambda peer, note: None, met.append)
        stranger, founder = await Stranger.at(one.transport), await Stranger.at(one.transport)
        stranger.say(hello(4, cluster_id="made up"))
        assert Hello.decode(await stranger.answer()).cluster_id == ""
        founder.say(hello(2, cluster_id="real"))
        assert await founder.answer()
        assert met == ["real"]
        founder.leave()
        stranger.leave()


@on_a_loop
async def test_what_a_guest_sends_does_not_reach_consensus() -> None:
    """The right cluster id alone is no membership: clients know it too."""
    async with end(1) as one:
        member_of_three(one)
        notes: list[tuple[int, bytes]] = []
        one.transport.attach_notes(lambda peer, note: notes.append((peer, note)), lambda cluster_id: None)
        guest = await Stranger.at(one.transport)
        guest.say(hello(77), encode_message(heartbeat(1, 77, term=9)), b"no message at all", NOTE + b"am I known?")
        assert Hello.decode(await guest.answer()).cluster_id == "c"
        await until(lambda: notes == [(77, b"am I known?")])
        assert one.heard == []
        assert not one.transport.is_member(77)
        assert one.transport.send_note(77, b"no"), "it may be told so"
        guest.leave()


@on_a_loop
async def test_a_guest_may_not_send_large_frames() -> None:
    async with end(1) as one:
        member_of_three(one)
        guest = await Stranger.at(one.transport)
        guest.say(hello(77), NOTE + bytes(100_000))
        assert await guest.answer()
        assert await guest.answer() == b""
        guest.leave()


@on_a_loop
async def test_a_member_vouches_for_one_that_this_node_has_not_heard_of() -> None:
    """Node 1 was away when 4 was added and elected: without its appends it could never catch up."""
    async with end(1) as one, end(2) as two, end(4) as four:
        one.transport.update_peers({1: one.transport.address, 2: two.transport.address})
        two.transport.update_peers({1: one.transport.address, 2: two.transport.address, 4: four.transport.address})
        await until(lambda: one.transport.connected(2))
        four.transport.update_peers({1: one.transport.address, 4: four.transport.address})
        await until(lambda: one.transport.is_member(4))
        four.transport.send(1, heartbeat(1, 4, term=5))
        await until(lambda: one.heard == [heartbeat(1, 4, term=5)])


@on_a_loop
async def test_nobody_vouches_for_a_stranger() -> None:
    async with end(1) as one, end(2) as two:
        for each in (one, two):
            each.transport.update_peers({1: one.transport.address, 2: two.transport.address})
        await until(lambda: one.transport.connected(2) and two.transport.connected(1))
        guest = await Stranger.at(one.transport)
        guest.say(hello(77), b"V" + struct.pack(">q", 77), encode_message(heartbeat(1, 77)))
        assert await guest.answer()
        two.transport.send(1, heartbeat(1, 2))  # after the answer to the question that 1 asked 2
        await until(lambda: len(one.heard) == 1)
        assert not one.transport.is_member(77)
        guest.leave()


@on_a_loop
async def test_a_member_that_was_removed_is_a_guest_from_then_on() -> None:
    async with end(1) as one:
        member_of_three(one)
        peer = await Stranger.at(one.transport)
        peer.say(hello(3), encode_message(heartbeat(1, 3)))
        await until(lambda: len(one.heard) == 1)
        one.transport.update_peers({1: one.transport.address, 2: NOWHERE})
        assert not one.transport.is_member(3)
        peer.say(encode_message(heartbeat(1, 3)), NOTE + b"")
        assert await peer.answer()
        assert len(one.heard) == 1
        peer.leave()


@on_a_loop
async def test_a_node_that_waits_to_be_added_hears_whoever_names_a_cluster() -> None:
    """It only knows its own id; the leader that adds it is the first node that contacts it."""
    async with end(4, cluster_id="") as four:
        four.transport.update_peers({})
        leader = await Stranger.at(four.transport)
        leader.say(hello(1, wanted=4), encode_message(heartbeat(4, 1)))
        await until(lambda: len(four.heard) == 1)
        leader.leave()


@on_a_loop
async def test_with_a_secret_only_those_who_know_it_are_greeted() -> None:
    async with end(1, secret=SECRET) as one, end(2, secret=SECRET) as two, end(3, secret=b"wrong" * 5) as three:
        for each in (two, three):
            each.transport.update_peers({1: one.transport.address})
        await until(lambda: two.transport.connected(1) and three.away.count(1) > 1)
        assert not three.transport.connected(1)
        two.transport.send(1, heartbeat(1, 2))
        await until(lambda: one.heard == [heartbeat(1, 2)])


@on_a_loop
async def test_with_a_secret_a_known_id_and_the_right_cluster_are_not_enough() -> None:
    async with end(1, secret=SECRET, configured=[1, 2, 3]) as one:
        stranger = await Stranger.at(one.transport)
        stranger.say(hello(2), encode_message(heartbeat(1, 2, term=9)))
        assert (await stranger.answer())[:4] == CHALLENGE
        assert await stranger.answer() == b""
        assert one.heard == []
        stranger.leave()


@on_a_loop
async def test_a_nonce_is_not_used_twice() -> None:
    async with end(1, secret=SECRET) as one:
        challenges = set()
        for _ in range(5):
            stranger = await Stranger.at(one.transport)
            stranger.say(Connector(Hello(2, 1, "c"), SECRET).begin())
            challenges.add(await stranger.answer())
            stranger.leave()
        assert len(challenges) == 5


@on_a_loop
async def test_connections_that_say_nothing_are_few_and_the_oldest_make_room() -> None:
    """A crowd of silent strangers may not keep a node out, which greets at once."""
    async with end(1) as one:
        member_of_three(one)
        silent = [await Stranger.at(one.transport) for _ in range(UNGREETED_MAX + 10)]
        assert await silent[0].answer() == b""
        peer = await Stranger.at(one.transport)
        peer.say(hello(2))
        assert Hello.decode(await peer.answer()).sender == 1
        await until(lambda: len(one.transport._ungreeted) <= UNGREETED_MAX)
        for each in (*silent, peer):
            each.leave()


@on_a_loop
async def test_guests_are_few() -> None:
    async with end(1) as one:
        member_of_three(one)
        guests = []
        for node_id in range(100, 100 + GUESTS_MAX + 5):
            guests.append(await Stranger.at(one.transport))
            guests[-1].say(hello(node_id))
            assert await guests[-1].answer()
        assert len(one.transport._guests) == GUESTS_MAX
        assert await guests[0].answer() == b""
        for each in guests:
            each.leave()


@on_a_loop
async def test_unfinished_frames_of_all_peers_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is allowed a snapshot, not all of them at once."""
    monkeypatch.setattr("chronik.raft.transport.HELD_BYTES_MAX", 150_000)
    async with end(1) as one:
        member_of_three(one)
        greedy = []
        for node_id in (2, 3):
            greedy.append(await Stranger.at(one.transport))
            greedy[-1].say(hello(node_id))
            assert await greedy[-1].answer()
        begun = frame(bytes([1, MessageKind.SNAPSHOT]) + bytes(1_000_000))[:100_000]
        for each in greedy:
            each._writer.write(begun)
        await until(lambda: one.transport.refusals.count == 1)
        assert one.transport.held_bytes <= 150_000
        for each in greedy:
            each.leave()
        await until(lambda: one.transport.held_bytes == 0)


@on_a_loop
async def test_a_stranger_that_tries_again_for_ever_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with end(1) as one:
        member_of_three(one)
        with caplog.at_level(logging.WARNING, "chronik.raft"):
            for node_id in range(50, 59):
                stranger = await Stranger.at(one.transport)
                stranger.say(hello(node_id, cluster_id=""))
                assert await stranger.answer() == b""
                stranger.leave()
        assert one.transport.refusals.count == 9
        assert len(caplog.records) == 1
        caplog.clear()


def test_what_members_vouch_for_is_bounded() -> None:
    admission = Admission(1, [1, 2])
    for node_id in range(10, 10 + VOUCHED_MAX + 5):
        admission.vouched_for(node_id)
    assert sum(map(admission.is_member, range(10, 1000))) == VOUCHED_MAX


def test_a_node_vouches_for_what_its_log_says_and_for_nothing_else() -> None:
    """Otherwise a node that is known to one node by hearsay would be known to all."""
    admission = Admission(1, [1, 2])
    admission.update([1, 3])
    admission.vouched_for(4)
    assert [node_id for node_id in range(6) if admission.vouches_for(node_id)] == [3]
    assert [node_id for node_id in range(6) if admission.is_member(node_id)] == [1, 2, 3, 4]


def test_a_member_of_a_quorum_of_one_knows_nobody() -> None:
    admission = Admission(1)
    admission.update([1])
    assert not admission.is_member(2)
    with pytest.raises(MalformedMessage, match="names no cluster"):
        admission.check(Hello(2, 1, ""), Hello(1, 2, "c"))


def test_frames_of_a_stranger_are_small() -> None:
    with pytest.raises(MalformedMessage):
        list(FrameReader(512).feed(frame(bytes(513))))
